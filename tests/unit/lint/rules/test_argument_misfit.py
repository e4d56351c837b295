"""PG115: calls into torch that do not fit, and those that do."""

from __future__ import annotations

import pytest
from toyindex import toy_releases
from toytorch import codes, found, toy_sources

BOX = "from torch._inductor.ir import Box\nimport torch\n"


def test_calls_into_torch() -> None:
    assert codes(f"{BOX}def f(b: Box): b.num_reads(1)\n") == ["PG115"]
    assert codes(f"{BOX}def f(b: Box): b.should_realize(1, graph_reuse=True)\n") == ["PG115"]
    assert codes(f"{BOX}_orig = Box.should_realize\ndef f(b): _orig(b)\n") == ["PG115"]
    assert (
        codes(
            f"{BOX}_orig = Box.should_realize\ndef f(b, *a, **k): _orig(b, 1), _orig(*a, **k), "
            "b.num_reads(1)\n"
        )
        == []
    )


def test_a_call_that_meets_the_patchs_own_replacement_fits_that() -> None:
    call = "import torch._inductor.ir as ir\nir.unused(1, 2)\n"
    assert codes(call) == ["PG115"]
    assert "PG115" not in codes(f"{call}ir.unused = lambda x, y: x\n")


def test_a_call_on_an_object_may_meet_a_derived_class() -> None:
    sources = toy_sources()
    call = "from torch._inductor.ir import IRNode\ndef f(node: IRNode): return node.num_reads(1)\n"
    assert codes(call) == ["PG115"]
    sources["torch._inductor.ir"] += "class More(Box):\n    def num_reads(self, deep): ...\n"
    assert codes(call, toy_releases({"2.11.0": sources})) == []


def test_a_class_method_is_given_the_class() -> None:
    source = f"{BOX}def wrap(cls, data): return cls.should_realize(data, 2, graph_reuse=True)\n"
    assert "PG115" not in codes(f"{source}Box.wrap = classmethod(wrap)\n")


@pytest.mark.parametrize(
    ("first", "caught", "red"),
    [
        ("strides(1)", "TypeError", False),
        ("strides(1)", "Exception", True),
        ("int(1)", "TypeError", True),
        ("unused(1, 2, 3)", "TypeError", True),
    ],
)
def test_what_stands_behind_a_call_that_fits_is_for_other_releases(
    first: str, caught: str, red: bool
) -> None:
    source = (
        "from torch._inductor.ir import strides, unused\ndef f():\n    try:\n"
        f"        {first}\n    except {caught}:\n        unused(1, 2)\n"
    )
    assert codes(source) == ["PG115"] * red


@pytest.mark.parametrize(
    ("passed", "severity"), [("multibuffer=1", "note"), ("old=1", "red"), ("1, 2, 3", "red")]
)
def test_a_build_of_triton_may_take_what_no_release_takes(passed: str, severity: str) -> None:
    module = "triton.runtime.autotuner"
    torches = toy_releases(
        {
            "2.10.0": {module: "class Config:\n    def __init__(self, kwargs, old=0): ...\n"},
            "2.11.0": {module: "class Config:\n    def __init__(self, kwargs): ...\n"},
        }
    )
    lines = found(f"from {module} import Config\nConfig({passed})\n", torches)
    assert {line.split()[2] for line in lines} == {severity}


SPECIAL = {
    "torch.distributed.checkpoint.state_dict_saver": (
        "def save(state_dict, *, storage_writer=None): ...\ndef other(state_dict): ..."
    ),
    "torch.library": (
        "def define(qualname, schema, *, lib=None): ...\ndef impl(qualname, types, func=None): ..."
    ),
    "torch._inductor.kernel.mm_common": (
        "def mm_grid(m, n, meta, *, cdiv): ...\ndef mm_args(m, n): ..."
    ),
    "torch._refs": "def abs(a): ...",
    "torch._dynamo.trace_rules": "def _allowed_callable_ids(): ...\ndef lookup(): ...",
}


@pytest.mark.parametrize(
    ("call", "red"),
    [
        ("torch.library.define(lib, 'f(Tensor a) -> Tensor', '')", False),
        ("torch.library.impl(lib, 'f', 'CPU', with_keyset=True)", False),
        ("torch.distributed.checkpoint.state_dict_saver.save({}, 1)", False),
        ("torch.distributed.checkpoint.state_dict_saver.other({}, 1)", True),
        ("torch._inductor.kernel.mm_common.mm_grid(1, 2, {})", False),
        ("torch._inductor.kernel.mm_common.mm_args(1, 2, {})", True),
        ("torch._refs.abs(1, out=2)", False),
        ("torch._refs.abs(1, into=2)", True),
        ("torch._dynamo.trace_rules._allowed_callable_ids(1)", False),
        ("torch._dynamo.trace_rules.lookup(1)", True),
    ],
)
def test_what_a_decorator_of_torch_puts_in_the_place_takes_more(call: str, red: bool) -> None:
    assert ("PG115" in codes(f"import torch\n{call}\n", toy_releases({"2.11.0": SPECIAL}))) is red


