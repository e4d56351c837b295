"""Records -> files -> records, and the questions of lint, on small sources."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from toyindex import built, index_of
from toymodules import IR, MODULES

from patchgate.lint.index.build import in_scope
from patchgate.lint.index.format import texts
from patchgate.lint.index.records import Parameter
from patchgate.lint.index.release import load, releases

LATER = {**MODULES, "torch._inductor.ir": IR.replace("self, size", "self, size, more=0")}


def test_what_is_read_is_what_was_built(tmp_path: Path) -> None:
    index = index_of(tmp_path, {"2.6.0": MODULES, "2.7.0": LATER, "2.8.0": MODULES})
    for version, expected in (("2.6.0", MODULES), ("2.7.0", LATER), ("2.8.0", MODULES)):
        assert index.release(version).records().modules == built(version, expected).modules


def test_the_files_depend_on_the_records_alone(tmp_path: Path) -> None:
    index = index_of(tmp_path, {"2.6.0": MODULES, "2.7.0": LATER})
    backwards = dict(reversed(LATER.items()))
    assert texts([built("2.6.0", MODULES), built("2.7.0", backwards)]) == texts(
        [index.release(version).records() for version in ("2.6.0", "2.7.0")]
    )
    assert (tmp_path / "api" / "torch._inductor.tools.jsonl").read_text() == (
        '["","def","helper","function","",["*a","d"],{"2.6.0..":["2ae2f2"]}]\n'
        '["","def","other","function","",[],{"2.6.0..":["3f90cf"]}]\n'
    )


def test_a_line_says_its_releases(tmp_path: Path) -> None:
    index_of(tmp_path, {"2.6.0": MODULES, "2.7.0": LATER})
    lines = (tmp_path / "api" / "torch._inductor.ir.jsonl").read_text().splitlines()
    assert [re.sub("[0-9a-f]{6}", "...", line) for line in lines if "__init__" in line] == [
        '["Root","def","__init__","method","",["self","size"],{"2.6.0":["..."]}]',
        '["Root","def","__init__","method","",["self","size","more=0"],{"2.7.0..":["..."]}]',
    ]


def test_records(tmp_path: Path) -> None:
    release = index_of(tmp_path, {"2.6.0": MODULES}).release("2.6.0")
    module = release.module("torch._inductor.ir")
    assert module is not None
    assert module.imports["alias"] == "torch._inductor.tools.other"
    assert "GraphLowering" not in module.imports and "GraphLowering" in module.lazy_imports
    assert module.functions["plain"].parameters == (
        Parameter(name="a", kind="positional-only"),
        Parameter(name="b", kind="positional"),
        Parameter(name="c", kind="positional", default="(1, 'x, y')"),
        Parameter(name="args", kind="var-positional"),
        Parameter(name="d", kind="keyword"),
        Parameter(name="e", kind="keyword", default="lambda x, y: {'k': x}"),
        Parameter(name="rest", kind="var-keyword"),
    )
    root = module.classes["Root"]
    assert (
        root.abstract
        and {"size": "int", "left": None, "kind": "str"}.items() <= root.attributes.items()
    )
    assert {name: each.form for name, each in root.functions.items()} == {
        "__init__": "method",
        "half": "property",
        "make": "static",
        "wrap": "class",
    }
    config = release.module("torch._inductor.config")
    assert config is not None and config.config == {"depth": "3", "triton.cudagraphs": "False"}


def test_a_module_that_installs_itself_has_options(tmp_path: Path) -> None:
    install = (
        "import sys\nfrom torch.utils._config_module import install_config_module\nspeed = 1\n"
    )
    sources = {
        "torch.fx.a": install + "install_config_module(sys.modules[__name__])\n",
        "torch.fx.b": install,
    }
    release = index_of(tmp_path, {"2.6.0": sources}).release("2.6.0")
    first, second = release.module("torch.fx.a"), release.module("torch.fx.b")
    assert first is not None and first.config == {"speed": "1"}
    assert second is not None and second.config == {}


def test_who_holds_derives_and_calls(tmp_path: Path) -> None:
    release = index_of(tmp_path, {"2.6.0": MODULES}).release("2.6.0")
    assert release.holders("torch._inductor.tools.other") == ("torch._inductor.ir.alias",)
    assert release.holders("torch._inductor.ir.plain") == ()
    assert release.subclasses("torch._inductor.ir.Root") == ("torch._inductor.ir.Forwarding",)
    (site,) = release.calls("helper")
    assert (site.function, site.positional, site.keywords, site.star) == ("plain", 2, ("d",), True)
    assert release.calls("plain") == ()


def test_calls_are_reported_with_their_function(tmp_path: Path) -> None:
    text = (
        "def f(x): ...\ndef g(): f(1)\nclass module:\n    def m(self): f(2, x=3)\n    def "
        "n(self): f(*[1])\nf(x=1)\n"
    )
    later = text.replace("g(): f(1)", "g(): f(1), f()")
    index = index_of(tmp_path, {"2.6.0": {"torch.fx.a": text}, "2.7.0": {"torch.fx.a": later}})
    assert (tmp_path / "calls" / "torch.fx.jsonl").read_text() == (
        '["torch.fx.a","","",{"2.6.0..":["f/0,x"]}]\n'
        '["torch.fx.a","","g",{"2.6.0..":["f/1"],"2.7.0..":["f/0"]}]\n'
        '["torch.fx.a","module","m",{"2.6.0..":["f/1,x"]}]\n'
        '["torch.fx.a","module","n",{"2.6.0..":["f/0*"]}]\n'
    )
    functions = [site.function for site in index.release("2.7.0").calls("f")]
    assert functions == ["", "g", "g", "module.m", "module.n"]
    assert [site.function for _, _, site in index.calls_in("torch.fx.a")] == functions


def test_scope() -> None:
    wanted = [
        "torch/_inductor/ir.py",
        "torch/fx/__init__.py",
        "triton/__init__.py",
        "torch/_ops.py",
        "torch/__init__.py",
        "torch/onnx/__init__.py",
        "torch/_C/_cpu.pyi",
    ]
    other = [
        "torch/testing/__init__.py",
        "triton/language/core.py",
        "torch/fx/a.pyi",
        "torch/_opsx.py",
    ]
    assert [path for path in wanted + other if in_scope(path)] == wanted


def test_the_shipped_index_is_small_and_whole() -> None:
    from patchgate.lint.index.release import FOLDER

    assert len(releases()) == 14
    assert sum(file.stat().st_size for file in FOLDER.rglob("*.json*")) < 21_000_000
    for version in releases():
        assert load(version).resolve("torch._inductor.ir.StorageBox.num_reads") is not None


def test_what_one_thread_asks_is_not_recorded_for_another():
    release = load(releases()[-1])
    release.questions = set()
    other = threading.Thread(target=lambda: release.ask(lambda of: of.version))
    other.start()
    other.join()
    asked, release.questions = release.questions, None
    assert asked == set()


def test_calls_of_a_package_that_stands_apart_are_not_indexed(tmp_path: Path) -> None:
    of = dict.fromkeys(("torch.ao.pruning", "torch.optim.adam"), "def f(): ...\nf()\n")
    release = index_of(tmp_path, {"2.6.0": of}).release("2.6.0")
    assert [site.module for site in release.calls("f")] == ["torch.optim.adam"]
    assert release.resolve("torch.ao.pruning.f") is not None
