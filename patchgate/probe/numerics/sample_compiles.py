"""Counts the graphs and breaks that Dynamo makes of samples, also with other sizes; nothing is
lowered.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._dynamo.utils import counters

from patchgate.probe.numerics.derived_samples import Call, resized
from patchgate.probe.numerics.sample_calls import REDRAWN, Sample
from patchgate.probe.numerics.sample_differences import STEPS, Counts

# Replaced names that may be called while a program is traced: no tables, no compiler, and no
# methods of tensors, which Dynamo captures as calls.
_CALLED = re.compile(r"^torch\.(?!Tensor\.)\w+(?:\.[A-Za-z_]\w*)*$")
# Samples that are counted; tracing one in all steps took 30 to 60 ms of CPU.
_COUNTED = 16


def may_trace(names: Sequence[str]) -> bool:
    """True if Dynamo may trace one of the replaced names."""
    return any(_CALLED.match(name) and not name.startswith("torch._") for name in names)


def counted_samples(samples: Sequence[Sample]) -> list[int]:
    """The places of samples that are counted: the first of each form. Programs are left out,
    because they do inside a graph what models do before one.
    """
    found: dict[Any, int] = {}
    for at, sample in enumerate(samples):
        if sample.is_program or sample.first or not sample.traced or sample.how.endswith(REDRAWN):
            continue
        if not sample.how.startswith(("around", "strided")):
            found.setdefault((sample.form, _kinds(sample)), at)
    return list(found.values())[:_COUNTED]


def _kinds(sample: Sample) -> tuple[Any, ...]:
    """Kinds of the arguments: the values of switches, and which tensors require a gradient."""
    found: list[Any] = [sample.how]
    for value in (*sample.args, *sample.kwargs.values()):
        if isinstance(value, torch.Tensor):
            found.append(value.requires_grad)
        elif value is None or isinstance(value, (bool, str)):
            found.append(value)
    return tuple(found)


def count_compiles(function: Callable[..., Any], calls: Iterator[Call], most: int = 0) -> Counts:
    """Count the compiles of each call, up to the first that raises, or so many."""

    # This has no loop: if a call in a loop breaks the graph, Dynamo compiles nothing of the
    # function around it. In Python 3.12 a comprehension is such a loop.
    def call(args: Any, kwargs: Any) -> Any:
        return function(*args, **kwargs)

    graphs: list[None] = []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(None)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(call, backend=backend)
    counts: Counts = []
    for given in itertools.islice(calls, most or len(STEPS)):
        graphs.clear()
        counters.clear()
        try:
            compiled(*given)
        except Exception:  # what raises is judged where the sample is run
            break
        counts.append((len(graphs), sum(counters["graph_break"].values())))
    torch._dynamo.reset()
    return counts


def calls_in_steps(sample: Sample) -> Iterator[Call]:
    """The call twice, and with twice and four times as many elements along a dimension."""
    call = sample.args, sample.kwargs
    yield call
    yield call
    first = next((x for x in sample.args if isinstance(x, torch.Tensor)), None)
    if first is None or not first.dim():
        return
    for _ in STEPS[2:]:
        call = resized(call, -2 if first.dim() > 2 else 0, None)
        yield call
