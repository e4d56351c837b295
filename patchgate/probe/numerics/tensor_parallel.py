"""A small stack of residual blocks over two ranks, tensor-parallel and sequence-parallel.

Mathematically the two are one computation; their outputs are written as variants, as `metamorphic`
does.
"""

from __future__ import annotations

import copy
import os
import tempfile
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.nn.functional as F

from patchgate.probe.numerics.outputs import reproducible, save_outputs, tensors
from patchgate.probe.numerics.ranks import RANKS, await_others, in_ranks, join_group
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.protocol import Request, Stage

# Kind of device -> blocks, rows, hidden and inner size, of all ranks together.
_SIZES = {"codegen": (2, 32, 128, 256), "real": (4, 4096, 2048, 8192)}


class _Stack(torch.nn.Module):
    """h = h + silu(rms_norm(h, w) @ a) @ b, where a rank has some columns of a and the same rows of
    b.

    Tensor-parallel, every rank has all rows of h and the products are summed by an all-reduce. In
    sequence, a
    rank has its own rows: they are gathered before the products, and the sums scattered after.
    """

    def __init__(self, weights: dict[str, torch.Tensor], *, rank: int, sequence: bool) -> None:
        super().__init__()
        self.w = torch.nn.ParameterList(weights["w"])
        self.a = torch.nn.ParameterList(
            t.chunk(RANKS, dim=1)[rank].contiguous() for t in weights["a"]
        )
        self.b = torch.nn.ParameterList(
            t.chunk(RANKS, dim=0)[rank].contiguous() for t in weights["b"]
        )
        self.sequence, self.group = sequence, dist.group.WORLD.group_name

    def forward(self, h: Any) -> Any:
        *norms, last = self.w
        for w, a, b in zip(norms, self.a, self.b, strict=True):
            x = F.rms_norm(h, h.shape[-1:], w)
            x = funcol.all_gather_tensor(x, 0, self.group) if self.sequence else x
            x = F.silu(x @ a) @ b
            if self.sequence:
                h = h + funcol.reduce_scatter_tensor(x, "sum", 0, self.group)
            else:
                h = h + funcol.all_reduce(x, "sum", self.group)
        return F.rms_norm(h, h.shape[-1:], last)


def run(request: Request, stage: Stage) -> dict[str, Any] | None:
    """Write what both ranks give in both forms to the file `outputs`; the failure when a rank could
    not, or None.
    """
    # A name of its own: a try that was killed has left its folder.
    folder = tempfile.mkdtemp(prefix="ranks-", dir=os.path.dirname(request["outputs"]))
    failure = in_ranks(
        lambda rank: _one_rank(rank, folder, request, stage), folder, request.get("patch")
    )
    if failure:
        return failure
    first, second = (
        torch.load(f"{folder}/rank{rank}.pt", weights_only=True) for rank in range(RANKS)
    )
    rows = torch.cat((first.pop("sequence"), second["sequence"]))
    forms = {
        "tensor-parallel and sequence-parallel": ([first["plain"]], [rows]),
        "tensor-parallel on either rank": ([first["plain"]], [second["plain"]]),
    }
    save_outputs(
        {"forms": forms, **{name: [tensor] for name, tensor in first.items()}}, request["outputs"]
    )
    return None


def _one_rank(rank: int, folder: str, request: Request, stage: Stage) -> None:
    """Both forms as this rank has them, compiled; and tensor-parallel eagerly, and in float64."""
    profile = request["profile"]
    apply_patch(request, stage)
    stage("run")
    store = join_group(rank, profile, folder)
    device = (
        torch.device(profile["backend"], rank)
        if profile["backend"] != "cpu"
        else torch.device("cpu")
    )
    with reproducible(profile):
        weights, h = _weights_and_input(*_SIZES[profile["kind"]])
        split, rows = (
            _Stack(weights, rank=rank, sequence=sequence).to(device) for sequence in (False, True)
        )
        whole, own = h.to(device), h.chunk(RANKS)[rank].to(device)
        results = {
            "plain": torch.compile(split)(whole),
            "sequence": torch.compile(rows)(own),
            "eager": split(whole),
            "reference": copy.deepcopy(split).double()(whole.double()),
        }
        save_outputs(
            {name: tensors(result)[0] for name, result in results.items()},
            f"{folder}/rank{rank}.pt",
        )
    await_others(rank, store)


def _weights_and_input(
    blocks: int, rows: int, hidden: int, inner: int
) -> tuple[dict[str, Any], torch.Tensor]:
    """Weights and input, made on the CPU: the same on every rank and device."""
    torch.manual_seed(0)
    weights = {
        "w": [1 + 0.05 * torch.randn(hidden) for _ in range(blocks + 1)],
        "a": [torch.randn(hidden, inner) * hidden**-0.5 for _ in range(blocks)],
        "b": [torch.randn(inner, hidden) * inner**-0.5 for _ in range(blocks)],
    }
    rounded = {name: [tensor.bfloat16() for tensor in listed] for name, listed in weights.items()}
    return rounded, torch.randn(rows, hidden).bfloat16()
