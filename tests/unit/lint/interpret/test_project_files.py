"""Names of a project's other files are followed; what a check does not decide is a note; a `try`
around a call.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from toyindex import toy_releases
from toytorch import TORCHES, codes, found

from patchgate.inputs.patch_source import parse
from patchgate.lint.findings import Severity
from patchgate.lint.index.release import Release
from patchgate.lint.interpret import project_files
from patchgate.lint.interpret.project_files import statements_binding
from patchgate.lint.interpret.references import Usage
from patchgate.lint.interpret.statements import interpret
from patchgate.lint.run import lint

GATES = """
import importlib.metadata
import operator
import torch
from packaging.version import parse
from torch._inductor.virtualized import V as graphs
from .deeper import compare
TORCH = parse(importlib.metadata.version("torch"))
NEW = parse(torch.__version__) >= parse("2.11")
PAIR = [int(part) for part in torch.__version__.split(".")[:2]]
OPERATORS = {">=": operator.ge, "<": operator.lt}
def required_torch_version(min_version=None, max_version=None):
    assert min_version or max_version
    if min_version and TORCH < parse(str(min_version)):
        return False
    if max_version and TORCH > parse(str(max_version)):
        return False
    return True
def compared(operation, version):
    if operation not in OPERATORS:
        raise ValueError
    return OPERATORS[operation](TORCH, parse(version))
"""
OLD = "V.graph.sizevars.size_hint"


def red(folder: Path, check: str, body: str = f"    {OLD}") -> list[str]:
    """The releases in which the file is red: its name is there in 2.10 only."""
    package = folder / "pkg" / "sub"
    package.mkdir(parents=True, exist_ok=True)
    for file in (
        folder / "pkg" / "__init__.py",
        package / "__init__.py",
        folder / "pkg" / "deeper.py",
    ):
        file.write_text("")
    (folder / "pkg" / "deeper.py").write_text("def compare(version): return version >= '2.11'\n")
    (folder / "pkg" / "gates.py").write_text(GATES)
    (folder / "pkg" / "shared.py").write_text(
        "from pkg.gates import *\nfrom .gates import NEW as IS_NEW, graphs\n"
    )
    imports = (
        "import torch, inspect\nfrom torch._inductor.virtualized import V\nfrom "
        "torch._inductor import ir, sizevars\n"
    )
    (package / "patch.py").write_text(f"{imports}{check}\n{body}\n")
    report = lint([package / "patch.py"], TORCHES)
    return [
        torch
        for each in report.findings
        if each.severity is Severity.RED
        for torch in each.releases
    ]


@pytest.mark.parametrize(
    "check",
    [
        "from ..gates import NEW\nif not NEW:",
        "from pkg.shared import IS_NEW\nif not IS_NEW:",
        "from pkg.shared import NEW\nif not NEW:",
        "import pkg.gates as gates\nif gates.PAIR < [2, 11]:",
        "from .. import gates\nif gates.required_torch_version(max_version='2.10.5'):",
        "from ..gates import compared\nif compared('<', '2.11'):",
        "from ..gates import TORCH\nfrom packaging.version import parse\nif TORCH < parse('2.11'):",
        "from somewhere import IS_TORCH_211\nif not IS_TORCH_211:",
        "from somewhere import check_torch_version\nif check_torch_version('2.10'):",
        "from looseversion import LooseVersion\nif LooseVersion(torch.__version__) < "
        "LooseVersion('2.11'):",
    ],
)
def test_a_check_from_another_file_is_a_gate(tmp_path: Path, check: str) -> None:
    assert red(tmp_path, check) == []


@pytest.mark.parametrize(
    "check",
    [
        "from ..gates import NEW\nif NEW:",
        "from ..gates import required_torch_version\nif "
        "required_torch_version(min_version='2.11'):",
        "from ..gates import compared\nif compared('>=', '2.11'):",
        "from somewhere import debug\nif debug:",
        "from somewhere import is_torch_available\nif is_torch_available():",
    ],
)
def test_a_check_that_lets_the_release_in_is_red(tmp_path: Path, check: str) -> None:
    assert red(tmp_path, check)[-2:] == ["2.11.0", "2.13.0"]


def test_the_signature_of_a_function_of_torch_is_a_gate(tmp_path: Path) -> None:
    signature = "inspect.signature(ir.Box.should_realize)"
    assert red(tmp_path, f"if 'graph_reuse' in {signature}.parameters:") == ["2.13.0"]
    assert red(tmp_path, f"if 'graph_reuse' not in {signature}.parameters.keys():") == ["2.11.0"]
    names = f"[each.name for each in {signature}.parameters.values()]"
    assert red(tmp_path, f"if 'graph_reuse' in {names}:") == ["2.13.0"]


def test_an_alias_of_torch_in_another_file_is_torch(tmp_path: Path) -> None:
    assert red(tmp_path, "from ..shared import graphs", "graphs.graph.sizevars.size_hint") == [
        "2.11.0",
        "2.13.0",
    ]
    assert red(tmp_path, "from ..shared import graphs", "graphs.graph.sizevars") == []


def test_what_a_check_does_not_decide_is_a_note() -> None:
    unknown = "import torch._inductor.ir\nfrom elsewhere import torch_version_check as check\n"
    gated = f"{unknown}def f():\n    if check():\n        return\n    import torch._inductor.old\n"
    assert found(gated) == [
        "6: PG110 note module `torch._inductor.old` missing (behind a condition that lint cannot "
        "decide) [from 2.11]"
    ]
    assert codes(gated.replace("check()", "print()")) == ["PG110"]
    assert "red" in found(gated.replace("check()", "print()"))[0]


_PROBE = """
import importlib
def has(modules, names):
    full = "torch"
    for each in modules:
        full = f"{full}.{each}"
        if importlib.util.find_spec(full) is None:
            return False
    module = importlib.import_module(full, package=None)
    return all(hasattr(module, each) for each in names)
