"""PG110: an imported module is not there, and neighbours that are."""

from __future__ import annotations

from toytorch import found


def test_missing_module() -> None:
    assert found("import torch._inductor.old\n") == ["1: PG110 red module `torch._inductor.old` missing [from 2.11]"]
    assert found("import torch._inductor.ir, torch.nn.functional, numpy.absent\n") == []
