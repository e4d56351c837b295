"""Calls derived from a sample of an operator by its parameters, with arguments that none of torch's
own samples has.

Some of the calls are not valid: eager mode shows which.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

Call = tuple[tuple[Any, ...], dict[str, Any]]
#: Name of a parameter -> its type and default.
Parameters = dict[str, tuple[str, Any]]
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
    "ScalarType": (torch.float64,),
}
# Values of parameters by their name.
_WORDS: dict[str, tuple[Any, ...]] = {
    "reduction": ("sum", "none"),
    "approximate": ("tanh",),
    "rounding_mode": ("floor", "trunc"),
    "padding_mode": ("circular", "reflect", "replicate"),
    "nonlinearity": ("relu",),
    "padding_idx": (1,),
    "mode": ("sum", "max", "bilinear", "reflect"),
    "dtype": (torch.float32, torch.float64),
}
# Parameters that give the size of a result in all dimensions after the first two.
_WANTED = ("size", "output_size")
# Scales that give as many elements as whole scales do, but take them from other places.
_SCALES = (2.1, 4.1)
# A large number such as attention masks contain.
_LARGE = -1e9
# The most tensors of which each is trained alone.
_TRAINED = 3


def derived(
    parameters: Parameters, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[Call]:
    """Calls with a tensor without dimensions, a large number, one more dimension, the sizes of the
    call's own tensor, an argument added or left out, and a tensor of another kind or shape.
    """
    given = _given(args)
    if given is None:
        return
    yield from _without_dimensions(args, kwargs)
    yield from _with_large_number(args, kwargs)
    if 1 <= given.dim() <= 3 and given.is_floating_point():
        more = torch.stack([given, given.flip(-1)], given.dim() - 1)
        yield (more.requires_grad_(args[0].requires_grad), *args[1:]), kwargs
    yield from _of_own_size(parameters, args, kwargs)
    if "scale_factor" in kwargs or "scale_factor" in parameters:
        for scale in _SCALES:
            others = {key: value for key, value in kwargs.items() if key not in _WANTED}
            yield args[:1], {**others, "scale_factor": scale}
    without = [{k: v for k, v in kwargs.items() if k != name} for name in kwargs]
    for others in (*without, {}) if len(kwargs) > 1 else without:
        yield args, others
    for name, value in left_out(parameters, kwargs):
        yield args, {**kwargs, name: value}
    if len(args) > 1:
        yield args[:1], kwargs
        for name, value in left_out(parameters, kwargs):
            yield args[:1], {**kwargs, name: value}
    leaves, spec = pytree.tree_flatten((args, kwargs))
    for at, leaf in enumerate(leaves):
        if leaf is args[0] or not isinstance(leaf, torch.Tensor):
            continue
        if leaf.dtype is torch.int64:  # an index from the end
            yield pytree.tree_unflatten([*leaves[:at], -1 - leaf, *leaves[at + 1 :]], spec)
        if not leaf.is_floating_point():
            continue
        for other in _other_tensors(leaf, given):
            yield pytree.tree_unflatten([*leaves[:at], other, *leaves[at + 1 :]], spec)


def _without_dimensions(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Call]:
    """The call in which the second tensor is a number without dimensions."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    tensors = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    for at in tensors[1:2]:
        if leaves[at].dim() and leaves[at].numel():
            leaves[at] = leaves[at].detach().flatten()[0].clone()
            yield pytree.tree_unflatten(leaves, spec)


def _with_large_number(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Call]:
    """The call with its first number replaced by one that half precision does not hold. This is a
    float, so it is no size or dimension, and no call asks for so much memory.
    """
    leaves, spec = pytree.tree_flatten((args, kwargs))
    numbers = [at for at, leaf in enumerate(leaves) if type(leaf) in (int, float)]
    for at in numbers[:1]:
        yield pytree.tree_unflatten([*leaves[:at], _LARGE, *leaves[at + 1 :]], spec)


