"""Runs a workload on the CPU and measures how far its outputs lie from others.

Decides how outputs are produced, stored and compared. Refuses to know which
difference is allowed.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.utils import _pytree as pytree

from patchgate.probe.capture import Build, no_caches, standing_in
from patchgate.probe.standin import Profile

Outputs = list[torch.Tensor]


def _tensors(result: Any) -> Outputs:
    return [leaf.detach() for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _as_float64(value: Any) -> Any:
    is_module = isinstance(value, torch.nn.Module)
    return value.double() if is_module or (torch.is_tensor(value) and value.is_floating_point()) else value


def run(build: Build, *, dtype: torch.dtype, dynamic: bool, profile: Profile, seed: int, path: str) -> None:
    """Write eager, compiled (twice, to see determinism) and float64 outputs of one seed to `path`.

    One thread: the order of a parallel reduction is not the patch's doing. The profile's vector ISA
    is taken as given, because Inductor's own check of it starts processes that import torch anew.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    with torch.no_grad(), no_caches(), standing_in(profile | {"threads": 1}):
        module, args = build(torch.device("cpu"), dtype, "small")
        compiled = torch.compile(module, dynamic=dynamic)
        outputs = {
            "compiled": _tensors(compiled(*args)),
            "again": _tensors(compiled(*args)),
            "eager": _tensors(module(*args)),
            "reference": _tensors(_as_float64(copy.deepcopy(module))(*pytree.tree_map(_as_float64, args))),
        }
    torch.save(outputs, path)


def differ(unpatched: str, patched: str) -> dict[str, Any]:
    """Compare two files that `run` wrote. Shares are of elements, errors are relative 2-norms."""
    # The patched file was written by untrusted code: tensors only.
    ours, theirs = (torch.load(path, weights_only=True) for path in (unpatched, patched))
    reference = ours["reference"]
    share, largest, elements = _difference(ours["compiled"], theirs["compiled"])
    noise, _, _ = _difference(ours["compiled"], ours["again"])
    patched_noise, _, _ = _difference(theirs["compiled"], theirs["again"])
    return {
        "elements": elements,
        "differing": share,
        "largest": largest,
        "deterministic": noise == 0 and patched_noise == 0,
        "error_eager": _error(ours["eager"], reference),
        "error_unpatched": _error(ours["compiled"], reference),
        "error_patched": _error(theirs["compiled"], reference),
    }


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    # -0.0 and 0.0 are different bits, and NaN equals itself: bits are compared, not numbers.
    return tensor.flatten().view(torch.uint8).reshape(tensor.numel(), -1)


def _difference(left: Outputs, right: Outputs) -> tuple[float, float, int]:
    """(share of elements whose bits differ, largest absolute difference, number of elements)."""
    if [(t.shape, t.dtype) for t in left] != [(t.shape, t.dtype) for t in right]:
        return 1.0, float("inf"), sum(t.numel() for t in left)
    elements = sum(tensor.numel() for tensor in left)
    differing = sum(int((_bits(a) != _bits(b)).any(dim=1).sum()) for a, b in zip(left, right, strict=True) if a.numel())
    largest = max(
        (float((a.double() - b.double()).abs().max()) for a, b in zip(left, right, strict=True) if a.numel()),
        default=0.0,
    )
    return (differing / elements if elements else 0.0), largest, elements


def _error(outputs: Outputs, reference: Outputs) -> float:
    pairs = [(a.double().flatten(), b.double().flatten()) for a, b in zip(outputs, reference, strict=True)]
    if not pairs:
        return 0.0
    distance = torch.cat([a - b for a, b in pairs]).norm()
    return float(distance / torch.cat([b for _, b in pairs]).norm().clamp_min(1e-300))
