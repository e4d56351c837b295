"""Records -> files -> records, and the questions of lint, on small sources."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from toyindex import built, index_of

from patchgate.surface.adding import sources
from patchgate.surface.api import Parameter
from patchgate.surface.build import in_scope
from patchgate.surface.index import load, releases
from patchgate.surface.indexwrite import texts
from patchgate.surface.spans import Spans
from patchgate.surface.spelling import spelled

IR = '''
import abc
from typing import TYPE_CHECKING
from torch._inductor.tools import helper, other as alias
if TYPE_CHECKING:
    from torch._inductor.graph import GraphLowering

limit: int = 3
first, second = 1, 2

def plain(a, /, b, c=(1, "x, y"), *args, d, e=lambda x, y: {"k": x}, **rest) -> dict[str, int]:
    """Doc."""
    helper(a, b, d=1, *args)

async def later(*, x=None): ...

class Root(abc.ABC):
    kind: str
    shared = 1
    def __init__(self, size):
        self.size: int = size
        self.left, self.right = size
    @property
    def half(self) -> int: return self.size
    @half.setter
    def half(self, value): ...
    @staticmethod
    def make(a): ...
    @classmethod
    def wrap(cls): return cls.make(1)
    class Inner:
        def deep(self): ...

class Forwarding(Root):
    def __getattr__(self, name): ...

class Error(ValueError): ...
'''
TOOLS = "def helper(*a, d): ...\ndef other(): from torch._inductor import late\n"
CONFIG = "depth = 3\nclass triton:\n    cudagraphs: bool = False\n"
MODULES = {"torch._inductor.ir": IR, "torch._inductor.tools": TOOLS, "torch._inductor.config": CONFIG}
LATER = {**MODULES, "torch._inductor.ir": IR.replace("self, size", "self, size, more=0")}


def test_what_is_read_is_what_was_built(tmp_path: Path) -> None:
    index = index_of(tmp_path, {"2.6.0": MODULES, "2.7.0": LATER, "2.8.0": MODULES})
    for version, expected in (("2.6.0", MODULES), ("2.7.0", LATER), ("2.8.0", MODULES)):
        assert sources(index, version).modules == built(version, expected).modules


def test_the_files_depend_on_the_records_alone(tmp_path: Path) -> None:
    index = index_of(tmp_path, {"2.6.0": MODULES, "2.7.0": LATER})
    backwards = dict(reversed(LATER.items()))
    assert texts([built("2.6.0", MODULES), built("2.7.0", backwards)]) == texts(
        [sources(index, "2.6.0"), sources(index, "2.7.0")]
    )
    assert (tmp_path / "api" / "torch._inductor.tools.txt").read_text() == (
        "module torch._inductor.tools\ndef helper(*a, d)\t#2ae2f2\ndef other()\t#3f90cf\n"
    )


def test_a_line_says_its_releases(tmp_path: Path) -> None:
    index_of(tmp_path, {"2.6.0": MODULES, "2.7.0": LATER})
    lines = (tmp_path / "api" / "torch._inductor.ir.txt").read_text().splitlines()
    assert [re.sub("#[0-9a-f]{6}", "#...", line) for line in lines if "__init__" in line] == [
        "def __init__(self, size)\t#... 2.7.0-",
        "def __init__(self, size, more=0)\t2.7.0#...",
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
    assert root.abstract and {"size": "int", "left": None, "kind": "str"}.items() <= root.attributes.items()
    assert {name: each.form for name, each in root.functions.items()} == {
        "__init__": "method",
        "half": "property",
        "make": "static",
        "wrap": "class",
    }
    config = release.module("torch._inductor.config")
    assert config is not None and config.config == {"depth": "3", "triton.cudagraphs": "False"}


def test_a_module_that_installs_itself_has_options(tmp_path: Path) -> None:
    install = "import sys\nfrom torch.utils._config_module import install_config_module\nspeed = 1\n"
    sources = {"torch.fx.a": install + "install_config_module(sys.modules[__name__])\n", "torch.fx.b": install}
    release = index_of(tmp_path, {"2.6.0": sources}).release("2.6.0")
    first, second = release.module("torch.fx.a"), release.module("torch.fx.b")
    assert first is not None and first.config == {"speed": "1"}
    assert second is not None and second.config == {}


@pytest.mark.parametrize(
    ("dotted", "kind"),
    [
        ("torch._inductor.ir", "module"),
        ("torch._inductor.ir.plain", "function"),
        ("torch._inductor.ir.alias", "function"),
        ("torch._inductor.ir.Root.Inner.deep", "function"),
        ("torch._inductor.ir.Forwarding.size", "attribute"),
        ("torch._inductor.ir.Forwarding.unknown", "maybe"),
        ("torch._inductor.ir.Error.args", "attribute"),
        ("torch._inductor.ir.Error.unknown", None),
        ("torch._inductor.ir.Root.unknown", None),
        ("torch._inductor.ir.GraphLowering", None),
        ("torch._inductor.absent", None),
    ],
)
def test_resolve(tmp_path: Path, dotted: str, kind: str | None) -> None:
    found = index_of(tmp_path, {"2.6.0": MODULES}).release("2.6.0").resolve(dotted)
    assert (found.kind if found else None) == kind


def test_who_holds_derives_and_calls(tmp_path: Path) -> None:
    release = index_of(tmp_path, {"2.6.0": MODULES}).release("2.6.0")
    assert release.holders("torch._inductor.tools.other") == ("torch._inductor.ir.alias",)
    assert release.holders("torch._inductor.ir.plain") == ()
    assert release.subclasses("torch._inductor.ir.Root") == ("torch._inductor.ir.Forwarding",)
    (site,) = release.calls("helper")
    assert (site.function, site.positional, site.keywords, site.star) == ("plain", 2, ("d",), True)
    assert release.calls("plain") == ()


def test_ranges_of_releases() -> None:
    spans = Spans(["2.6.0", "2.7.0", "2.8.0", "2.9.0"])
    for mask in range(1, 16):
        assert spans.mask(spans.text(mask)) == mask
    assert [spans.text(mask) for mask in (1, 3, 14, 13)] == ["2.6.0", "2.6.0..2.7.0", "2.7.0..", "2.6.0,2.8.0.."]


@pytest.mark.parametrize(
    ("values", "life", "text"),
    [
        ("aaaa", 15, "#a"),
        ("aabb", 15, "#a 2.8.0#b"),
        (" aba", 15, "2.7.0#a 2.8.0#b 2.9.0#a"),
        ("aa a", 15, "#a 2.8.0- 2.9.0#a"),
        ("a  b", 9, "#a 2.9.0#b"),
        (" aa ", 14, "#a 2.9.0-"),
    ],
)
def test_steps_of_a_value(values: str, life: int, text: str) -> None:
    spans = Spans(["2.6.0", "2.7.0", "2.8.0", "2.9.0"])
    told = {1 << at: value for at, value in enumerate(values) if value != " "}
    assert spans.steps(told, life) == text
    read = {1 << at: value for mask, value in spans.stepped(text, life) for at in range(4) if mask >> at & 1}
    assert read == told


@pytest.mark.parametrize(
    ("annotation", "one"),
    [
        ("Optional[List['X']]", "list[X] | None"),
        ("typing.Union[int, None, 'a.B']", "int | a.B | None"),
        ("None | Optional[str]", "str | None"),
        ("Dict[str, Tuple[int, ...]]", "dict[str, tuple[int, ...]]"),
        ("Literal['a', 'b']", "Literal['a', 'b']"),
        ("collections.abc.Sequence[X]", "Sequence[X]"),
        ("'no annotation at all'", "'no annotation at all'"),
    ],
)
def test_one_spelling_for_annotations(annotation: str, one: str) -> None:
    assert spelled(ast.parse(annotation, mode="eval").body) == one


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("for name in 'ab':\n    globals()[name] = 1\n", "maybe"),
        ("import sys\nme = sys.modules[__name__]\ndef f(): setattr(me, 'a', 1)\n", "maybe"),
        ("import sys\nsys.modules[__name__].__class__ = type\n", "maybe"),
        ("def __getattr__(name): ...\n", "maybe"),
        ("x = globals()['a']\nsetattr(x, 'b', 1)\n", None),
        ("globals()['a'] += 1\n", None),
        ("from torch.fx.other import *\n", None),
        ("from torch.nn import *\n", "maybe"),
    ],
)
def test_a_module_that_makes_names_may_have_any(tmp_path: Path, text: str, kind: str | None) -> None:
    modules = {"torch.fx.a": text, "torch.fx.other": ""}
    found = index_of(tmp_path, {"2.6.0": modules}).release("2.6.0").resolve("torch.fx.a.absent")
    assert (found.kind if found else None) == kind


def test_star_imports_bring_names(tmp_path: Path) -> None:
    modules = {
        "torch.cuda": "from torch.cuda.memory import *\nfrom torch.cuda.random import *\n",
        "torch.cuda.memory": "def used(): ...\n",
        "torch.cuda.random": "def seed(): ...\n",
    }
    release = index_of(tmp_path, {"2.6.0": modules}).release("2.6.0")
    found = [release.resolve(f"torch.cuda.{name}") for name in ("used", "seed", "absent")]
    assert [each.origin if each else None for each in found] == [
        "torch.cuda.memory.used",
        "torch.cuda.random.seed",
        None,
    ]
    assert sources(release.index, "2.6.0").modules == built("2.6.0", modules).modules


def test_what_a_package_imports_hides_a_submodule_of_that_name(tmp_path: Path) -> None:
    modules = {
        "triton.runtime": "from triton.runtime.driver import driver\nfrom triton.runtime import jit\n",
        "triton.runtime.driver": "class Config:\n    active: int\ndriver = Config()\n",
        "triton.runtime.jit": "",
    }
    release = index_of(tmp_path, {"2.6.0": modules}).release("2.6.0")
    kinds = {name: release.resolve(f"triton.runtime.{name}") for name in ("driver", "jit")}
    assert {name: each.kind if each else None for name, each in kinds.items()} == {
        "driver": "attribute",
        "jit": "module",
    }


def test_calls_are_told_with_their_function(tmp_path: Path) -> None:
    text = "def f(x): ...\ndef g(): f(1)\nclass module:\n    def m(self): f(2, x=3)\n    def n(self): f(*[1])\nf(x=1)\n"
    later = text.replace("g(): f(1)", "g(): f(1), f()")
    index = index_of(tmp_path, {"2.6.0": {"torch.fx.a": text}, "2.7.0": {"torch.fx.a": later}})
    assert (tmp_path / "calls" / "torch.fx.txt").read_text() == (
        "module: torch.fx.a\n- f/0,x\ng f/1\n f/0\t2.7.0..\nclass: module\nm f/1,x\nn f/0*\n"
    )
    functions = [site.function for site in index.release("2.7.0").calls("f")]
    assert functions == ["", "g", "g", "module.m", "module.n"]
    assert [site.function for _, _, site in index.calls_in("torch.fx.a")] == functions


def test_scope() -> None:
    wanted = ["torch/_inductor/ir.py", "torch/fx/__init__.py", "triton/__init__.py", "torch/_ops.py"]
    other = ["torch/nn/__init__.py", "triton/language/core.py", "torch/fx/a.pyi", "torch/_opsx.py"]
    assert [path for path in wanted + other if in_scope(path)] == wanted


def test_the_shipped_index_is_small_and_whole() -> None:
    from patchgate.surface.index import FOLDER

    assert len(releases()) == 14
    assert sum(file.stat().st_size for file in FOLDER.rglob("*.txt")) < 7_000_000  # 8 with the next releases
    for version in releases():
        assert load(version).resolve("torch._inductor.ir.StorageBox.num_reads") is not None
