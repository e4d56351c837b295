"""Compares the results of samples under the patch with results without it and in eager mode."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from patchgate.probe.numerics.numeric_metrics import differences
from patchgate.probe.protocol import NEEDS_DEVICE

# The differences of an element that rounding explains, absolute and relative to its size. In half
# precision they are 8 units in the last place, the default of `largest_ulps`: attention in bfloat16
# moved 4.
_ATOL = {torch.float64: 1e-8}
_RTOL = {
    torch.float32: 1e-5,
    torch.float64: 1e-8,
    torch.bfloat16: 8 * 2**-7,
    torch.float16: 8 * 2**-10,
}
#: The excess (a difference in multiples of the rounding) of an exception, another shape or dtype,
#: or another integer.
INFINITE = 1e30
# The excess of shared memory and of other layouts: small, because different numbers tell more.
_SHARED = 2.0
_LONGEST = 1 << 20
# Results that differ by at most this share of their size are near: rounded, or approximated.
_NEAR = 1e-3
# Results that differ by more than this share of their size are no approximation, if they are finite
# and have at least `_FEW` elements.
_GROSS, _FEW = 0.5, 8
# Numbers up to this size are usual ones.
_USUAL = 1e6
# An element may differ by this times the largest change in its row if inputs change by their last
# digit.
_MOVES = 16
#: Part ("output", "gradient", "input", "state", "shared", "layout") -> its tensors.
Results = dict[str, list[torch.Tensor]]
#: Part of results -> for each tensor, the changes of its elements if inputs change by a last digit.
Spread = Mapping[str, Sequence[torch.Tensor]]
#: For each step, the numbers of Dynamo's graphs and breaks; after an error, no step follows.
Counts = list[tuple[int, int] | str]
_CALLS = "in the first call", "in the second call"
_FEWER = "with three elements", "with two elements"
#: Part of a call that changes -> its steps.
STEPS = {
    "sizes": (*_CALLS, "with another size", "with a third size", *_FEWER),
    "numbers": (*_CALLS, "with another number", "with a third number", "with a fourth number"),
    "programs": ("in the run",),
}
#: `how` of samples in which torch may leave out a product of zero and NaN.
NEXT_TO_ZERO = "with NaN next to a factor of zero"
#: `how` of samples with numbers near zero.
SMALL = "with small numbers"
#: `how` of programs that compile what they call.
COMPILING = "compiling by itself"
# Results of calls with numbers near zero may differ by this share of their size.
_DIGITS = 1e-2
# A way to compile -> the words that name it in a sample's text.
_WAYS = {"compiled": "", "simulated": ", on the simulated GPU"}
# The most samples that a reply names as not judged, because the size of a reply is limited.
_NAMED = 20


def differ_samples(unpatched: str, patched: str) -> dict[str, Any]:
    """Compare a file of `write_samples` with one of `run_samples`: how many samples were judged,
    and which differ.

    `excess` is the difference from eager mode, or from a nearer unpatched compile, in multiples of
    the rounding. Samples that torch compiles wrongly without the patch are not judged.
    """
    ours, theirs = torch.load(unpatched, weights_only=False), torch.load(patched, weights_only=True)
    devices = {at for at, after in theirs["called"].items() if _needs_a_device(after)}
    judged, rounded = {*theirs["calls"]} - devices, 0
    differing: list[dict[str, Any]] = []
    unjudged = [f"{ours['texts'][at]}: not compiled, because others raise" for at in theirs["left"]]
    unjudged += ours["unjudged"]
    unjudged += [f"{ours['texts'][at]}: {NEEDS_DEVICE}" for at in sorted(devices)]
    offered = [(offer, "compiled", outcomes) for offer, outcomes in theirs["offered"].items()]
    own = [("", way, theirs[way]) for way in ("compiled", "simulated")]
    for offer, way, outcomes in (*own, *offered):
        for at, after in sorted(outcomes.items()):
            found = _nearest(ours, way, at, after)
            text = ours["texts"][at] + _WAYS[way]
            if isinstance(found, str):
                unjudged.append(f"{text}: {found}")
                continue
            judged.add(at)
            rounded += 0 < found["excess"] <= 1
            if found["excess"] > 1 and not _is_folded(ours["how"][at], found):
                where = {"at": at, "way": way, "offer": offer, "sample": text}
                where["is_graph"] = ours["is_graph"][at]
                written = ours["drawn" if found.get("is_cast") else "programs"]
                program = "" if offer or way == "simulated" else written[at]
                differing.append({**where, "program": program, **found})
    known = {*devices, *(each["at"] for each in differing)}
    differing += _differing_in_eager_mode(ours, theirs, known)
    differing.sort(key=_hard_to_read)
    _keep_one_program(differing)
    counts = {"samples": len(ours["texts"]), "judged": len(judged), "rounded": rounded}
    more = [
        {"sample": ours["texts"][at], **step}
        for (at, what), before in ours["counts"].items()
        if (step := grown(before, theirs["counts"].get((at, what), []), STEPS[what]))
    ]
    found = {
        "differing": differing,
        "grown": more,
        "kept": _kept(ours, theirs),
        "serial": sorted({*(theirs["serial"] or ())} - {*(ours["serial"] or ())}),
        "settings": _settings_left(ours, theirs),
    }
    return {**counts, **found, "unjudged": unjudged[:_NAMED]}


def _keep_one_program(differing: Sequence[dict[str, Any]]) -> None:
    """Remove all programs but the first, because the size of a reply is limited."""
    written = next((each for each in differing if each["program"]), None)
    for each in differing:
        if each is not written:
            del each["program"]


def _kept(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """The bytes that all programs keep for their backward without the patch and with it, and the
    program whose bytes grow most.
    """
    more = {
        at: theirs["kept"][at] - ours["kept"][at] for at in ours["kept"] if at in theirs["kept"]
    }
    before, after = (sum(side["kept"][at] for at in more) for side in (ours, theirs))
    most = max(more, key=more.__getitem__, default=None)
    text = "" if most is None else ours["texts"][most]
    return {"programs": len(more), "expected": before, "actual": after, "sample": text}


def _differing_in_eager_mode(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], known: Collection[int]
) -> list[dict[str, Any]]:
    """The samples that differ when they are called, without those in `known`."""
    found = []
    for at, after in theirs["called"].items():
        if at in known:
            continue
        before = ours["eager"][at], ours["spread"][at], ours["exact"].get(at)
        away = departure(after, *before, is_small=_is_small(ours, at), of_layout=True)
        if away["excess"] > 1:
            is_called = ours["how"][at] != COMPILING
            text = ours["texts"][at] + ", in eager mode" * is_called
            where = {"at": at, "offer": "", "sample": text, "is_called": is_called}
            found.append({**where, "program": "", **away})
    return found


def _needs_a_device(outcome: Any) -> bool:
    """True for an error about a device that a missing package may register."""
    return isinstance(outcome, str) and outcome.startswith(NEEDS_DEVICE)


def _is_small(ours: Mapping[str, Any], at: int) -> bool:
    return bool(ours["how"][at] == SMALL)


def _is_folded(how: str, found: Mapping[str, Any]) -> bool:
    """True if a result is an argument because torch's compiler leaves out a product with zero."""
    return bool(found.get("is_shared")) and how == NEXT_TO_ZERO


