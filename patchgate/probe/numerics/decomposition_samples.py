"""Random calls of the decompositions that a patch replaces.

A decomposition is a function in Python, which eager mode runs without a compile, so that many calls
cost little. They are made from random calls of functions of torch, forward and backward, that run
the decomposed operator.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from patchgate.probe.numerics.crossed_calls import crossed_calls
from patchgate.probe.numerics.derived_samples import Call
from patchgate.probe.numerics.operators import calls_of_overload, overload_in
from patchgate.probe.numerics.sample_calls import (
    CROSSED,
    DECOMPOSITION,
    SEED,
    Sample,
    named,
    plain_samples,
)

# An entry of a table of decompositions, such as
# `torch._inductor.decomposition.decompositions[aten.add.Tensor]`.
_ENTRY = re.compile(r"^torch\.(_inductor\.decomposition\.decompositions|_decomp\.\w+_table)\[")
# Random calls of all functions, and the most calls of the operator that are kept.
_TRIED, _KEPT = 600, 200


def decomposition_samples(name: str, ops: Sequence[Any]) -> list[Sample]:
    """Samples of a decomposition, made from calls of the functions of OpInfos; empty if `name` is
    no entry of a table of decompositions.
    """
    overload = named(overload_in(name)) if _ENTRY.match(name) else None
    if overload is None or not ops:
        return []
    found: dict[str, Call] = {}
    for op in ops:
        tried = itertools.islice(_calls(op), _TRIED // len(ops))
        found |= {_key(call): call for call in calls_of_overload(overload, op.op, tried, SEED)}
    return [
        Sample(f"{DECOMPOSITION}{name}", *call, how=CROSSED, traced=False)
        for call in itertools.islice(found.values(), _KEPT)
    ]


def _calls(op: Any) -> Iterable[Call]:
    return crossed_calls(op.op, [(s.args, s.kwargs) for s in plain_samples(op)], SEED)


def _key(call: Call) -> str:
    return repr(pytree.tree_map_only(torch.Tensor, lambda t: (t.shape, t.dtype, t.stride()), call))


def decomposition(function: str) -> Callable[..., Any]:
    """The function that decomposes the operator of a sample now. It calls the operator if the table
    has no entry, or if the entry does not decompose these arguments.
    """
    name = function.removeprefix(DECOMPOSITION)
    overload, table = named(overload_in(name)), named(name.partition("[")[0].removeprefix("torch."))

    def decomposed(*args: Any, **kwargs: Any) -> Any:
        result = table.get(overload, overload)(*args, **kwargs)
        if result is NotImplemented:
            result = overload(*args, **kwargs)
        # A compiled graph decides itself which results share memory.
        return pytree.tree_map_only(torch.Tensor, torch.clone, result)

    return decomposed
