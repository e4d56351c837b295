"""PG110, PG111, PG112, PG116: a module, name or option is not there, or has moved; neighbours that
are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from toyindex import toy_release, toy_releases
from toytorch import TORCHES, codes, found, toy_sources

from patchgate.lint.index.release import Release
from patchgate.lint.run import lint, lint_source


def test_moved_name() -> None:
    old, new = toy_sources(), toy_sources()
    unused = "def unused(x): ...\n"
    new["torch._inductor.ir"] = new["torch._inductor.ir"].replace(unused, "")
    new["torch._inductor.graph"] += unused
    torches = toy_releases({"2.10.0": old, "2.11.0": new})
    assert found("from torch._inductor.ir import unused\n", torches) == [
        "1: PG112 red `unused` moved to `torch._inductor.graph.unused` [from 2.11]"
    ]
    assert found("from torch._inductor.ir import unused\n") == []


@pytest.mark.parametrize(
    ("now", "code"),
    [
        ("def unused(x): ...", "PG112"),
        ("def unused(x, hint): ...", "PG112"),
        ("def unused(graph): ...", "PG111"),
        ("class unused: ...", "PG111"),
    ],
)
def test_a_namesake_is_no_new_place(now: str, code: str) -> None:
    old, new = toy_sources(), toy_sources()
    new["torch._inductor.ir"] = new["torch._inductor.ir"].replace("def unused(x): ...\n", "")
    new["torch._inductor.graph"] += f"{now}\n"
    torches = toy_releases({"2.10.0": old, "2.11.0": new})
    assert codes("from torch._inductor.ir import unused\n", torches) == [code]


@pytest.mark.parametrize("name", ["WORLD", "GONE"])
@pytest.mark.parametrize("owner", ["group", "heir"])
def test_a_class_has_the_properties_of_its_metaclass(name: str, owner: str) -> None:
    module = """
class _WorldMeta(type):
    @property
    def WORLD(cls): ...
class group(metaclass=_WorldMeta):
    OTHER = 1
