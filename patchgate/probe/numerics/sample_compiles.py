"""Counts the graphs and breaks of samples, also with other sizes and numbers, and of programs that
compile by themselves. No generated code is built.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch.utils import _pytree as pytree

from patchgate.probe.numerics.backends_without_code import captured, lowered
from patchgate.probe.numerics.derived_samples import Call, resized
from patchgate.probe.numerics.sample_calls import REDRAWN, SLOPE, Sample, tensors_in
from patchgate.probe.numerics.sample_differences import STEPS, Counts
from patchgate.probe.process.reply import lacks_a_device, lacks_a_module
from patchgate.probe.protocol import NEEDS_DEVICE

Backend = Callable[[torch.fx.GraphModule, Any], Any]
# Replaced names that may be called while a program is traced. Tables, the compiler, and methods of
# tensors, which Dynamo captures as calls, are not among them.
_CALLED = re.compile(r"^torch\.(?!Tensor\.)\w+(?:\.[A-Za-z_]\w*)*$")
# Names that act between Dynamo's graph and code.
_LOWERS = re.compile(
    r"^torch\.(?:_inductor\.(?!codecache)|_decomp\b|_refs\b|_meta_registrations\b)"
)
# The reason that a C++ compiler gives, behind the place in generated code.
_OF_COMPILER = re.compile(r":\d+:\d+: (?:fatal )?error: (.+)")
# The most samples that are counted by tracing, and by lowering. Tracing one in all its steps took
# 30 to 60 ms of CPU, and lowering it took 0.4 s.
_COUNTED, _LOWERED = 16, 6
# Programs whose loops are long enough for several threads.
_LOOPS = """
x.sum(-1)
x.amax(-1)
x.norm(dim=-1)
x.half().mean(-1)
x.sum(0)
x.sum()
x.sin() * 2
x.softmax(-1)
x.t().contiguous()
"""


def counting_backend(names: Sequence[str]) -> Backend | None:
    """The backend that counts graphs for the replaced names. If Dynamo may trace a name, the
    backend runs the captured graph; else, if a name acts in lowering, the backend writes code of
    the graph. None if neither applies.
    """
    if any(_CALLED.match(name) and not name.startswith("torch._") for name in names):
        return captured
    return lowered if any(map(_LOWERS.match, names)) else None


def counted_samples(samples: Sequence[Sample], backend: Backend | None) -> list[tuple[int, str]]:
    """Return the index of each sample to count, with each part that changes between its calls. One
    sample of each form and kind of arguments is counted.

    Programs are counted only if they are lowered, because they do inside a graph what models do
    before one.
    """
    if backend is None:
        return []
    found: dict[Any, int] = {}
    for at, sample in enumerate(samples):
        if sample.is_program and (backend is not lowered or sample.how):
            continue
        if sample.first or not sample.traced or sample.how.endswith(REDRAWN):
            continue
        if "backward" in sample.function and not sample.is_program:
            continue  # its tensors must fit each other
        if sample.how.startswith(("around", "strided", "with ", SLOPE)):
            continue
        kind = sample.form, _kinds(sample)
        # Sizes of one element are constants in Dynamo.
        if kind not in found or (_can_grow(sample) and not _can_grow(samples[found[kind]])):
            found[kind] = at
    places = [*found.values()][: _LOWERED if backend is lowered else _COUNTED]
    return [(at, what) for at in places for what in _CALLS if next(_CALLS[what](samples[at]), None)]


def _can_grow(sample: Sample) -> bool:
    return all(
        size > 1 for tensor in tensors_in((sample.args, sample.kwargs)) for size in tensor.shape
    )


def _kinds(sample: Sample) -> tuple[Any, ...]:
    """Kinds of the arguments: the values of switches, and for each tensor if it requires a
    gradient.
    """
    found: list[Any] = [sample.how]
    for value in (*sample.args, *sample.kwargs.values()):
        if isinstance(value, torch.Tensor):
            found.append(value.requires_grad)
        elif value is None or isinstance(value, (bool, str)):
            found.append(value)
    return tuple(found)


def count_compiles(
    function: Callable[..., Any], calls: Iterator[Call], backend: Backend, most: int
) -> Counts:
    """Count the compiles of each of at most `most` calls. The last count is an error if the call
    raised.
    """

    # This has no loop: if a call in a loop breaks the graph, Dynamo compiles nothing of the
    # function around it. In Python 3.12 a comprehension is such a loop.
    def call(args: Any, kwargs: Any) -> Any:
        return function(*args, **kwargs)

    torch._dynamo.reset()
    compiled = torch.compile(call, backend=backend)
    counts: Counts = []
    # If compiled code raises under `no_grad`, Dynamo leaves gradients off. Later samples need them.
    with torch.enable_grad():
        for given in itertools.islice(calls, most):
            counters.clear()
            try:
                compiled(*given)
            except Exception as error:
                counts.append(error_text(error))
                break
            counts.append(compiles_so_far())
    torch._dynamo.reset()
    return counts


def error_text(error: Exception) -> str:
    """The first line of an error of a sample, and what a C++ compiler said. It begins with
    NEEDS_DEVICE if a package that is missing may register the device. Raise the error if such a
    package may be its reason otherwise.
    """
    if lacks_a_module(error):
        raise error
    inner = getattr(error, "inner_exception", None) or error
    text = f"{type(inner).__name__}: {inner}"
    if lacks_a_device(inner):
        text = f"{NEEDS_DEVICE}: {text}"
    first, *others = text.splitlines()
    of_compiler = filter(None, map(_OF_COMPILER.search, others))
    return ": ".join([first, *(said[1] for said in itertools.islice(of_compiler, 1))])[:300]


def without_errors(counts: Mapping[Any, Counts]) -> dict[Any, Counts]:
    """The counts up to the first call that torch itself does not run, if there are any."""
    found: dict[Any, Counts] = {}
    for key, steps in counts.items():
        ran: Counts = [each for each in steps if not isinstance(each, str)]
        if ran:
            found[key] = ran
    return found


def compiles_so_far() -> tuple[int, int]:
    """The graphs and breaks that Dynamo has counted."""
    return counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())


def kept_bytes(function: Callable[..., Any], args: Sequence[Any]) -> int:
    """The bytes of memory that the call of a compiled function keeps for its backward. Memory of
    its arguments does not count.
    """
    given = {tensor.untyped_storage().data_ptr() for tensor in tensors_in(args)}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in given:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        _result = function(*args)  # the result holds the kept memory until it is counted
    return sum(storage.nbytes() for storage in kept.values())


def loops_of_one_thread() -> list[str]:
    """The programs whose code for four threads has no loop that threads share. Nothing is built."""
    from torch._inductor import config
    from torch._inductor.utils import get_code

    x, found = torch.empty(512, 2048), []
    with config.patch({"cpp.threads": 4}):
        for text in _LOOPS.strip().splitlines():
            torch._dynamo.reset()
            with contextlib.suppress(Exception):  # other programs show exceptions
                code = get_code(torch.compile(eval(f"lambda x: {text}")), x)
                if not any("#pragma omp for" in each for each in code):
                    found.append(f"{text} of float32{[*x.shape]}")
    return found


def _calls_of_sizes(sample: Sample) -> Iterator[Call]:
    """Yield the call twice, then calls with another number of elements along a dimension: twice as
    many, four times as many, three, and two.
    """
    call = sample.args, sample.kwargs
    yield call
    yield call
    first = next((x for x in sample.args if isinstance(x, torch.Tensor)), None)
    if first is None or not first.dim():
        return
    dim = -2 if first.dim() > 2 else 0
    for size in (2 * first.shape[dim], 4 * first.shape[dim], 3, 2):
        yield resized(call, dim, size)


def _calls_of_numbers(sample: Sample) -> Iterator[Call]:
    """The call twice, then calls in which all its integers are larger by 1, by 2 and by 3; none if
    the call has no integers.
    """
    leaves, spec = pytree.tree_flatten((sample.args, sample.kwargs))
    if all(type(leaf) is not int for leaf in leaves):
        return
    for more in (0, *range(len(STEPS["numbers"]) - 1)):
        larger = [leaf + more if type(leaf) is int else leaf for leaf in leaves]
        call: Call = pytree.tree_unflatten(larger, spec)
        yield call


# Part of a call that changes -> the calls.
_CALLS: Mapping[str, Callable[[Sample], Iterator[Call]]] = {
    "sizes": _calls_of_sizes,
    "numbers": _calls_of_numbers,
}


def calls_that_change(sample: Sample, what: str) -> Iterator[Call]:
    """Calls of a sample with other sizes, or with other numbers."""
    return _CALLS[what](sample)


def up_to_the_first_error(
    function: Callable[..., Any], calls: Iterable[Call], copy: Callable[[Call], Call]
) -> Iterator[Call]:
    """The calls before the first call that eager mode refuses."""
    for call in calls:
        args, kwargs = copy(call)
        try:
            function(*args, **kwargs)
        except Exception:
            return
        yield call
