"""Runs graphs and compares the results of operators that are not torch's with their fake forms."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

# torch's own operators, whose fake forms torch tests.
_OF_TORCH = ("aten", "prims", "prim", "inductor", "higher_order", "_c10d_functional")


def calls_own_operators(graph: torch.fx.GraphModule) -> bool:
    """True if a graph calls an operator that is not torch's."""
    return any(map(_is_own, graph.graph.nodes))


def _is_own(node: torch.fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.namespace not in _OF_TORCH


class FakesHeld(torch.fx.Interpreter):
    """Runs a graph, and raises if the shape or dtype of an operator's result differs from the fake
    form, on which generated code relies.
    """

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if _is_own(n) and "val" in n.meta:
            leaves = zip(
                pytree.tree_leaves(result), pytree.tree_leaves(n.meta["val"]), strict=False
            )
            for real, fake in leaves:
                if isinstance(real, torch.Tensor) and isinstance(fake, torch.Tensor):
                    _compare(str(n.target), real, fake)
        return result


def _compare(operator: str, real: torch.Tensor, fake: torch.Tensor) -> None:
    known = all(isinstance(size, int) for size in fake.shape)
    if real.dtype is not fake.dtype or (known and real.shape != fake.shape):
        raise TypeError(
            f"{operator} gives {real.dtype}{list(real.shape)}, its fake form "
            f"{fake.dtype}{list(fake.shape)}"
        )
