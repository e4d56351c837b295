"""PG115: calls into torch that do not fit, and those that do."""

from __future__ import annotations

from toyindex import toy_releases
from toytorch import codes, toy_sources

BOX = "from torch._inductor.ir import Box\nimport torch\n"


def test_calls_into_torch() -> None:
    assert codes(f"{BOX}def f(b: Box): b.num_reads(1)\n") == ["PG115"]
    assert codes(f"{BOX}def f(b: Box): b.should_realize(1, graph_reuse=True)\n") == ["PG115"]
    assert codes(f"{BOX}_orig = Box.should_realize\ndef f(b): _orig(b)\n") == ["PG115"]
    assert (
        codes(f"{BOX}_orig = Box.should_realize\ndef f(b, *a, **k): _orig(b, 1), _orig(*a, **k), b.num_reads(1)\n")
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
