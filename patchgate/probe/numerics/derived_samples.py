"""Calls derived from a sample of an operator by its parameters: arguments that none of torch's own
samples passes.

Some are no calls at all: eager mode tells which.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

Call = tuple[tuple[Any, ...], dict[str, Any]]
# Values of a parameter by its type in a schema, or by the type of its default.
_VALUES: dict[str, tuple[Any, ...]] = {
    "number": (2, 0.5),
    "Scalar": (2, 0.5),
    "float": (0.5,),
    "bool": (True, False),
    "int": (-1, 0),
    "SymInt": (-1, 0),
    "List[int]": ([-1], [0]),
    "List[SymInt]": ([-1], [0]),
}
# Tensors of which one alone is trained, at most.
_TRAINED = 3


def derived(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Call]:
    """The call with one more dimension, with an argument added, and with a tensor of another kind
    or shape.
    """
    given = _given(args)
    if given is None:
        return
    if 1 <= given.dim() <= 2 and given.is_floating_point():
        more = torch.stack([given, given.flip(-1)], given.dim() - 1)
        yield (more.requires_grad_(args[0].requires_grad), *args[1:]), kwargs
    leaves, spec = pytree.tree_flatten((args, kwargs))
    for at, leaf in enumerate(leaves):
        if leaf is args[0] or not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
            continue
        for other in _other_tensors(leaf, given):
            yield pytree.tree_unflatten([*leaves[:at], other, *leaves[at + 1 :]], spec)
    for name, value in _left_out(op, args, kwargs):
        yield args, {**kwargs, name: value}


def trained_alone(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Call]:
    """The call with a gradient for one of its tensors only, the last first: a frozen weight with a
    trained bias.
    """
    leaves, spec = pytree.tree_flatten((args, kwargs))
    trained = [
        at
        for at, leaf in enumerate(leaves)
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]
    if len(trained) < 2:
        return
    for only in trained[::-1][:_TRAINED]:
        others = {at: leaves[at].detach() for at in trained if at != only}
        yield pytree.tree_unflatten([others.get(at, leaf) for at, leaf in enumerate(leaves)], spec)


def _given(args: tuple[Any, ...]) -> torch.Tensor | None:
    return (
        args[0].detach()
        if args and isinstance(args[0], torch.Tensor) and args[0].numel() > 1
        else None
    )


def _left_out(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Parameters with a default that the call does not pass, and other values for each."""
    for name, kind, default in _parameters(op, len(args)).values():
        for value in _VALUES.get(kind, ()):
            if name not in kwargs and (value != default or type(value) is not type(default)):
                yield name, value


def _parameters(op: Any, passed: int) -> dict[str, tuple[str, str, Any]]:
    """Name -> name, type and default of the parameters beyond those passed by place: of all
    overloads together.
    """
    found = {}
    try:
        for at, each in enumerate(inspect.signature(op.op).parameters.values()):
            if at >= passed and each.default is not each.empty:
                found[each.name] = (each.name, type(each.default).__name__, each.default)
    except (TypeError, ValueError):  # a function in C: the operator has the schema
        packet = getattr(torch.ops.aten, op.aten_name, None)
        for overload in packet.overloads() if packet else ():
            for at, argument in enumerate(getattr(packet, overload)._schema.arguments):
                if (at >= passed or argument.kwarg_only) and argument.has_default_value():
                    kind = str(argument.type).removeprefix("Optional[")
                    kind = (
                        kind.removesuffix("]")
                        if str(argument.type).startswith("Optional[")
                        else kind
                    )
                    found.setdefault(argument.name, (argument.name, kind, argument.default_value))
    return found


def _other_tensors(leaf: torch.Tensor, given: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensor as a mask of booleans, and with the leading dimensions of the first, each with its
    own numbers.
    """
    flat = leaf.detach()
    if flat.dim() > 1:
        yield flat > flat.median()
    missing = given.shape[: given.dim() - flat.dim()]
    if missing:
        wide = (
            torch.stack([flat.roll(at, -1) for at in range(missing.numel())])
            if flat.dim()
            else flat
        )
        yield wide.reshape(*missing, *flat.shape) if flat.dim() else flat.expand(missing)