def _hard_to_read(found: Mapping[str, Any]) -> tuple[int, bool, int]:
    """A key that sorts samples. Numbers of a usual size, differences beyond rounding and short
    programs come first; uninitialised memory, and samples that cannot be written out, come last.
    """
    unusual = 2 if "empty" in found["sample"] else found.get("unusual", 1)
    return unusual, bool(found.get("is_near")), len(found["program"]) or _LONGEST


def _unusual(after: complex, before: complex) -> int:
    """Return 0 for two fractions of a usual size; 1 for integers, NaN and infinity; 2 for large
    numbers, which uninitialised memory may hold.
    """
    sizes = [abs(each) for each in (after, before)]
    if any(_USUAL < each < math.inf for each in sizes):
        return 2
    return int(isinstance(before, int) or not all(map(math.isfinite, sizes)))


def _settings_left(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """The states and options of torch that calls leave changed only with the patch; Python's
    settings are not judged.
    """
    left = {*theirs["settings"]} - {*ours["settings"]}
    return sorted(name for name in left if name.startswith(("state ", "config ")))


def _nearest(ours: Mapping[str, Any], way: str, at: int, after: Any) -> dict[str, Any] | str:
    """The difference of a sample from eager mode or from its compile without the patch, whichever
    is smaller; a text if torch itself compiles the sample wrongly.
    """
    if _needs_a_device(after):
        return NEEDS_DEVICE
    eager, spread, exact = ours["eager"][at], ours["spread"][at], ours["exact"].get(at)
    is_small = _is_small(ours, at)
    found = departure(after, eager, spread, exact, is_small=is_small)
    if found["excess"] <= 1 or at not in ours[way]:
        return found
    before = ours[way][at]
    if not isinstance(before, str):
        shared = _shared_by_either(eager, before)
        eager, before = eager | shared, before | shared
        found = departure(after, eager, spread, exact, is_small=is_small)
    if not is_repeated(eager, before, is_small=is_small):
        raises = isinstance(before, str)
        why = f"raises {before}" if raises else "differs from eager mode"
        return f"compiled it {why} unpatched"
    other = departure(after, before, spread, is_small=is_small)
    return min(found, other, key=lambda each: float(each["excess"]))


def grown(unpatched: Counts, patched: Counts, steps: Sequence[str]) -> dict[str, Any]:
    """The first step that raises with the patch, or in which the patch causes more graphs or
    breaks; empty if there is none. For a program, every additional graph or break counts.

    If torch itself breaks the graph, it compiles nothing for other sizes, and does not count the
    break again. One compile for the first other size is then allowed, as for any function. One
    compile for fewer elements is always allowed, since code may have a branch for small sizes. An
    error that needs a device says nothing.
    """
    is_program = steps == STEPS["programs"]
    own = 0  # graphs that the patch itself compiles or splits: compiled again for another size
    most = 0  # breaks of torch's own up to this step
    fewer = 0  # additional graphs for fewer elements
    for step, before, after in zip(steps, unpatched, patched, strict=False):
        if _needs_a_device(after):
            return {}
        if isinstance(before, str) or isinstance(after, str):  # only the patched side has errors
            return {"step": step, "of": "raises", "expected": "runs", "actual": f"raises {after}"}
        (graphs, breaks), (now, broken) = before, after
        # If torch itself breaks the graph, the function around the sample breaks once more.
        most = max(most, breaks)
        if broken > (most if is_program else 2 * most):
            return {"step": step, "of": "breaks", "expected": breaks, "actual": broken}
        if step == steps[0] and not is_program:
            own = max(0, now - graphs)
        elif step in _FEWER and fewer + now <= graphs + own + 1:
            fewer += max(0, now - graphs - own)
        elif now > max(graphs + own * (step in steps[2:]), bool(most) and step in steps[2:3]):
            return {"step": step, "of": "graphs", "expected": graphs, "actual": now}
    return {}


def is_repeated(one: Any, other: Any, *, is_small: bool = False) -> bool:
    """True if both are results, equal except in the last digits."""
    return not isinstance(one, str) and departure(other, one, is_small=is_small)["excess"] <= 1


def moved(part: str, after: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """Return for each element the largest change in its row, or for a gradient, whose terms cancel,
    the largest change in the whole tensor. 0 if no value is finite, or if shapes differ.
    """
    if after.shape != before.shape or not before.is_floating_point() or not before.numel():
        return torch.zeros(before.shape, dtype=torch.float64)
    away = (after.double() - before.double()).abs().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    by_row = away.dim() > 0 and part != "gradient"
    return (away.amax(-1, keepdim=True) if by_row else away.amax()).expand_as(away)


def departure(
    after: Any,
    before: Any,
    spread: Spread | None = None,
    exact: Any = None,
    *,
    is_small: bool = False,
    of_layout: bool = False,
) -> dict[str, Any]:
    """The largest difference between two results in multiples of the rounding, and its place. An
    element of `after` counts as equal if it is as near to the exact value as that of `before`.
    Outputs of small numbers must agree in two digits. With `of_layout`, outputs that are stored in
    another order differ too.
    """
    if isinstance(after, str) or isinstance(before, str):
        raised = after if isinstance(after, str) else f"not {before}"
        return {
            "excess": 0.0 if after == before else INFINITE,
            "what": f"raises {raised}",
            "raises": True,
        }
    largest: dict[str, Any] = {"excess": 0.0, "what": "", "raises": False}
    is_gross = False
    for part, expected in before.items():
        if part in ("shared", "layout"):
            continue
        got = after.get(part, [])
        left = [
            [i for i, t in enumerate(tensors) if not _is_missing(t)] for tensors in (got, expected)
        ]
        if part == "gradient" and left[0] != left[1]:
            what = f"gradients of the tensors {left[0]}, not {left[1]}"
            return {"excess": INFINITE, "what": what, "raises": False, "is_missing": True}
        if [(t.shape, t.dtype) for t in got] != [(t.shape, t.dtype) for t in expected]:
            is_cast = [t.shape for t in got] == [t.shape for t in expected]
            found = {"excess": INFINITE, "what": _other_form(part, got, expected), "raises": True}
            return {**found, "is_form": True, "is_cast": is_cast}
        moves = _of_each(spread, part, len(expected), torch.zeros(()))
        known = _of_each(exact, part, len(expected), None)
        for number, (a, b) in enumerate(zip(got, expected, strict=True)):
            digits = _DIGITS if is_small and part == "output" else math.inf
            excess, at = _excess(a, b, _MOVES * moves[number], known[number], digits)
            is_gross = is_gross or (excess > 1 and _is_gross(a, b, _MOVES * moves[number]))
            if excess > largest["excess"]:
                one, other = (t.flatten()[at].item() for t in (a, b))
                what = f"{part}: {told_apart(one, other)}"
                is_near = b.is_floating_point() and abs(one - other) < _NEAR * abs(other)
                largest = {"excess": excess, "what": what, "raises": False, "is_near": is_near}
                largest["unusual"] = _unusual(one, other)
    if largest["excess"] <= 1 and (what := _more_shared(after, before)):
        largest = {"excess": _SHARED, "what": what, "raises": False, "is_shared": True}
    if of_layout and largest["excess"] <= 1 and (what := _other_layout(after, before)):
        largest = {"excess": _SHARED, "what": what, "raises": False, "is_layout": True}
    return {**largest, "is_gross": is_gross}


def _of_each(side: Any, part: str, count: int, otherwise: Any) -> list[Any]:
    """Return the values of `side` for the `count` tensors of a part. If `side` has another number
    of values, return `otherwise` for each: a graph may have outputs that eager mode lacks.
    """
    known: list[Any] = side.get(part, []) if side else []
    return known if len(known) == count else [otherwise] * count


def shared_memory(outputs: Sequence[Any], others: Sequence[torch.Tensor]) -> torch.Tensor:
    """For each output, True for each later output and each other tensor that shares memory with it:
    a write to the output changes them too.
    """
    tensors = [*outputs, *others]
    spans = [_span(each) for each in tensors]
    found = torch.zeros(len(outputs), len(tensors), dtype=torch.bool)
    for row, column in itertools.product(range(len(outputs)), range(len(tensors))):
        (first, end), (other_first, other_end) = spans[row], spans[column]
        if row < column and max(first, other_first) < min(end, other_end):
            found[row, column] = not _bytes(tensors[row]).isdisjoint(_bytes(tensors[column]))
    return found


def _span(value: Any) -> tuple[int, int]:
    """The address of the first byte of a tensor, and the address after its last byte; 0 and 0 for a
    tensor without elements or strides, and for any other value.
    """
    is_strided = isinstance(value, torch.Tensor) and value.layout is torch.strided
    if not is_strided or not value.numel():
        return 0, 0
    last = sum((n - 1) * step for n, step in zip(value.shape, value.stride(), strict=True))
    return value.data_ptr(), value.data_ptr() + (last + 1) * value.element_size()


def _bytes(value: torch.Tensor) -> set[int]:
    """The addresses of the bytes of a tensor's elements."""
    places = torch.zeros(value.shape, dtype=torch.int64)
    for dim, step in enumerate(value.stride()):
        along = torch.arange(value.shape[dim]) * step
        places += along.reshape(-1, *(1 for _ in value.shape[dim + 1 :]))
    size, start = value.element_size(), value.data_ptr()
    first = (start + at * size for at in places.flatten().tolist())
    return {byte for at in first for byte in range(at, at + size)}


def _shared_by_either(one: Results, other: Results) -> Results:
    pairs = zip(one.get("shared", []), other.get("shared", []), strict=False)
    return {"shared": [a | b if a.shape == b.shape else a for a, b in pairs]}


def _more_shared(after: Results, before: Results) -> str:
    """The first output that shares memory in `after` but not in `before`; empty if there is none.
    Sharing less memory does no harm.
    """
    for got, expected in zip(after.get("shared", []), before.get("shared", []), strict=False):
        if got.shape == expected.shape and (more := got & ~expected).any():
            row, column = more.nonzero()[0].tolist()
            names = [
                f"{part} {number + 1}"
                for part in ("output", "input")
                for number in range(len(after[part]))
            ]
            other = names[column] if column < len(names) else "the module's state"
            return f"output {row + 1} shares its memory with {other}: a write to one changes both"
    return ""


_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def layouts(outputs: Sequence[Any]) -> torch.Tensor:
    """For each output, True if it is stored in rows, and True if it is stored with channels last. A
    tensor with dimensions of one element may be stored in both ways.
    """
    forms = [
        [each.is_contiguous(), each.is_contiguous(memory_format=_CHANNELS_LAST[each.dim()])]
        if isinstance(each, torch.Tensor) and each.dim() in _CHANNELS_LAST
        else [False, False]
        for each in outputs
    ]
    return torch.tensor(forms)


def _other_layout(after: Results, before: Results) -> str:
    """The first output that is stored in rows, but with channels last in `before`; empty if there
    is none. The next convolution then copies it, and views of its last dimensions raise.
    """
    for got, expected in zip(after.get("layout", []), before.get("layout", []), strict=False):
        for number, (form, known) in enumerate(zip(got.tolist(), expected.tolist(), strict=False)):
            if form == [True, False] and known == [False, True]:
                return f"output {number + 1} is stored in rows, not with channels last"
    return ""


def _is_gross(after: torch.Tensor, before: torch.Tensor, moves: torch.Tensor) -> bool:
    if not before.is_floating_point() or before.numel() < _FEW:
        return False
    one, other = after.double(), before.double()
    limit = _GROSS * other.norm() + moves.expand_as(other).norm()
    # A comparison with NaN is False.
    return bool((one - other).norm() > limit) and bool(one.isfinite().all())


def told_apart(one: complex, other: complex) -> str:
    """`238.04901, not 238.049009`: both numbers with enough digits to show the difference."""
    for digits in (6, 9, 17):
        texts = [f"{value:.{digits}g}" for value in (one, other)]
        if texts[0] != texts[1]:
            break
    return ", not ".join(texts)


def _other_form(part: str, got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> str:
    """The first tensor with another shape or dtype; or the numbers of tensors, if these differ."""
    if len(got) != len(expected):
        return f"{part}: {len(got)} in place of {len(expected)} tensors"
    pairs = [tuple(map(shown_tensor, pair)) for pair in zip(got, expected, strict=True)]
    number = next(i for i, (one, other) in enumerate(pairs, 1) if one != other)
    one, other = pairs[number - 1]
    which = f" {number} of {len(pairs)}" if len(pairs) > 1 else ""
    return f"{part}{which}: {one}, not {other}"


def _is_missing(gradient: torch.Tensor) -> bool:
    return gradient.dim() == 1 and not gradient.numel()


def _excess(
    after: torch.Tensor,
    before: torch.Tensor,
    moves: torch.Tensor,
    exact: torch.Tensor | None = None,
    digits: float = math.inf,
) -> tuple[float, int]:
    """The largest difference of an element in multiples of the rounding, and its place. Integers
    must be equal. The absolute rounding is at most the share `digits` of the usual size.
    """
    if not after.numel():
        return 0.0, 0
    away = differences(after, before)
    if not before.is_floating_point():
        at = int(away.flatten().argmax())
        return (INFINITE if away.flatten()[at] > 0 else 0.0), at
    if exact is not None and exact.shape == before.shape:
        away = torch.where(_is_as_near(after, before, exact), 0.0, away)
    truth = before.double().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    # As in `torch.testing.assert_close`, but the size is at least the usual size: the error of a
    # sum that cancels depends on the size of its terms.
    usual = float(truth.square().mean().sqrt())
    size = truth.abs().clamp_min(usual)
    rounding = _ATOL.get(before.dtype, 1e-5)
    if usual:
        rounding = min(rounding, digits * usual)
    excess = (away / (moves + rounding + _RTOL.get(before.dtype, 1e-7) * size)).flatten()
    at = int(excess.argmax())
    return min(float(excess[at]), INFINITE), at


def _is_as_near(after: torch.Tensor, before: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """For each element, True if `after` is as near to the exact value as `before` is. If `before`
    has overflowed, `after` must equal the exact value apart from rounding.
    """
    exact = exact.double()
    away = (after.double() - exact).abs()
    rounding = _ATOL.get(before.dtype, 1e-5) + _RTOL.get(before.dtype, 1e-7) * exact.abs()
    theirs = torch.where(before.isfinite(), (before.double() - exact).abs(), rounding)
    return away <= theirs


def shown_tensor(value: torch.Tensor) -> str:
    """The dtype and shape as text, such as `float32[2, 3] with gradient`."""
    text = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return f"{text} with gradient" if value.requires_grad else text
