"""Metrics of the difference between outputs: shares of elements, ulps, errors, and special values
that changed.

Bits are compared, not numbers; errors are against outputs in float64.
"""

from __future__ import annotations

from typing import Any

import torch

Outputs = list[torch.Tensor]
# Outputs, or the name of what was raised.
Outcome = Outputs | str
# The kinds of an element.
_KINDS = ("finite", "NaN", "infinite", "minus infinite")


def differ(unpatched: str, patched: str) -> dict[str, Any]:
    """Compare two files that `outputs.run` wrote: metrics of the outputs, and of `gradients` if
    there are any.

    Shares are of elements, errors are relative 2-norms; `worst_*` is the error of the worst
    element, in ulps of the output's dtype. `memory` has the faults of patched kernels, without the
    kinds that unpatched kernels have too. `launches` has each kernel's first launch that differs.
    """
    ours, theirs = load_files(unpatched, patched)
    metrics = _compare(ours["outputs"], theirs["outputs"])
    if ours["gradients"]["compiled"]:
        metrics["gradients"] = _compare(ours["gradients"], theirs["gradients"])
    for part, compare in (("special", _mismatch), ("small", _small_metrics)):
        metrics[part] = {
            name: compare(sides, theirs[part].get(name, {})) for name, sides in ours[part].items()
        }
    known = {fault["kind"] for fault in ours["memory"]}
    return metrics | {
        "memory": [fault for fault in theirs["memory"] if fault["kind"] not in known],
        "launches": _changed_launches(ours["launches"], theirs["launches"]),
    }


def _changed_launches(
    ours: dict[str, list[str]], theirs: dict[str, list[str]]
) -> dict[str, list[str]]:
    """Kernel -> its first launch that differs, without the patch and with it."""
    pairs = {name: zip(ours[name], theirs[name], strict=False) for name in ours.keys() & theirs}
    changed = {name: [each for each in both if each[0] != each[1]] for name, both in pairs.items()}
    return {name: list(changed[name][0]) for name in sorted(changed) if changed[name]}


def differ_bits(one: str, other: str) -> dict[str, Any]:
    """The share of elements whose bits differ in two runs of one side; `outputs.run` wrote both."""
    first, second = (file["outputs"]["compiled"] for file in load_files(one, other))
    return {"differing": share_differing(first, second)}


def differ_runs(script: str, judged: str) -> dict[str, Any]:
    """Compare the outputs of a script for one seed with those of `outputs.run`, whose last seed is
    the same.
    """
    theirs, written = torch.load(script, weights_only=True), torch.load(judged, weights_only=True)
    ours = written["outputs"]["compiled"]
    return {"differing": share_differing(theirs, ours[len(ours) - len(theirs) :])}


