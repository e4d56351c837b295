"""Figures of the difference between outputs: shares of elements, ulps, errors, and special values that got lost.

Decides how a difference is measured. Refuses to know which one is allowed.
"""

from __future__ import annotations

from typing import Any

import torch

Outputs = list[torch.Tensor]


def differ(unpatched: str, patched: str) -> dict[str, Any]:
    """Compare two files that `numerics.run` wrote. Shares are of elements, errors are relative 2-norms.

    `worst_*` is the error of the worst element, in ulps of the output's dtype.
    """
    # The patched file was written by untrusted code: tensors only.
    ours, theirs = (torch.load(path, weights_only=True) for path in (unpatched, patched))
    reference = ours["reference"]
    sides = {"eager": ours["eager"], "unpatched": ours["compiled"], "patched": theirs["compiled"]}
    repeats = share_differing(ours["compiled"], ours["again"]) + share_differing(theirs["compiled"], theirs["again"])
    return {
        "elements": sum(tensor.numel() for tensor in ours["compiled"]),
        "differing": share_differing(ours["compiled"], theirs["compiled"]),
        "largest": _largest(ours["compiled"], theirs["compiled"]),
        "ulps": ulps(theirs["compiled"], ours["compiled"]),
        "deterministic": repeats == 0,
        **{f"error_{side}": distance(outputs, reference) for side, outputs in sides.items()},
        **{f"worst_{side}": ulps(outputs, reference) for side, outputs in sides.items()},
        "special": {name: _lost(ours["special"][name], theirs["special"].get(name)) for name in ours["special"]},
    }


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    # -0.0 and 0.0 are different bits, and NaN equals itself: bits are compared, not numbers.
    return tensor.contiguous().flatten().view(torch.uint8).reshape(tensor.numel(), -1)


def _alike(left: Outputs, right: Outputs) -> bool:
    return [(t.shape, t.dtype) for t in left] == [(t.shape, t.dtype) for t in right]


def share_differing(left: Outputs, right: Outputs) -> float:
    """Share of elements whose bits differ; all of them where shapes or dtypes do."""
    if not _alike(left, right):
        return 1.0
    elements = sum(tensor.numel() for tensor in left)
    differing = sum(int((_bits(a) != _bits(b)).any(dim=1).sum()) for a, b in zip(left, right, strict=True) if a.numel())
    return differing / elements if elements else 0.0


def _largest(left: Outputs, right: Outputs) -> float:
    if not _alike(left, right):
        return float("inf")
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a.numel()]
    return max((float((a.double() - b.double()).abs().max()) for a, b in pairs), default=0.0)


def distance(outputs: Outputs, reference: Outputs) -> float:
    """The 2-norm of the difference, relative to that of the reference."""
    pairs = [(a.double().flatten(), b.double().flatten()) for a, b in zip(outputs, reference, strict=True)]
    if not pairs:
        return 0.0
    apart = torch.cat([a - b for a, b in pairs]).norm()
    return float(apart / torch.cat([b for _, b in pairs]).norm().clamp_min(1e-300))


def ulps(outputs: Outputs, reference: Outputs) -> float:
    """The largest difference of an element, in ulps of `outputs`' dtype at the element's own size.

    An element smaller than the tensor's root mean square counts as that large: next to zero,
    an ulp says nothing about the sum that cancelled.
    """
    worst = 0.0
    for a, b in zip(outputs, reference, strict=False):
        if a.shape != b.shape:
            return float("inf")
        if a.numel() and a.is_floating_point():
            truth = b.double()
            scale = truth.abs().clamp_min(float(truth.square().mean().sqrt())).clamp_min(1e-300)
            unit = torch.finfo(a.dtype).eps * torch.exp2(torch.floor(torch.log2(scale)))
            worst = max(worst, float(((a.double() - truth).abs() / unit).max()))
    return worst


def _lost(ours: dict[str, Outputs], theirs: dict[str, Outputs] | None) -> int:
    """Elements that are NaN, infinite or finite where they are that neither unpatched nor in eager."""
    if theirs is None or not _alike(ours["compiled"], theirs["compiled"]):
        return -1
    triples = zip(ours["compiled"], ours["eager"], theirs["compiled"], strict=True)
    return sum(int(((_class(c) != _class(a)) & (_class(c) != _class(b))).sum()) for a, b, c in triples)


def _class(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.isnan() * 1 + tensor.isposinf() * 2 + tensor.isneginf() * 3


def differ_forms(unpatched: str, patched: str) -> dict[str, Any]:
    """Form -> how far its two outputs lie apart on each side, and how far eager and unpatched lie from float64."""
    ours, theirs = (torch.load(path, weights_only=True) for path in (unpatched, patched))
    told = {
        name: {
            side: {"differing": share_differing(*pair), "distance": distance(*pair)}
            for side, pair in (("unpatched", pair), ("patched", theirs["forms"].get(name, (pair[0], []))))
        }
        for name, pair in ours["forms"].items()
    }
    errors = [distance(ours[side], ours["reference"]) for side in ("eager", "plain")]
    return {"forms": told, "error": max(errors)}
