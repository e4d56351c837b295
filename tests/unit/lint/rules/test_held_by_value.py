"""PG118: who still holds the original, unless it is rebound there too."""

from __future__ import annotations

from toyindex import toy_release
from toytorch import codes, found, toy_sources


def test_holders_by_value() -> None:
    source = "import torch._inductor.ir as ir\ndef f(x, *args, **kwargs): ...\nir.strides = f\n"
    assert found(source) == ["3: PG118 red the original stays in `torch._inductor.graph.strides` [every release]"]
    also = "import torch._inductor.graph as graph\ngraph.strides = f\n"
    assert codes(source + also) == []


def test_registries_keep_the_original() -> None:
    source = "import torch._inductor.ir as ir\ndef f(x): ...\nir.unused = f\n"
    sources = toy_sources()
    sources["torch._inductor.ir"] += "register_lowering(unused)\n"
    release = toy_release("2.11.0", sources)
    assert found(source, (release,))[0] == (
        "3: PG118 note the original stays registered by `torch._inductor.ir.register_lowering` [2.11]"
    )
    assert "PG118" not in codes(source)