class heir(group): ...
"""
    torches = toy_releases({"2.10.0": {"torch._inductor.ir": module}})
    source = f"from torch._inductor.ir import {owner}\n{owner}.{name}\n"
    assert codes(source, torches) == (["PG111"] if name == "GONE" else [])


@pytest.mark.parametrize(
    ("star", "name", "expected"),
    [
        ("typing", "gone", ["PG111"]),
        ("typing", "Optional", []),
        ("cutlass_library.library", "gone", []),
    ],
)
def test_a_star_import_of_the_library_brings_what_is_there(
    star: str, name: str, expected: list[str]
) -> None:
    module = f"from {star} import *\n"
    torches = toy_releases(
        {
            "2.10.0": {"torch._inductor.ir": f"{module}def gone(): ...\n"},
            "2.11.0": {"torch._inductor.ir": module},
        }
    )
    assert codes(f"from torch._inductor.ir import {name}\n", torches) == expected


@pytest.mark.parametrize(
    ("package", "name", "severity"),
    [
        ("torch_npu", "never", "note"),
        ("torch_npu", "gone", "red"),
        ("torchvision", "never", "red"),
    ],
)
def test_a_vendors_package_may_add_what_no_release_has(
    package: str, name: str, severity: str
) -> None:
    torches = toy_releases(
        {
            "2.10.0": {"torch.distributed": "def gone(): ...\n"},
            "2.11.0": {"torch.distributed": ""},
        }
    )
    source = f"import {package}\nfrom torch.distributed import {name}\n"
    (line,) = found(source, torches)
    assert line.split()[1:3] == ["PG111", severity]


def test_a_build_of_triton_may_have_modules_that_no_release_has() -> None:
    torches = toy_releases(
        {
            "2.10.0": {"triton.gone": "", "triton.language": "", "torch.fx.gone": ""},
            "2.11.0": {"triton.language": "", "torch.fx": ""},
        }
    )
    for module, severity in (
        ("triton.mine", "note"),
        ("triton.gone", "red"),
        ("torch.fx.a", "red"),
    ):
        lines = found(f"import {module}\n", torches)
        assert {line.split()[2] for line in lines} == {severity}, module


def test_a_name_that_was_never_there_has_not_moved() -> None:
    findings, _ = lint_source("from torch._inductor.graph import Box\n", "a.py", TORCHES)
    (finding,) = findings
    assert finding.code == "PG111"
    assert finding.fix == "import it from `torch._inductor.ir` there"


def test_a_name_that_is_nowhere_is_missing() -> None:
    assert found("from torch._inductor.ir import Absent, Box\n") == [
        "1: PG111 red `Absent` missing on `torch._inductor.ir` [every release]"
    ]


WRAPPED = "from torch._inductor.ir import Box\ndef f(self): return {0}(self)\n"


@pytest.mark.parametrize(
    "patch",
    [
        "kept = Box.should_realise\n" + WRAPPED.format("kept") + "Box.should_realise = f\n",
        WRAPPED.format("kept") + "Box.should_realise, kept = f, Box.should_realise\n",
        "def install():\n    kept = Box.should_realise\n    Box.should_realise = lambda self: "
        "kept(self)\ninstall()\n",
        "def install():\n    if a:\n        kept = Box.should_realise\n        Box.should_realise "
        "= lambda s: kept\n",
        "if on:\n    kept = Box.should_realise\nBox.should_realise = lambda self: kept(self)\n",
    ],
)
def test_a_misspelt_name_is_red_though_the_patch_assigns_it_afterwards(patch: str) -> None:
    [told] = found("from torch._inductor.ir import Box\n" + patch)
    assert "PG111 red `should_realise` missing on `torch._inductor.ir.Box` [every release]" in told


def test_an_import_is_not_excused_by_a_later_assignment() -> None:
    source = (
        "from torch._inductor import ir\nfrom torch._inductor.ir import absent\nir.absent = "
        "lambda: absent()\n"
    )
    assert [each.split("`")[0] for each in found(source)] == ["2: PG111 red "]


def test_a_name_of_one_module_is_not_excused_by_its_namesake_on_another() -> None:
    source = (
        "from torch._inductor import graph, ir\ngraph.absent = lambda: "
        "1\ngraph.absent()\nir.absent()\n"
    )
    assert [each.split("`")[0] for each in found(source)] == ["4: PG111 red "]


@pytest.mark.parametrize(
    "patch",
    [
        "Box.added = lambda self: 1\nkept = Box.added\n",
        "if not hasattr(Box, 'added'):\n    Box.added = lambda self: 1\nkept = Box.added\n",
        "def install():\n    Box.added = lambda self: 1\ninstall()\nkept = Box.added\n",
        "def use(box: Box):\n    return box.added()\nBox.added = lambda self: 1\n",
        "def use(box: Box):\n    return box.seen\ndef mark(box: Box):\n    box.seen = True\n",
        "def install():\n    if done:\n        return Box.added\n    Box.added = 1\n",
        "kept = getattr(Box, 'added', None)\nBox.added = lambda self: kept\n",
        "try:\n    kept = Box.added\nexcept AttributeError:\n    kept = None\nBox.added = lambda "
        "self: kept\n",
    ],
)
def test_a_name_that_the_patch_adds_may_be_read_from_then_on(patch: str) -> None:
    assert found("from torch._inductor.ir import Box\n" + patch) == []


@pytest.mark.parametrize(
    "call",
    ["mock.patch('torch._inductor.ir.Box.{}')", "mock.patch.object(Box, '{}', lambda self: 1)"],
)
def test_a_name_that_is_mocked_must_be_there_unless_it_is_created(call: str) -> None:
    source = f"from unittest import mock\nfrom torch._inductor.ir import Box\n{call}.start()\n"
    assert [each.split(" on ")[0] for each in found(source.format("should_realise"))] == [
        "3: PG111 red `should_realise` missing"
    ]
    assert "PG111" not in " ".join(found(source.format("should_realize")))
    assert "PG111" not in " ".join(
        found(source.format("should_realise").replace(").start", ", create=True).start"))
    )


NAMES = {
    "torch._inductor.ir": "from torch._inductor.nodes import *\nclass Box:\n    class Key: depth = "
    "1\n"
    "class Failure(ValueError): ...\n",
    "torch._inductor.nodes": "def seed(): ...\n",
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("seed", []),
        ("seeds", ["PG111"]),
        ("Box.Key.depth", []),
        ("Box.Key.absent", ["PG111"]),
        ("Failure.args", []),
        ("Failure.absent", ["PG111"]),
    ],
)
def test_names_of_star_imports_nested_classes_and_builtin_bases(
    name: str, expected: list[str]
) -> None:
    torches = toy_releases({"2.11.0": NAMES})
    told = found(f"import torch._inductor.ir as ir\nir.{name}\n", torches)
    assert [each.split()[1] for each in told] == expected


def test_missing_module() -> None:
    assert found("import torch._inductor.old\n") == [
        "1: PG110 red module `torch._inductor.old` missing [from 2.11]"
    ]
    assert found("import torch._inductor.ir, torch.nn.functional, numpy.absent\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "torch.compile(m, options={'absent': 1, 'threshold': 2})",
        "torch.compile(m, options={'absent': 1}, backend='inductor')",
        "options = {'threshold': 1}\noptions['absent'] = 2\ntorch.compile(m, options=options)",
        "options = dict(threshold=1)\noptions.update(absent=2)\ntorch.compile(m, options=options)",
        "options = {'threshold': 1}\noptions.update({'absent': 2})\ntorch.compile(m, "
        "options=options)",
        "base = {'absent': 1}\ndef f(m):\n    return torch.compile(m, options={'threshold': 1, "
        "**base})",
        "functools.partial(torch.compile, options={'absent': 1})",
        "options = {'absent': 1}\nwith config.patch(options): pass",
        "options = {'absent': 1}\nwith config.patch(**options): pass",
        "with config.patch('absent', 1): pass",
    ],
)
def test_options_in_a_dictionary_however_it_is_built(text: str) -> None:
    source = f"import functools\nimport torch\nfrom torch._inductor import config\n{text}\n"
    assert codes(source) == ["PG116"]
    assert codes(source.replace("absent", "threshold")) == []


@pytest.mark.parametrize(
    "text",
    [
        "torch.compile(m, backend='mine', options={'absent': 1})",
        "torch.compile(m, backend=backend, options={'absent': 1})",
        "torch.compile(m, options={'guard_filter_fn': f})",
        "torch.compile(m, options={name: 1})",
        "options = {'absent': 1}\nmine(options=options)",
        "options = {}\nif hasattr(config, 'absent'):\n    options['absent'] = 1\ntorch.compile(m, "
        "options=options)",
    ],
)
def test_what_is_no_option_of_inductor_or_is_asked_for_first_is_quiet(text: str) -> None:
    assert codes(f"import torch\nfrom torch._inductor import config\n{text}\n") == []


def test_a_key_of_torch_compile_itself_is_there_where_dynamo_takes_it() -> None:
    without = {
        **toy_sources(),
        "torch._dynamo.eval_frame": "def _optimize(backend, *, disable=False): ...\n",
    }
    taken = {
        **without,
        "torch._dynamo.eval_frame": "def _optimize(backend, *, guard_filter_fn=None): ...\n",
    }
    torches = toy_releases({"2.10.0": without, "2.11.0": taken})
    source = (
        "import torch\noptions = {'guard_filter_fn': f, 'use_aoti': True}\ntorch.compile(m, "
        "options=options)\n"
    )
    assert found(source, torches) == [
        "2: PG116 red `torch.compile` has no option `guard_filter_fn` [2.10 and before]"
    ]
    assert found(source.replace("'guard_filter_fn': f, ", ""), torches) == []


def test_config_options() -> None:
    assert found("from torch._inductor import config\nconfig.old_option = 2\n") == [
        "2: PG116 red config option `torch._inductor.config.old_option` missing [from 2.11]"
    ]
    assert codes(
        "from torch._inductor import config\nwith config.patch({'absent': 1, 'threshold': 2}): "
        "pass\n"
    ) == ["PG116"]
    assert codes("from torch._inductor import config\nwith config.patch(absent=1): pass\n") == [
        "PG116"
    ]
    quiet = (
        "from torch._inductor import config\nif hasattr(config, 'old_option'):\n    "
        "config.old_option = 2\n"
    )
    assert codes(quiet) == []
    assert (
        codes("from torch._inductor import config\nconfig.threshold\nconfig.save_config()\n") == []
    )


ADDED = "from torch._inductor import config\n{0}config.patch(mine=True)\n"


@pytest.mark.parametrize(
    "adds",
    [
        "config._config['mine'] = entry()\n",
        "config._config.update({'mine': entry()})\n",
        "config._config.setdefault('mine', entry())\n",
        "for name in options:\n    config._config[name] = entry()\n",
        "config.__dict__['mine'] = 1\n",
        "vars(config)['mine'] = 1\n",
        "object.__setattr__(config, 'mine', 1)\n",
        "install_config_module(config)\n",
        "def add(module, name):\n    module._config[name] = entry()\nadd(config, 'mine')\n",
    ],
)
def test_an_option_that_the_patch_adds_is_not_missing(adds: str) -> None:
    assert codes(ADDED.format(adds)) == []
    assert codes(ADDED.format(adds).replace("mine=True", "thresholds=True")) == (
        [] if "name" in adds or "install" in adds else ["PG116"]
    )


def test_an_option_of_no_release_is_a_note_unless_it_is_nearly_spelled_as_one() -> None:
    source = "from torch._inductor import config\nconfig.{} = 1\n"
    assert [each.split()[2] for each in found(source.format("fresh_idea"))] == ["note"]
    assert [each.split()[2] for each in found(source.format("treshold"))] == ["red"]
    assert [each.split()[2] for each in found(source.format("old_option"))] == ["red"]


def test_the_public_form_of_a_private_name_may_be_the_projects_own() -> None:
    release = (
        toy_release("2.11.0", {"torch._inductor.ir": "class Box:\n    def _iterator(self): ...\n"}),
    )
    source = "from torch._inductor.ir import Box\ndef use(box: Box): return box.{}()\n"
    for name, severity in (("iterator", "note"), ("_iterater", "red")):
        assert found(source.format(name), release)[0].split()[2] == severity


@pytest.mark.parametrize(
    "mine",
    [
        "class Mine(Box):\n    def extra(self): ...\n",
        "class Mine(Box):\n    def __init__(self):\n        self.extra = {}\n",
        "def mark(body):\n    body.extra = {}\n",
        "for name in names:\n    setattr(Box, name, value)\n",
        "for module in modules:\n    setattr(module, 'extra', value)\n",
        "Box.__getattr__ = answer\n",
    ],
)
def test_what_an_object_of_the_projects_own_may_have_is_not_missing(mine: str) -> None:
    source = f"from torch._inductor.ir import Box\n{mine}def use(box: Box): return box.extra\n"
    assert [each for each in codes(source) if each != "PG126"] == []
    assert codes(source.replace(mine, "")) == ["PG111"]


ENUM = {
    "torch._inductor.ir": "import enum\nfrom typing import NamedTuple\nclass Kind(enum.Enum):\n    "
    "A = 1\n"
    "class Pair(NamedTuple):\n    left: int\n"
}


@pytest.mark.parametrize(
    "name", ["Kind.A", "kind.name", "kind.value", "pair._replace", "pair.left", "Kind.mro"]
)
def test_members_that_python_makes_are_not_missing(name: str) -> None:
    source = (
        f"from torch._inductor.ir import Kind, Pair\ndef f(kind: Kind, pair: Pair): return {name}\n"
    )
    assert codes(source, toy_releases({"2.11.0": ENUM})) == []
    assert codes(source.replace(name, name + "s"), toy_releases({"2.11.0": ENUM})) == ["PG111"]


def test_backends_come_from_other_wheels() -> None:
    torches = toy_releases(
        {"2.11.0": {**toy_sources(), "triton.backends.nvidia": "def f(): ...\n"}}
    )
    source = "from triton.backends.{} import f\n"
    assert codes(source.format("intel.compiler"), torches) == []
    moved = toy_releases({"2.11.0": {"torch.distributed._tensor": "", "torch.distributed.a": ""}})
    assert codes("import torch.distributed._tensor.api\n", moved) == []
    assert codes("import torch.distributed.api\n", moved) == ["PG110"]
    assert codes(source.format("nvidia").replace(" f\n", " g\n"), torches) == ["PG111"]


@pytest.mark.parametrize(
    ("before", "function", "expected"),
    [
        ("", "def f(x: ir.Absent): ...\n", ["PG111"]),
        ("", "def f() -> ir.Absent: ...\n", ["PG111"]),
        ("", "x: ir.Absent\n", ["PG111"]),
        ("", "def f(): \n    x: ir.Absent = 1\n", []),
        ("", "def f(x: 'ir.Absent'): ...\n", []),
        ("from __future__ import annotations\n", "def f(x: ir.Absent): ...\nx: ir.Absent\n", []),
    ],
)
def test_annotations_are_read_where_python_evaluates_them(
    before: str, function: str, expected: list[str]
) -> None:
    assert codes(f"{before}import torch._inductor.ir as ir\n{function}") == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch.cuda._get_device_properties", []),
        ("torch.cuda.has_magma", []),
        ("torch.cuda.FloatTensor", []),
        ("torch.cuda._get_device_propertys", ["PG111"]),
        ("torch.fx.has_magma", ["PG111"]),
    ],
)
def test_what_the_device_brings_when_it_is_initialised_is_not_missing(
    name: str, expected: list[str]
) -> None:
    torches = toy_releases(
        {"2.10.0": {"torch.cuda": "def init(): ...\n", "torch.fx": "class Graph: ...\n"}}
    )
    assert codes(f"import torch\n{name}\n", torches) == expected


def _alone(folder: Path, source: str, torches: Sequence[Release]) -> list[str]:
    """Return the findings of lint in a file that lies in no package."""
    (folder / "patch.py").write_text(source)
    report = lint([folder / "patch.py"], torches, whole=True)
    return [
        f"{each.span.line}: {each.code} {each.severity.value} {each.message}"
        for each in report.findings
    ]


_UNLOADED = "PG111 red `{0}` of `torch._inductor` is a module that nothing has imported by then"
_USE = "kept = torch._inductor.a.f\n"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import torch._inductor\n" + _USE, ["2: " + _UNLOADED.format("a")]),
        (
            "import torch._inductor\nimport json, packaging.version\nx = len(json.dumps([]))\n"
            + _USE,
            ["4: "],
        ),
        ("import torch._inductor\nx = len(torch._inductor.a.f())\n", ["2: "]),
        ("import torch\n" + _USE, ["2: " + _UNLOADED.format("a")]),
        ("import torch\nkept = torch._inductor.start\n", []),  # torch imports it when it is read
        ("import torch._inductor.a\n" + _USE, []),
        ("import torch._inductor.b\n" + _USE, []),  # it imports a
        ("from torch._inductor import a\nimport torch\n" + _USE, []),
        ("import torch._inductor\nimport vllm\n" + _USE, []),  # which may import it
        ("import torch._inductor\nfrom . import other\n" + _USE, []),
        ("import importlib, torch._inductor\nimportlib.import_module(NAME)\n" + _USE, []),
        ("import torch._inductor\ntorch._inductor.start()\n" + _USE, []),
        (
            "import torch._inductor\ndef install():\n    return torch._inductor.a.f\n",
            [],
        ),  # when all is loaded
        ("import torch._inductor\ntry:\n    " + _USE + "except AttributeError:\n    pass\n", []),
        ("import torch._inductor\nif hasattr(torch._inductor, 'a'):\n    " + _USE, []),
    ],
)
def test_a_submodule_that_nothing_has_imported(
    tmp_path: Path, source: str, says: list[str]
) -> None:
    modules = {
        "torch._inductor.a": "def f(): ...\n",
        "torch._inductor.b": "from torch._inductor.a import f\n",
    }
    torches = [toy_release("2.11.0", {"torch._inductor": "def start(): ...\n", **modules})]
    found = _alone(tmp_path, source, torches)
    assert len(found) == len(says) and all(map(str.startswith, found, says)), found
    (tmp_path / "__init__.py").touch()  # whose code runs before
    assert _alone(tmp_path, source, torches) == []


def test_a_package_that_imports_its_submodules_when_they_are_asked_for(tmp_path: Path) -> None:
    package = "def __getattr__(name): ...\n"
    torches = [
        toy_release("2.11.0", {"torch._inductor": package, "torch._inductor.a": "def f(): ...\n"})
    ]
    assert _alone(tmp_path, "import torch._inductor\n" + _USE, torches) == []


def test_a_config_module_that_is_called_as_the_table_of_another() -> None:
    options = "import sys\nfrom torch.utils._config_module import install_config_module\n"
    options += "known = True\ninstall_config_module(sys.modules[__name__])\n"
    torches = toy_releases({"2.10.0": {"torch.fx.experimental._config": options}})
    used = "import torch\nwith torch.fx.experimental._config.patch({}=True):\n    pass\n"
    assert [each.split()[1:3] for each in found(used.format("knwn"), torches)] == [["PG116", "red"]]
    assert found(used.format("known"), torches) == []


def test_an_object_that_hides_a_module_of_its_name() -> None:
    driver = {"triton.runtime.driver": "driver = make()\n", "triton.runtime": ""}
    used = "import torch._inductor\nimport triton.runtime.driver as d\nd.active\n"
    assert [each.split()[1:3] for each in found(used, toy_releases({"2.10.0": driver}))] == [
        ["PG111", "red"]
    ]
    hiding = driver | {"triton.runtime": "from .driver import driver\n"}
    assert found(used, toy_releases({"2.10.0": hiding})) == []


_STUBS = toy_releases(
    {
        "2.10.0": {
            "torch._C._cpu": "def _init_tile() -> bool: ...\nclass Tile: ...\nwidth: int\n",
            "torch._C": "def _kept(): ...\n",
        },
        "2.11.0": {
            "torch._C._cpu": "def _later() -> bool: ...\n",
            "torch._C": "def _kept(): ...\n",
        },
    }
)


@pytest.mark.parametrize("name", ["_init_tile", "Tile", "width"])
def test_a_name_that_left_an_extension_in_c(name: str) -> None:
    assert found(f"import torch\ntorch._C._cpu.{name}\n", _STUBS) == [
        f"2: PG111 red `{name}` missing on `torch._C._cpu` [from 2.11]"
    ]


@pytest.mark.parametrize("name", ["_later", "_never", "_kept", "_sub._name"])
def test_a_name_of_an_extension_that_no_older_release_has(name: str) -> None:
    assert found(f"import torch\ntorch._C._cpu.{name}()\ntorch._C._kept()\n", _STUBS) == []


def test_a_star_from_an_extension_may_bring_any_name() -> None:
    of = {"torch.monitor": "from torch._C._monitor import *\n", "torch._C._monitor": "x: int\n"}
    torches = toy_releases({"2.10.0": of})
    assert found("from torch.monitor import Stat\nfrom torch.monitor import x\n", torches) == []


_TORCH_ITSELF = "def compile(model=None, *, fullgraph=False{more}): ...\nglobals()['add'] = 1\n"
_ITSELF = toy_releases(
    {
        version: {"torch": _TORCH_ITSELF.format(more=more), "torch._inductor.ir": ""}
        for version, more in (("2.12.0", ""), ("2.13.0", ", recompile_limit=None"))
    }
)


def test_an_argument_that_a_function_of_torch_itself_does_not_take() -> None:
    source = "import torch\ntorch.compile(f, {0}=1)\ntorch.add(1, {0}=1)\ntorch.absent\n"
    [told] = found(source.format("recompile_limit"), _ITSELF)
    assert told.startswith("2: PG115 red ") and told.endswith("[2.12 and before]")
    assert found(source.format("fullgraph"), _ITSELF) == []


def test_a_module_that_left_with_its_package() -> None:
    old = {"torch._opaque": "", "torch._inductor.ir": "", "torch.onnx._internal.jit": ""}
    torches = toy_releases({"2.8.0": old, "2.9.0": {"torch.onnx": "", "torch._inductor.ir": ""}})
    source = "from torch.onnx._internal import jit\nimport torch._inductor.ir\n"
    assert found(source, torches) == [
        "1: PG110 red module `torch.onnx._internal` missing [from 2.9]"
    ]


@pytest.mark.parametrize("device", ["cuda", "xpu", "mtia", "sparse"])
def test_types_of_tensors_come_from_outside_of_a_module(device: str) -> None:
    module = f"torch.{device}"
    torches = toy_releases({"2.10.0": {module: "def first(): ...\n"}})
    assert found(f"import torch\n{module}.FloatTensor\n", torches) == []
    assert codes(f"import torch\n{module}.FloatTensors\n", torches) == ["PG111"]


@pytest.mark.parametrize(("times", "severity"), [(1, "red"), (4, "red"), (5, "note")])
def test_an_attribute_that_is_used_again_and_again_is_no_slip(times: int, severity: str) -> None:
    box = "class Box:\n    def iterator(self): ...\n"
    release = (toy_release("2.11.0", {"torch._inductor.ir": box}),)
    uses = "".join(f"    print({each}, box.iterater)\n" for each in range(times))
    lines = found(f"from torch._inductor.ir import Box\ndef use(box: Box):\n{uses}", release)
    assert [each.split()[2] for each in lines] == [severity] * len(lines)
    assert lines
