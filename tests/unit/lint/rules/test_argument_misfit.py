"""PG115: calls into torch that do not fit, and those that do."""

from __future__ import annotations

from toytorch import codes

BOX = "from torch._inductor.ir import Box\nimport torch\n"


def test_calls_into_torch() -> None:
    assert codes(f"{BOX}def f(b: Box): b.num_reads(1)\n") == ["PG115"]
    assert codes(f"{BOX}def f(b: Box): b.should_realize(1, graph_reuse=True)\n") == ["PG115"]
    assert codes(f"{BOX}_orig = Box.should_realize\ndef f(b): _orig(b)\n") == ["PG115"]
    assert (
        codes(f"{BOX}_orig = Box.should_realize\ndef f(b, *a, **k): _orig(b, 1), _orig(*a, **k), b.num_reads(1)\n")
        == []
    )
