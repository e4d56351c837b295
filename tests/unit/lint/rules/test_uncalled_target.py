"""PG119: nothing in torch calls the target, and targets that are called."""

from __future__ import annotations

from toytorch import codes


def test_a_target_that_nothing_calls() -> None:
    assert codes("import torch._inductor.ir as ir\nir.unused = lambda x: x\n") == ["PG119"]


def test_a_target_that_is_called_or_dispatched_by_name() -> None:
    assert "PG119" not in codes("from torch._inductor.ir import Box\nBox.should_realize = lambda self, *a, **k: 1\n")
    assert "PG119" not in codes("from torch._inductor.ir import Forwarding\nForwarding.__getattr__ = lambda s, n: 1\n")