WHEEL = "class Wheel:\n    def __init__(self, size): ...\n    def turn(self, by): ...\n"
DERIVED = (
    "from torch.fx.a import Wheel\nclass Own({0}):\n    def other(self, x):\n        return {1}\n"
)


@pytest.mark.parametrize(
    ("bases", "call", "red"),
    [
        ("Wheel", "super().turn(1, 2)", True),
        ("Wheel", "super().turn(1)", False),
        ("Wheel", "super().turn(*x)", False),
        ("Wheel", "super().__init__(1, 2)", True),
        ("Wheel", "super().__init__(1)", False),
        ("Mixin, Wheel", "super().__init__(1, 2)", False),
        ("Mixin", "super().__init__(1, 2)", False),
    ],
)
def test_super_calls_the_one_base(bases: str, call: str, red: bool) -> None:
    torches = toy_releases(
        {"2.11.0": {"torch.fx.a": f"{WHEEL}class Big(Wheel):\n    def __init__(self, a, b): ...\n"}}
    )
    assert codes(DERIVED.format(bases, call), torches) == ["PG115"] * red


_TAKES = "import torch._inductor.ir as ir\n{0}ir.Box.should_realize(1, 2, **kept)\n"


@pytest.mark.parametrize(
    ("made", "red"),
    [
        ("kept = dict(graph_reuse=True)\n", True),
        ("kept = {'graph_reuse': True, **other}\n", True),
        ("kept = {}\nif flag:\n    kept['graph_reuse'] = True\n", True),
        ("kept = dict(users=1)\n", True),
        ("kept = dict()\n", False),
        ("kept = dict(graph_reuse=True)\nkept.pop('graph_reuse')\n", False),
        ("kept = dict(graph_reuse=True)\ndel kept['graph_reuse']\n", False),
        ("kept = dict(graph_reuse=True)\nkept.pop(name, None)\n", False),
        ("kept = {}\nif new:\n    kept['graph_reuse'] = True\n", False),
        ("kept = dict(graph_reuse=True)\nif not new:\n    kept.clear()\n", False),
        ("kept = {}\nif hasattr(other, 'x'):\n    kept = {'a': 1}\nkept = other\n", False),
    ],
)
def test_what_two_stars_pass(made: str, red: bool) -> None:
    gate = "from torch import __version__\nnew = __version__ >= (2, 13)\n"
    source = _TAKES.format(gate.replace("(2, 13)", "'2.13'") * ("new" in made) + made)
    assert ("PG115" in codes(source)) is red


def test_a_class_whose_base_has_new_may_take_what_its_init_does_not() -> None:
    sources = toy_sources()
    sources["torch._inductor.ir"] += (
        "class Undecorated:\n    def __new__(cls, function=None): ...\n"
        "class NoGrad(Undecorated):\n    def __init__(self): ...\n"
        "class Plain:\n    def __init__(self): ...\n"
    )
    torches = toy_releases({"2.11.0": sources})
    assert codes("from torch._inductor.ir import NoGrad\nNoGrad(print)\n", torches) == []
    assert codes("from torch._inductor.ir import Plain\nPlain(print)\n", torches) == ["PG115"]


def test_a_class_that_only_renames_another_takes_what_that_takes() -> None:
    sources = toy_sources()
    sources["torch._inductor.ir"] += (
        "class Schedule:\n    def __init__(self, first): ...\n"
        "class _Schedule(Schedule):\n    pass\n"
        "class Other(Schedule):\n    extra: int = 1\n"
    )
    torches = toy_releases({"2.11.0": sources})
    heir = "from torch._inductor.ir import {0}\nclass Mine({0}):\n    def __init__(self):\n"
    heir += "        super().__init__({1})\n"
    assert codes(heir.format("_Schedule", "1, verbose=2"), torches) == ["PG115"]
    assert codes(heir.format("_Schedule", "1"), torches) == []
    assert codes(heir.format("Other", "1, verbose=2"), torches) == []  # perhaps a dataclass


@pytest.mark.parametrize(("joined", "red"), [("    else:\n    ", False), ("    if b:\n    ", True)])
def test_a_key_of_the_other_branch_is_not_passed(joined: str, red: bool) -> None:
    source = f"{BOX}def f(a, b: Box):\n    t = {{}}\n    if a:\n        t['deep'] = 1\n{joined}"
    assert codes(f"{source}    b.num_reads(**t)\n") == ["PG115"] * red
