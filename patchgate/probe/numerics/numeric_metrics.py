"""Figures of the difference between outputs: shares of elements, ulps, errors, and special values that got lost.

Decides how a difference is measured. Refuses to know which one is allowed.
"""

from __future__ import annotations

from typing import Any

import torch

Outputs = list[torch.Tensor]
# Outputs, or the name of what was raised.
Outcome = Outputs | str


def differ(unpatched: str, patched: str) -> dict[str, Any]:
    """Compare two files that `numerics.run` wrote: figures of the outputs, of `gradients` where there are any.

    Shares are of elements, errors are relative 2-norms; `worst_*` is the error of the worst element, in ulps of
    the output's dtype.
    """
    # The patched file was written by untrusted code: tensors only.
    ours, theirs = (torch.load(path, weights_only=True) for path in (unpatched, patched))
    found = _compared(ours["outputs"], theirs["outputs"])
    if ours["gradients"]["compiled"]:
        found["gradients"] = _compared(ours["gradients"], theirs["gradients"])
    found["special"] = {name: _lost(told, theirs["special"].get(name, {})) for name, told in ours["special"].items()}
    found["small"] = {name: _apart(told, theirs["small"].get(name, {})) for name, told in ours["small"].items()}
    return found


def _compared(ours: dict[str, Outputs], theirs: dict[str, Outputs]) -> dict[str, Any]:
    reference = ours["reference"]
    sides = {"eager": ours["eager"], "unpatched": ours["compiled"], "patched": theirs["compiled"]}
    return {
        "elements": sum(tensor.numel() for tensor in ours["compiled"]),
        "differing": share_differing(ours["compiled"], theirs["compiled"]),
        "largest": _largest(ours["compiled"], theirs["compiled"]),
        "ulps": ulps(theirs["compiled"], ours["compiled"]),
        "repeats": {
            name: share_differing(side["compiled"], side["again"]) == 0
            for name, side in (("unpatched", ours), ("patched", theirs))
        },
        **{f"error_{side}": distance(outputs, reference) for side, outputs in sides.items()},
        **{f"worst_{side}": ulps(outputs, reference) for side, outputs in sides.items()},
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


def _lost(ours: dict[str, Outcome], theirs: dict[str, Outcome]) -> str:
    """How the patched outcome is neither the unpatched one's kind nor eager's; "" where it is one of them.

    An outcome is the name of what was raised, or outputs: NaN, infinite or finite in each element.
    """
    after = theirs.get("compiled", "nothing")
    known = [ours["compiled"], ours["eager"]]
    if isinstance(after, str):
        return "" if after in known else f"raises {after}"
    alike = [one for one in known if not isinstance(one, str) and _alike(one, after)]
    if not alike:
        raised = [one for one in known if isinstance(one, str)]
        return f"gives outputs, not {raised[0]}" if raised else "outputs of another shape or dtype"
    other = 0
    for number, tensor in enumerate(after):
        fits = torch.stack([_class(tensor) == _class(one[number]) for one in alike])
        other += int((~fits.any(dim=0)).sum())
    return f"{other} other" if other else ""


def _apart(ours: dict[str, Outcome], theirs: dict[str, Outcome]) -> dict[str, Any]:
    """As `_lost`, and how far the outputs lie apart where both sides give some."""
    before, after = ours["compiled"], theirs.get("compiled", "nothing")
    found: dict[str, Any] = {"lost": _lost(ours, theirs), "differing": 0.0, "ulps": 0.0}
    if not isinstance(before, str) and not isinstance(after, str) and _alike(before, after):
        found |= {"differing": share_differing(before, after), "ulps": ulps(after, before)}
    return found


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