def load_files(unpatched: str, patched: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The contents of both files. Only tensors are read, because untrusted code wrote the patched
    file.
    """
    ours, theirs = (torch.load(path, weights_only=True) for path in (unpatched, patched))
    return ours, theirs


def _compare(ours: dict[str, Outputs], theirs: dict[str, Outputs]) -> dict[str, Any]:
    reference, eager, unpatched = ours["reference"], ours["eager"], ours["compiled"]
    # An infinite error of eager mode or of unpatched code would admit any error elsewhere.
    bounded = [
        torch.isfinite(differences(a, exact) + differences(b, exact))
        for a, b, exact in zip(eager, unpatched, reference, strict=True)
    ]
    truth = _only(reference, bounded)
    sides = {
        "eager": _only(eager, bounded),
        "unpatched": _only(unpatched, bounded),
        "patched": _only(theirs["compiled"], bounded),
    }
    return {
        "elements": sum(tensor.numel() for tensor in ours["compiled"]),
        "differing": share_differing(ours["compiled"], theirs["compiled"]),
        "largest": _largest(ours["compiled"], theirs["compiled"]),
        "is_equal": _is_equal(ours["compiled"], theirs["compiled"]),
        "ulps": ulps(theirs["compiled"], ours["compiled"]),
        "repeats": {
            name: share_differing(side["compiled"], side["again"]) == 0
            for name, side in (("unpatched", ours), ("patched", theirs))
        },
        **{f"error_{side}": distance(outputs, truth) for side, outputs in sides.items()},
        **{f"worst_{side}": ulps(outputs, truth) for side, outputs in sides.items()},
    }


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    # -0.0 and 0.0 are different bits, and NaN equals itself: bits are compared, not numbers.
    return tensor.contiguous().flatten().view(torch.uint8).reshape(tensor.numel(), -1)


def _same_layout(left: Outputs, right: Outputs) -> bool:
    return [(t.shape, t.dtype) for t in left] == [(t.shape, t.dtype) for t in right]


def share_differing(left: Outputs, right: Outputs) -> float:
    """Share of elements whose bits differ; 1 if shapes or dtypes differ."""
    if not _same_layout(left, right):
        return 1.0
    elements = sum(tensor.numel() for tensor in left)
    differing = sum(
        int((_bits(a) != _bits(b)).any(dim=1).sum())
        for a, b in zip(left, right, strict=True)
        if a.numel()
    )
    return differing / elements if elements else 0.0


def _is_equal(left: Outputs, right: Outputs) -> bool:
    """True if all elements are equal as numbers, as 0.0 and -0.0 are; NaN equals NaN."""
    return _same_layout(left, right) and all(
        bool(((a == b) | ((a != a) & (b != b))).all()) for a, b in zip(left, right, strict=True)
    )


def _largest(left: Outputs, right: Outputs) -> float:
    """The largest absolute difference of an element."""
    if not _same_layout(left, right):
        return float("inf")
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a.numel()]
    return max((float(differences(a, b).max()) for a, b in pairs), default=0.0)


def differences(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The absolute difference of each element: 0 if both are NaN or the same infinity, otherwise
    infinite if either is NaN or infinite.
    """
    a, b = left.double(), right.double()
    same = (a == b) | (a.isnan() & b.isnan())
    return (a - b).abs().nan_to_num(nan=torch.inf, posinf=torch.inf).masked_fill(same, 0.0)


def _only(outputs: Outputs, masks: Outputs) -> Outputs:
    """The outputs with 0 at elements outside the masks; an output of another shape is unchanged."""
    pairs = zip(outputs, masks, strict=True)
    return [
        tensor.masked_fill(~mask, 0) if tensor.shape == mask.shape else tensor
        for tensor, mask in pairs
    ]


def _finite(tensor: torch.Tensor) -> torch.Tensor:
    """The values in float64, with 0 for NaN and infinities."""
    return tensor.double().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def distance(outputs: Outputs, reference: Outputs) -> float:
    """The 2-norm of the difference, relative to the 2-norm of the reference."""
    pairs = [(a.flatten(), b.flatten()) for a, b in zip(outputs, reference, strict=True)]
    if not pairs:
        return 0.0
    difference = torch.cat([differences(a, b) for a, b in pairs]).norm()
    return float(difference / torch.cat([_finite(b) for _, b in pairs]).norm().clamp_min(1e-300))


def ulps(outputs: Outputs, reference: Outputs) -> float:
    """The largest difference of an element, in ulps of `outputs`' dtype at the element's size.

    An element smaller than the tensor's root mean square counts as that large: an ulp near zero
    says nothing about a sum whose terms cancelled.
    """
    worst = 0.0
    for a, b in zip(outputs, reference, strict=False):
        if a.shape != b.shape:
            return float("inf")
        if a.numel() and a.is_floating_point():
            truth = _finite(b)
            scale = truth.abs().clamp_min(float(truth.square().mean().sqrt())).clamp_min(1e-300)
            unit = torch.finfo(a.dtype).eps * torch.exp2(torch.floor(torch.log2(scale)))
            worst = max(worst, float((differences(a, b) / unit).max()))
    return worst


def _mismatch(ours: dict[str, Outcome], theirs: dict[str, Outcome]) -> str:
    """How the kind of the patched outcome differs from the unpatched and the eager outcome; empty
    if it equals either.

    The kind of an exception is its name. The kind of outputs says for each element if it is NaN,
    infinite or finite.
    """
    after = theirs.get("compiled", "nothing")
    known = [ours["compiled"], ours["eager"]]
    if isinstance(after, str):
        return "" if after in known else f"raises {after}"
    alike = [
        outcome
        for outcome in known
        if not isinstance(outcome, str) and _same_layout(outcome, after)
    ]
    if not alike:
        raised = [outcome for outcome in known if isinstance(outcome, str)]
        return f"gives outputs, not {raised[0]}" if raised else "outputs of another shape or dtype"
    other, first = 0, ""
    for index, tensor in enumerate(after):
        got, *known_kinds = map(_special_class, (tensor, *(each[index] for each in alike)))
        wrong = torch.stack([got != each for each in known_kinds]).all(dim=0)
        other += int(wrong.sum())
        if wrong.any() and not first:
            first = ", not ".join(_KINDS[int(each[wrong][0])] for each in (got, known_kinds[-1]))
    total = sum(tensor.numel() for tensor in after)
    return f"{other} of {total} elements differ; the first is {first}" if other else ""


def _small_metrics(ours: dict[str, Outcome], theirs: dict[str, Outcome]) -> dict[str, Any]:
    """The mismatch, and the difference of the outputs if both sides have outputs of one form."""
    before, after = ours["compiled"], theirs.get("compiled", "nothing")
    metrics: dict[str, Any] = {"mismatch": _mismatch(ours, theirs), "differing": 0.0}
    metrics |= {"ulps": 0.0, "is_equal": True}
    if not isinstance(before, str) and not isinstance(after, str) and _same_layout(before, after):
        metrics |= {"differing": share_differing(before, after), "ulps": ulps(after, before)}
        metrics["is_equal"] = _is_equal(before, after)
    return metrics


def _special_class(tensor: torch.Tensor) -> torch.Tensor:
    """The kind of each element, as its place in `_KINDS`."""
    return tensor.isnan() * 1 + tensor.isposinf() * 2 + tensor.isneginf() * 3
