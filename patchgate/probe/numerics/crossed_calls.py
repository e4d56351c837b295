"""Random calls of an operator that combine the arguments of known calls.

Many faults need several arguments at once: a window that reaches beyond an image of odd size, with
`ceil_mode` and a gradient. Torch's samples vary few arguments together. A third to a half of the
calls are valid: eager mode shows which.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import torch
from torch.utils import _pytree as pytree

from patchgate.probe.numerics.derived_samples import Call, resized

#: Place or name of an argument -> its value.
_Arguments = dict[int | str, Any]
# The shares of arguments that another call or a neighbour of the value gives, of keywords that are
# added, and of keywords that are left out.
_CROSSED, _MOVED, _ADDED, _LEFT_OUT = 0.4, 0.2, 0.15, 0.1
# The shares of calls with other sizes, another layout, another dtype, a gradient, and an index
# of -1.
_RESIZED, _LAID_OUT, _CAST, _TRAINED, _LAST = 0.7, 0.15, 0.15, 0.5, 0.3
# The new sizes of a dimension. Kernels have blocks of even sizes, and images are rarely square.
_SIZES = (1, 2, 3, 4, 5, 7, 9, 13)
_DTYPES = (torch.float64, torch.bfloat16)
# The most elements of a list of integers, such as sizes or widths, that change at once.
_CHANGED = 2


def crossed_calls(function: Callable[..., Any], calls: Sequence[Call], seed: int) -> Iterator[Call]:
    """Yield calls without end. The same seed gives the same calls."""
    draw = Random(seed)
    known = [_arguments(function, call) for call in calls]
    pool: dict[int | str, dict[str, Any]] = {}
    for arguments in known:
        for key, value in arguments.items():
            if not _has_tensor(value):
                pool.setdefault(key, {})[repr(value)] = value
    values = {key: [*by_text.values()] for key, by_text in pool.items()}
    while known:
        arguments = dict(draw.choice(known))
        for key, value in arguments.items():
            if key in values and not _has_tensor(value):
                arguments[key] = _other_value(draw, value, values[key])
        for key in values:
            if key not in arguments and isinstance(key, str) and draw.random() < _ADDED:
                arguments[key] = draw.choice(values[key])
        for key in [key for key in arguments if isinstance(key, str)]:
            if key in values and draw.random() < _LEFT_OUT:
                del arguments[key]
        yield _with_other_tensors(draw, _call(arguments))


def _arguments(function: Callable[..., Any], call: Call) -> _Arguments:
    """The arguments of a call by name, or by place if the function has no signature or takes them
    by place only.
    """
    args, kwargs = call
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    found: _Arguments = {}
    for place, value in enumerate(args):
        parameter = parameters[place] if place < len(parameters) else None
        by_name = parameter and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        # The first argument stays where it is: some functions name it otherwise than their methods.
        found[parameter.name if place and parameter and by_name else place] = value
    return found | kwargs


def _call(arguments: _Arguments) -> Call:
    places = sorted(key for key in arguments if isinstance(key, int))
    named = {key: value for key, value in arguments.items() if isinstance(key, str)}
    return tuple(arguments[place] for place in places), named


def _has_tensor(value: Any) -> bool:
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))


def _other_value(draw: Random, value: Any, known: Sequence[Any]) -> Any:
    at = draw.random()
    if at < _CROSSED:
        return draw.choice(known)
    return _neighbour(draw, value) if at < _CROSSED + _MOVED else value


def _neighbour(draw: Random, value: Any) -> Any:
    if type(value) is bool:
        return not value
    if type(value) is int:
        return draw.choice((value - 1, value + 1, value + 2, 0, -1))
    if type(value) is float:
        return draw.choice((value * 1.5, -value, 2.0, 3.0))
    if isinstance(value, (list, tuple)) and all(type(each) is int for each in value):
        changed = list(value)
        for _ in range(draw.randint(1, _CHANGED) if changed else 0):
            place = draw.randrange(len(changed))
            changed[place] = _neighbour(draw, changed[place])
        return type(value)(changed) if type(value) in (list, tuple) else value
    return value


def _with_other_tensors(draw: Random, call: Call) -> Call:
    """The call with other sizes, layouts, dtypes and indices, and with gradients or without."""
    first = next((x for x in pytree.tree_leaves(call) if isinstance(x, torch.Tensor)), None)
    if first is None:
        return call
    if first.dim() and draw.random() < _RESIZED:
        for _ in range(draw.randint(1, 2)):
            call = resized(call, -draw.randint(1, first.dim()), draw.choice(_SIZES))
    dtype = draw.choice(_DTYPES) if draw.random() < _CAST else torch.float32
    is_laid_out, is_trained = draw.random() < _LAID_OUT, draw.random() < _TRAINED
    is_last = draw.random() < _LAST

    def change(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if leaf.dtype is torch.int64 and is_last and leaf.numel():
            leaf = leaf.clone(memory_format=torch.contiguous_format)
            leaf.view(-1)[draw.randrange(leaf.numel())] = -1
        if leaf.dtype is not torch.float32:
            return leaf
        made = leaf.detach().to(dtype)
        made = _laid_out(made) if is_laid_out else made.clone()
        return made.requires_grad_(is_trained)

    changed: Call = pytree.tree_map(change, call)
    return changed


def _laid_out(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its second dimension, or its last one, stored innermost."""
    layouts = {4: torch.channels_last, 5: torch.channels_last_3d}
    if tensor.dim() in layouts:
        return tensor.contiguous(memory_format=layouts[tensor.dim()])
    return tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor.clone()
