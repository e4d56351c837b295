"""A tiny workload whose facts follow from its code: one fused kernel, two reads, one write.

Other counts are trusted only if these facts are measured correctly. They need no golden file.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from patchgate.probe.protocol import Profile
from patchgate.probe.simulate.device_context import generates_triton

ROWS, COLUMNS = 64, 256
_BYTES = ROWS * COLUMNS * 4

# The kernel reads x and y (ROWS x COLUMNS, fp32) once each, and writes one result of that size.
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
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(x + y)


def build(
    device: torch.device, dtype: torch.dtype, scale: str
) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """Build the workload, as in a workload file; the inputs are always fp32 and of one size."""
    x, y = (torch.ones(ROWS, COLUMNS, device=device) for _ in range(2))
    return _Relu(), (x, y)


def expected_facts(profile: Profile) -> dict[str, Any]:
    """Return the expected facts on the device of `profile`."""
    return EXPECTED | (EXPECTED_TRITON if generates_triton(profile) else {"kernels.kind.cpp": 1})