def _of_own_size(
    parameters: Parameters, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[Call]:
    """The call that asks for the size which its tensor already has. Its result must still be a
    copy.
    """
    shape = list(args[0].shape)
    for at, value in enumerate(args):
        is_sizes = isinstance(value, (tuple, list)) and all(type(each) is int for each in value)
        if is_sizes and 0 < len(value) < len(shape):
            yield (*args[:at], type(value)(shape[-len(value) :]), *args[at + 1 :]), kwargs
    others = {
        key: value
        for key, value in kwargs.items()
        if key != "scale_factor" and value is not None and value is not False
    }
    for name in _WANTED:
        if len(shape) > 2 and (name in kwargs or name in parameters):
            yield args, {**others, name: shape[2:]}


def resized(call: Call, dim: int, size: int | None) -> Call:
    """The call with `size` elements along a dimension of its first tensor, or with twice as many if
    `size` is None. Elements are repeated as needed. Other tensors that are as long in that
    dimension change likewise. A call whose first tensor has no such dimension is returned
    unchanged.
    """
    first = next(leaf for leaf in pytree.tree_leaves(call) if isinstance(leaf, torch.Tensor))
    if not -first.dim() <= dim < first.dim():
        return call
    length = first.shape[dim]
    places = torch.arange(2 * length if size is None else size) % max(length, 1)

    def change(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not -leaf.dim() <= dim < leaf.dim():
            return leaf
        if leaf.shape[dim] != length or length < 2:
            return leaf
        return leaf.detach().index_select(dim, places).requires_grad_(leaf.requires_grad)

    changed: Call = pytree.tree_map(change, call)
    return changed


def trained_alone(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Call]:
    """The call with a gradient for one tensor only, for each tensor from the last; a bias, for
    example, may be trained while the weight is frozen.
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


def left_out(parameters: Parameters, kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Parameters with a default that the call does not pass, and other values for each."""
    for name, (kind, default) in parameters.items():
        for value in _WORDS.get(name, _VALUES.get(kind, ())):
            if name not in kwargs and (value != default or type(value) is not type(default)):
                yield name, value


def parameters_of(function: Any, packet: str, passed: int) -> Parameters:
    """The parameters with a default that follow the arguments passed by place. They are taken from
    an overload, from a function's signature, or from all overloads of a packet.
    """
    if isinstance(function, torch._ops.OpOverload):
        return _of_schemas([function], passed)
    try:
        found = enumerate(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function in C: the operator has the schema
        known = getattr(torch.ops.aten, packet, None)
        overloads = [getattr(known, name) for name in known.overloads()] if known else []
        return _of_schemas(overloads, passed)
    return {
        each.name: (type(each.default).__name__, each.default)
        for at, each in found
        if at >= passed and each.default is not each.empty
    }


def _of_schemas(overloads: list[Any], passed: int) -> Parameters:
    found: Parameters = {}
    for overload in overloads:
        for at, argument in enumerate(overload._schema.arguments):
            if (at >= passed or argument.kwarg_only) and argument.has_default_value():
                # `type` shows a dtype as an integer, but most integers are no dtype and crash the
                # process.
                kind, optional = str(argument.real_type), "Optional["
                kind = kind[len(optional) : -1] if kind.startswith(optional) else kind
                found.setdefault(argument.name, (kind, argument.default_value))
    return found


def _other_tensors(leaf: torch.Tensor, given: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the tensor as a boolean mask, one number of it with more dimensions than the first
    tensor has, then the tensor with the leading dimensions of the first tensor added, with other
    numbers along them.
    """
    flat = leaf.detach()
    if flat.dim() > 1:
        yield flat > flat.median()
    if flat.numel():
        yield flat.flatten()[:1].reshape((1,) * (given.dim() + 1))
    missing = given.shape[: given.dim() - flat.dim()]
    if missing:
        wide = (
            torch.stack([flat.roll(at, -1) for at in range(missing.numel())])
            if flat.dim()
            else flat
        )
        yield wide.reshape(*missing, *flat.shape) if flat.dim() else flat.expand(missing)
