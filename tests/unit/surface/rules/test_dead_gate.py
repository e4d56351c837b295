"""PG120: a gate that no release satisfies, and one that some does."""

from __future__ import annotations

from toytorch import codes, found


def test_dead_gate_is_red_only_when_it_keeps_a_replacement_out() -> None:
    source = "import torch\nfrom torch._inductor.ir import Box\nif torch.__version__ < (2, 8):\n    {}\n"
    dead = found(source.format("Box.should_realize = lambda self, *a, **k: 1"))
    assert [line.split(" no known")[0] for line in dead] == ["3: PG120 red"]
    assert [line.split(" no known")[0] for line in found(source.format("raise ImportError"))] == ["3: PG120 note"]
    assert "PG120" not in codes(source.replace("2, 8", "2, 12").format("pass"))