"""


@pytest.mark.parametrize(
    ("test", "severity"), [("not has(['ir'], ['a'])", "note"), ("here", "red")]
)
def test_a_probe_for_a_name_that_it_computes_is_not_decided(
    tmp_path: Path, test: str, severity: str
) -> None:
    (tmp_path / "probe.py").write_text(_PROBE)
    use = f"from probe import has\nhere = 1\nif {test}:\n    import torch._inductor.old\n"
    (tmp_path / "use.py").write_text(use)
    assert [each.severity.value for each in lint([tmp_path], TORCHES).findings] == [severity]


def test_a_call_that_fails_in_a_try_is_no_misfit() -> None:
    call = "from torch._inductor.sizevars import SizeVarAllocator\ndef f(a: SizeVarAllocator):\n"
    assert codes(f"{call}    a.optimization_hint(1, wrong=2)\n", TORCHES[1:]) == ["PG115"]
    tried = (
        f"{call}    try:\n        a.optimization_hint(1, wrong=2)\n    except {{}}:\n        pass\n"
    )
    assert codes(tried.format("TypeError"), TORCHES[1:]) == []
    assert codes(tried.format("AttributeError"), TORCHES[1:]) == ["PG115"]


def test_a_function_that_is_called_only_in_a_try_fails_without_harm() -> None:
    function = "def install():\n    import torch._inductor.old\n"
    assert codes(f"{function}try:\n    install()\nexcept Exception:\n    pass\n") == []
    assert codes(f"{function}try:\n    later = install\nexcept Exception:\n    pass\n") == ["PG110"]
    assert codes(f"{function}try:\n    install()\nexcept Exception:\n    pass\ninstall()\n") == [
        "PG110"
    ]


def test_a_mark_on_a_function_does_not_run_it() -> None:
    body = "import torch\ndef f():\n    import torch._inductor.old\nf.mark = True\n"
    test = "if not isinstance(getattr(torch._inductor.ir, 'absent', None), bool):"
    guard = f"def g(target):\n    {test}\n        return\n    target.f = f\n"
    assert codes(f"import torch._inductor.ir\n{body}{guard}") == []
    assert codes(f"import torch._inductor.ir\n{body}{guard.replace('bool', 'object')}") == ["PG110"]


def test_releases_with_the_same_answers_of_a_check_share_a_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(tree: ast.Module, release: Release, *rest: Any, **options: Any) -> Usage:
        seen.append(release.version)
        return interpret(tree, release, *rest, **options)

    monkeypatch.setattr("patchgate.lint.run.interpret", read)
    for bound, expected in (("2.9", ["2.10.0"]), ("2.12", ["2.10.0", "2.13.0"])):
        seen: list[str] = []
        red(tmp_path, f"from ..gates import compared\nif compared('<', '{bound}'):", "    pass")
        assert seen == expected


@pytest.mark.parametrize(("part", "lines"), [("_dynamo", []), ("other", [1])])
def test_a_fork_of_torch_has_names_of_its_own(tmp_path: Path, part: str, lines: list[int]) -> None:
    package = tmp_path / "torch"
    for folder in (package, package / part):
        folder.mkdir()
        (folder / "__init__.py").write_text("")
    (package / "patch.py").write_text(
        "from torch._inductor.mine import f\nimport torch._inductor.mine\n"
    )
    assert [each.span.line for each in lint([package / "patch.py"], TORCHES).findings] == lines


@pytest.mark.parametrize(
    ("url", "lines"),
    [("https://a.b/c/triton.git", []), ("https://a.b/c/triton-kernels", [2]), ("", [2])],
)
def test_a_project_that_builds_its_own_triton_has_names_of_its_own(
    tmp_path: Path, url: str, lines: list[int]
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / ".gitmodules").write_text(f'[submodule "a"]\n\tpath = a\n\turl = {url}\n')
    file = tmp_path / "project" / "patch.py"
    file.write_text("import torch\nfrom triton.compiler.compiler import triton_key\n")
    torches = toy_releases(
        {
            "2.8.0": {"triton.compiler.compiler": "def triton_key(): ...\n"},
            "2.9.0": {"triton.compiler.compiler": ""},
        }
    )
    assert [each.span.line for each in lint([file], torches).findings] == lines


@pytest.mark.parametrize(("package", "lines"), [("triton", []), ("kernels", [1])])
def test_a_fork_of_triton_has_names_of_its_own(
    tmp_path: Path, package: str, lines: list[int]
) -> None:
    (tmp_path / "python" / package / "language").mkdir(parents=True)
    (tmp_path / "third_party").mkdir()
    file = tmp_path / "third_party" / "driver.py"
    file.write_text("from triton.runtime.build import gone\n")
    torches = toy_releases(
        {
            "2.8.0": {"triton.runtime.build": "def gone(): ...\n"},
            "2.9.0": {"triton.runtime.build": ""},
        }
    )
    assert [each.span.line for each in lint([file], torches).findings] == lines


TOP = '''
"""
NEW = "not a statement"
"""
import torch
# NEW = 1
TEXT = "\'\'\'"
try:
    from torch._inductor import scheduler as newest
except ImportError:
    newest = None
if torch.__version__ >= "2.11":
    NEW = True
else:
    NEW = False
TABLE = {}
TABLE["a"] = NEW
TABLE.update(b=1)
@decorated
def uses():
    NEW = 2
    return NEW
class NEWER: ...
value = """
NEW = 3""" if NEW else 4
'''


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("NEW", ["if torch.__version__ >= '2.11':"]),
        ("newest", ["try:"]),
        ("TABLE", ["TABLE = {}", "TABLE['a'] = NEW", "TABLE.update(b=1)"]),
        ("uses", ["@decorated"]),
        ("NEWER", ["class NEWER:"]),
        ("value", ["value = '\\nNEW = 3' if NEW else 4"]),
        ("torch", ["import torch"]),
        ("decorated", []),
    ],
)
def test_the_statements_that_bind_a_name(tmp_path: Path, name: str, lines: list[str]) -> None:
    for number, text in enumerate((TOP, f"{TOP}\n(\n[\nNEW\n] )\n", f"a = 1; import torch\n{TOP}")):
        file = tmp_path / f"file_{number}.py"
        file.write_text(text)
        found = [ast.unparse(each).splitlines()[0] for each in statements_binding(file, name)]
        assert found == ["import torch"] * (number == 2 and name == "torch") + lines


def test_of_another_file_only_what_is_asked_for_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check three files away, and what else those files have."""
    parsed: list[str] = []

    def noted(text: str) -> ast.Module:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(project_files, "parse", noted)
    (tmp_path / "a.py").write_text("from b import *\nfrom c import unasked\nOTHER = 1\n")
    (tmp_path / "b.py").write_text(
        "from c import NEW as IS_NEW\nfrom d import *\nclass Large: ...\n"
    )
    (tmp_path / "c.py").write_text(
        "import torch\nNEW = torch.__version__ >= (2, 11)\nunasked = call()\n"
    )
    (tmp_path / "d.py").write_text("import torch\nunasked = 2\n")
    body = f"from torch._inductor.virtualized import V\nif not IS_NEW:\n    {OLD}\n"
    (tmp_path / "patch.py").write_text(f"from a import IS_NEW\n{body}")
    report = lint([tmp_path / "patch.py"], TORCHES)
    assert [each.code for each in report.findings if each.severity is Severity.RED] == []
    # Neither the class, nor the calls, nor the file that has no such word.
    assert sorted(map(str.strip, parsed)) == [
        "NEW = torch.__version__ >= (2, 11)",
        "from b import *",
        "from c import NEW as IS_NEW",
        "import torch",
    ]
    (tmp_path / "patch.py").write_text(f"from a import OTHER as IS_NEW\n{body.replace('not ', '')}")
    assert "PG111" in {each.code for each in lint([tmp_path / "patch.py"], TORCHES).findings}


