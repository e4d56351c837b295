"""Resolve dotted names: through imports, stars, base classes and names that hide a submodule."""

from __future__ import annotations

from pathlib import Path

import pytest
from toyindex import built, index_of
from toymodules import MODULES


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
def test_a_module_that_makes_names_may_have_any(
    tmp_path: Path, text: str, kind: str | None
) -> None:
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
    assert release.records().modules == built("2.6.0", modules).modules


def test_what_a_package_imports_hides_a_submodule_of_that_name(tmp_path: Path) -> None:
    modules = {
        "triton.runtime": (
            "from triton.runtime.driver import driver\nfrom triton.runtime import jit\n"
        ),
        "triton.runtime.driver": "class Config:\n    active: int\ndriver = Config()\n",
        "triton.runtime.jit": "",
    }
    release = index_of(tmp_path, {"2.6.0": modules}).release("2.6.0")
    kinds = {name: release.resolve(f"triton.runtime.{name}") for name in ("driver", "jit")}
    assert {name: each.kind if each else None for name, each in kinds.items()} == {
        "driver": "attribute",
        "jit": "module",
    }


def test_functorch_hands_on_names_of_torch(tmp_path: Path) -> None:
    modules = {
        "torch._functorch.partitioners": "def partition(): ...\n",
        "torch._inductor.user": (
            "from functorch.compile import absent, partition\nfrom functorch.other import "
            "partition as p\n"
        ),
    }
    release = index_of(tmp_path, {"2.6.0": modules}).release("2.6.0")
    found = {
        name: release.resolve(f"torch._inductor.user.{name}")
        for name in ("partition", "absent", "p")
    }
    assert {name: each.origin for name, each in found.items() if each} == {
        "partition": "torch._functorch.partitioners.partition",
        "absent": "functorch.compile.absent",
        "p": "functorch.other.partition",
    }
