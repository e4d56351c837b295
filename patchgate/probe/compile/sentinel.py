"""A tiny workload whose facts are known by reading it: one fused kernel, two reads, one write.

Decides what must be counted before any other count is believed. It needs no
golden file, because what it holds is arithmetic.
"""

from __future__ import annotations

from typing import Any

import torch

ROWS, COLUMNS = 64, 256
_BYTES = ROWS * COLUMNS * 4

# Reads x and y (ROWS x COLUMNS, fp32) once each and writes as much once.
EXPECTED: dict[str, Any] = {
    "dynamo.graphs": 1,
    "fx.ops": 2,
    "aten.ops": 2,
    "lowering.ir_nodes": 1,
    "kernels.defined": 1,
    "kernels.called": 1,
    "bytes.total": 3 * _BYTES,
}
EXPECTED_TRITON: dict[str, Any] = {"loads": [2], "stores": [1], "kernels.kind.triton_pointwise": 1}


class _Relu(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + y)


def build(device: torch.device, dtype: torch.dtype, scale: str) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """Same interface as a workload file; always fp32, whatever is asked."""
    x, y = (torch.ones(ROWS, COLUMNS, device=device) for _ in range(2))
    return _Relu(), (x, y)


def expected(backend: str) -> dict[str, Any]:
    """The facts that must come out on this backend ("cuda" or "cpu")."""
    return EXPECTED | (EXPECTED_TRITON if backend == "cuda" else {"kernels.kind.cpp": 1})
