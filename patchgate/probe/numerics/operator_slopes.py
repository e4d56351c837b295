"""Compares the gradients that a custom operator has registered with the slopes of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

# Half the distance between the two points of a slope, for a first and a second slope. If the two
# slopes differ, the operator has a step or a bend there, or computes with few digits.
_STEP, _SECOND = 1e-3, 4e-3
# The share by which two slopes may differ, by which the slopes to either side may differ, and by
# which a gradient may differ from a slope. A formula that approximates the gradient is nearer than
# that; a formula that lacks a term is farther away.
_SAME, _BENT, _OFF = 2e-3, 0.1, 0.02
# The most numbers of an argument whose slopes are compared one by one.
_NUMBERS = 256
Point = Sequence[torch.Tensor]


class _Found(Enum):
    """How a gradient compares with a slope."""

    RIGHT = auto()
    WRONG = auto()
    UNCLEAR = auto()


def wrong_gradient(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Describe the first gradient of a call that is not the slope of the result; empty if every
    gradient is a slope. None if gradients are not judged: the precision is not double, or a
    gradient may differ on purpose.

    A gradient may differ on purpose if it is zero or missing, if it is not zero although the
    result is constant, as for a rounded number, or if the operator returns the numbers of an
    argument or a result without a gradient.
    """
    leaves, form = pytree.tree_flatten((args, kwargs))
    own = [at for at, each in enumerate(leaves) if torch.is_tensor(each) and each.requires_grad]
    # Numbers around one would hide a forgotten factor.
    point = [leaves[at].detach() * (0.6 + 0.1 * (place % 4)) for place, at in enumerate(own)]
    if not _is_judged(overload) or {each.dtype for each in point} != {torch.float64}:
        return None

    def results(values: Point) -> list[torch.Tensor]:
        given = list(leaves)
        for at, value in zip(own, values, strict=True):
            given[at] = value.clone()
        own_args, own_kwargs = pytree.tree_unflatten(given, form)
        found = pytree.tree_leaves(overload(*own_args, **own_kwargs))
        return [each for each in found if torch.is_tensor(each) and each.is_floating_point()]

    try:
        found = dict(_compared(results, point))
    except Exception:  # only the operator knows which numbers it takes
        return None
    if not found or _Found.UNCLEAR in found.values():
        return None
    names = [each.name for each in overload._schema.arguments]
    for at, each in found.items():
        if each is _Found.WRONG:
            name = f" of `{names[own[at]]}`" if len(leaves) == len(args) else ""
            return f"its gradient{name} is not the slope of its result"
    return ""


def _is_judged(overload: Any) -> bool:
    """False if the operator changes an argument, or if autograd differentiates its parts."""
    key = "CompositeImplicitAutograd"
    is_composite = torch._C._dispatch_has_kernel_for_dispatch_key(overload.name(), key)
    return not (is_composite or overload._schema.is_mutable)


def _compared(
    results: Callable[[Point], list[torch.Tensor]], point: Point
) -> Iterator[tuple[int, _Found]]:
    """Each argument with a gradient, and how its gradients for all results compare. The last
    finding other than RIGHT counts.
    """
    noise = torch.Generator().manual_seed(0)
    outputs = results([each.clone().requires_grad_() for each in point])
    # A formula may treat a result without a gradient as a constant, such as the scale of each row.
    is_partial = not all(each.requires_grad for each in outputs)
    if is_partial or any(torch.equal(a.flatten(), b.flatten()) for a in outputs for b in point):
        yield 0, _Found.UNCLEAR
        return
    faults: dict[int, _Found] = {}
    for number, output in enumerate(outputs):
        along = torch.randn(output.shape, generator=noise, dtype=torch.float64)
        result = partial(_result, results, number, along)
        for at in range(len(point)):
            gradient = _gradient(result, point, at)
            if gradient is None:
                continue
            found = _compare(result, point, at, gradient)
            # A formula may rely on how the other arguments are made: sines may have to repeat, or
            # shares to add up to one.
            for other in _other_points(point, at) if found is _Found.WRONG else ():
                gradient = _gradient(result, other, at)
                if gradient is not None and (_compare(result, other, at, gradient) is _Found.RIGHT):
                    found = _Found.RIGHT
            faults.setdefault(at, found)
            if found is not _Found.RIGHT:
                faults[at] = found
    yield from faults.items()


def _other_points(point: Point, kept: int) -> Iterator[list[torch.Tensor]]:
    """The point with other values of all arguments except one: first constants, then shares of a
    row.
    """
    for make in (lambda at, each: torch.full_like(each, 0.7 + 0.3 * at), _shares):
        yield [each if at == kept else make(at, each) for at, each in enumerate(point)]


def _shares(_: int, value: torch.Tensor) -> torch.Tensor:
    return value.softmax(-1) if value.dim() else value


def _result(
    results: Callable[[Point], list[torch.Tensor]],
    number: int,
    along: torch.Tensor,
    point: Point,
) -> torch.Tensor:
    return (results(point)[number].double() * along).sum()


def _gradient(
    result: Callable[[Point], torch.Tensor], point: Point, at: int
) -> torch.Tensor | None:
    """The registered gradient of an argument; None if it is zero or missing."""
    values = [each.clone().requires_grad_() for each in point]
    value = result(values)
    if not value.requires_grad:
        return None
    (found,) = torch.autograd.grad(value, [values[at]], allow_unused=True)
    return found if found is not None and found.any() else None


def _compare(
    result: Callable[[Point], torch.Tensor], point: Point, at: int, gradient: torch.Tensor
) -> _Found:
    """Compare gradient and slope along two directions; if they differ, number by number."""

    def moved(by: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return result([*point[:at], point[at] + by, *point[at + 1 :]])

    def slopes(ways: Sequence[torch.Tensor], step: float) -> torch.Tensor:
        ends = [(moved(way * step), moved(way * -step)) for way in ways]
        return torch.stack([a - b for a, b in ends]) / (2 * step)

    noise = torch.Generator().manual_seed(1)
    ways = [torch.randn(gradient.shape, generator=noise, dtype=torch.float64) for _ in range(2)]
    expected = torch.stack([(gradient * way).sum() for way in ways])
    size = gradient.norm()
    if bool(((slopes(ways, _STEP) - expected).abs() <= _OFF / 2 * size).all()):
        return _Found.RIGHT
    count = gradient.numel()
    if count > _NUMBERS:
        return _Found.UNCLEAR
    ways = [*torch.eye(count, dtype=torch.float64).reshape(count, *gradient.shape)]
    first, second, flat = slopes(ways, _STEP), slopes(ways, _SECOND), gradient.flatten()
    still = first.abs() <= 1e-6 * flat.abs().max()
    if bool((still & (flat.abs() > _OFF * flat.abs().max())).any()):
        return _Found.UNCLEAR
    here = moved(torch.zeros_like(gradient))
    bends = torch.stack([moved(w * _STEP) + moved(w * -_STEP) - 2 * here for w in ways]) / _STEP
    scale = first.norm()
    if not ((first - second).norm() <= _SAME * scale and bends.norm() <= _BENT * scale):
        return _Found.UNCLEAR
    return _Found.RIGHT if (first - flat).norm() <= _OFF * scale else _Found.WRONG
