"""PG118: who still holds the original, unless it is rebound there too."""

from __future__ import annotations

from toytorch import codes, found


def test_holders_by_value() -> None:
    source = "import torch._inductor.ir as ir\ndef f(x, *args, **kwargs): ...\nir.strides = f\n"
    assert found(source) == ["3: PG118 red the original stays in `torch._inductor.graph.strides` [every release]"]
    also = "import torch._inductor.graph as graph\ngraph.strides = f\n"
    assert codes(source + also) == []