def test_files_that_import_each_other(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import torch\nfrom b import LATE\nNEW = torch.__version__ >= (2, 11)\nIS = LATE\n"
    )
    (tmp_path / "b.py").write_text(
        "import torch\nfrom a import NEW, IS as AGAIN\nLATE = NEW and not AGAIN\n"
    )
    source = (
        f"from torch._inductor.virtualized import V\nfrom a import NEW\nif not NEW:\n    {OLD}\n"
    )
    (tmp_path / "patch.py").write_text(source)
    assert [
        each
        for each in lint([tmp_path / "patch.py"], TORCHES).findings
        if each.severity is Severity.RED
    ] == []
    # A value that depends on itself is not known, and the search for it ends.
    (tmp_path / "patch.py").write_text(source.replace("NEW", "IS"))
    assert "PG111" in {each.code for each in lint([tmp_path / "patch.py"], TORCHES).findings}


@pytest.mark.parametrize(
    ("listed", "expected"),
    [("__all__ = ['other']\n", []), ("", ["PG111"]), ("__all__ = names()\n", ["PG111"])],
)
def test_a_star_brings_what_the_file_lists(
    tmp_path: Path, listed: str, expected: list[str]
) -> None:
    for name, text in {
        "pkg/__init__.py": "from .conversion import *\n",
        "pkg/conversion.py": f"import torch._inductor.ir as nn\n{listed}",
        "pkg/nn.py": "def absent(): ...\n",
        "pkg/sub/__init__.py": "",
        "pkg/sub/use.py": "import torch._inductor.ir\nfrom .. import nn\nnn.absent\n",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    found = lint([tmp_path / "pkg" / "sub" / "use.py"], TORCHES).findings
    assert [each.code for each in found if each.severity.value == "red"] == expected
