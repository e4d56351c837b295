"""Runs torch's own samples of the operators that a patch replaces, compiled and eagerly, and writes
what they give.

Without the patch the samples are made and written with their results; with it they are read from
that file, so both sides run the same ones. A function is looked up after the patch is installed,
since `OpInfo` holds the original.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree

from patchgate.probe.numerics.derived_samples import derived, trained_alone
from patchgate.probe.numerics.operators import operators_of, runs_on_graphs
from patchgate.probe.numerics.outputs import reproducible, save_outputs
from patchgate.probe.numerics.random_programs import function_of, programs
from patchgate.probe.numerics.sample_differences import departure, shown_tensor
from patchgate.probe.process.reply import lacks_a_module
from patchgate.probe.protocol import Profile

# Samples of one operator, by how they are made: chosen for what fits into some seconds of CPU.
_PLAIN, _GRADIENT, _STRIDED, _OTHER_DTYPE, _AROUND = 14, 6, 4, 3, 4
_VARIED, _VARIED_SAMPLES, _DERIVED = 12, 3, 16
_OPERATORS = 4
# What takes the place of an argument of a type: values at which code often branches.
_NEIGHBOURS: dict[type, tuple[Any, ...]] = {
    int: (-1, 0, 1, 2),
    bool: (True, False),
    float: (0.0, -1.5),
}
# In one compiled graph; what raises is found by halves.
_TOGETHER = 20
# Of all operators, the most telling first; a compile of 20 took 2 to 10 s of CPU.
_SAMPLES, _PROGRAMS = 40, 120
# At most, but for those that find the first sample that raises. A count, and no time: every machine
# runs the same ones.
_COMPILES = 8
_ELEMENTS = 20_000
# Elements of the tensors of a program that is written down.
_WRITTEN_OUT = 200
_OTHER_DTYPES = (torch.bfloat16, torch.float16, torch.int64, torch.bool)
_SEED = 20261123
_PROGRAM = "def program("
#: Part ("output", "gradient", "input") -> its tensors.
Results = dict[str, list[torch.Tensor]]


@dataclass
class Sample:
    """One call: `function` is a name below torch, `op_db:` and the name and variant of an OpInfo,
    or a program.
    """

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    how: str = ""  #: "" as torch has it, "strided", "around SEED"

    @property
    def text(self) -> str:
        """`nn.functional.pad(float32[2, 3], (1, 1), mode='reflect')`, and how it was made."""
        given = [_shown(value) for value in self.args] + [
            f"{key}={_shown(value)}" for key, value in self.kwargs.items()
        ]
        if self.function.startswith(_PROGRAM):
            return "; ".join(line.strip() for line in self.function.splitlines()[1:])
        call = f"{self.function.removeprefix('op_db:').rstrip('/')}({', '.join(given)})"
        return f"{call}, {self.how}" if self.how else call


def _shown(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(
            pytree.tree_map(
                lambda leaf: _Shown(_shown(leaf)) if torch.is_tensor(leaf) else leaf, value
            )
        )
    return shown_tensor(value)


class _Shown(str):
    __repr__ = str.__str__


def op_db() -> list[Any]:
    """Every OpInfo of this torch, without what its module imports beside it.

    Samples use nothing of `expecttest`. numba would be asked for devices, which ends a process that
    has no rights to any on a machine that has one.
    """
    if importlib.util.find_spec("expecttest") is None:
        stand_in: Any = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        stand_in.__spec__ = ModuleSpec("expecttest", None)
        sys.modules["expecttest"] = stand_in
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal import common_utils

        common_utils.TEST_NUMBA = False
        from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def write_samples(names: list[str], profile: Profile, path: str) -> dict[str, list[str]]:
    """Make samples for the replaced names, run them and write them with their results; name -> its
    operators.
    """
    torch.set_num_threads(1)  # before any sample is made: no fork keeps a pool of threads
    known = op_db()
    found = operators_of([name for name in names if not runs_on_graphs(name)], known)
    chosen = list({id(op): op for ops in found.values() for op in ops[:_OPERATORS]}.values())[
        :_OPERATORS
    ]
    by_operator = [samples_of(op) for op in chosen]
    known_only = len(found) == len(names)
    if not known_only:
        by_operator.append([Sample(source, inputs, {}) for source, inputs in programs(_SEED)])
    # In turns: the first of each are the most telling, and the budget may end before the last.
    samples = [
        sample
        for turn in itertools.zip_longest(*by_operator)
        for sample in turn
        if sample is not None
    ]
    with reproducible(profile, training=True):
        # What differs by itself is no evidence: random numbers, memory that nothing has written.
        eager = [_outcome([sample], _call_all) for sample in samples]
        calls = [i for i, result in enumerate(eager) if not isinstance(result, str)]
        samples, eager = [samples[i] for i in calls], [eager[i] for i in calls]
        again = [_outcome([sample], _filled) for sample in samples]
        steady = [
            i for i, (a, b) in enumerate(zip(eager, again, strict=True)) if _is_repeated(a, b)
        ]
        steady = steady[: _SAMPLES if known_only else _PROGRAMS]
        compiled = dict(zip(steady, _compiled([samples[i] for i in steady]), strict=True))
    # Nor is what torch's own compiled code gets wrong.
    kept = [i for i in steady if compiled[i] is not None and _is_repeated(eager[i], compiled[i])]
    written = {
        "samples": [
            (samples[i].function, samples[i].args, samples[i].kwargs, samples[i].how) for i in kept
        ],
        "texts": [samples[i].text for i in kept],
        "programs": [program_of(samples[i]) for i in kept],
        "eager": [eager[i] for i in kept],
        "compiled": [compiled[i] for i in kept],
        "tried": len(steady),
        "unjudged": [
            f"{samples[i].text}: {_why_unjudged(compiled[i])}" for i in steady if i not in set(kept)
        ],
    }
    save_outputs(written, path)
    titles = {name: [_title(op) for op in ops[:_OPERATORS]] for name, ops in found.items()}
    return titles | {name: ["small programs"] for name in names if name not in found}


def _why_unjudged(compiled: Any) -> str:
    if compiled is None:
        return "not compiled, as others took all compiles"
    return (
        "compiled it "
        f"{f'raises {compiled}' if isinstance(compiled, str) else 'differs from eager mode'} "
        "unpatched"
    )


def read_samples(path: str) -> list[Sample]:
    """The samples of a file that this module has written without a patch."""
    return [Sample(*each) for each in torch.load(path, weights_only=False)["samples"]]


def run_samples(samples: Sequence[Sample], profile: Profile, path: str) -> None:
    """Run the samples compiled and write what they give."""
    with reproducible(profile, training=True):
        save_outputs({"compiled": _compiled(samples)}, path)


def _title(op: Any) -> str:
    return f"{op.name} {op.variant_test_name}".rstrip()


def samples_of(op: Any) -> list[Sample]:
    """Samples of one operator, the most telling first of each kind."""
    name = _function_of(op)
    plain = _made(op, name, torch.float32, False) or _made(op, name, torch.int64, False)
    trained = _made(op, name, torch.float32, True) if op.supports_autograd else []
    samples = [
        Sample(
            name, pytree.tree_map(_strided, s.args), pytree.tree_map(_strided, s.kwargs), "strided"
        )
        for s in plain
        if _has_matrix(s)
    ][:_STRIDED]
    for dtype in _OTHER_DTYPES:
        samples += _made(op, name, dtype, False)[:_OTHER_DTYPE]
    around = [s for s in plain if any(torch.is_tensor(a) and a.is_floating_point() for a in s.args)]
    samples += [
        Sample(name, s.args, s.kwargs, f"around {seed}") for seed, s in enumerate(around[:_AROUND])
    ]
    samples += [varied for sample in plain[:_VARIED_SAMPLES] for varied in _varied(sample)][
        :_VARIED
    ]
    sources = [*_first_of_each_rank(trained), *_first_of_each_rank(plain)]
    calls = itertools.zip_longest(*(derived(op, each.args, each.kwargs) for each in sources))
    further = [Sample(name, *call) for turn in calls for call in turn if call is not None]
    further = [each for each in further if not isinstance(_outcome([each], _call_all), str)]
    alone = [
        Sample(name, *call)
        for sample in trained[:_GRADIENT]
        for call in trained_alone(sample.args, sample.kwargs)
    ]
    # The most telling of each kind come first.
    kinds = (plain[:_PLAIN], alone[:_GRADIENT], further[:_DERIVED], trained[:_GRADIENT], samples)
    return [
        sample for turn in itertools.zip_longest(*kinds) for sample in turn if sample is not None
    ]


def _first_of_each_rank(samples: Sequence[Sample]) -> list[Sample]:
    """The first filled sample for each number of dimensions of its first tensor, at most three."""
    found: dict[int, Sample] = {}
    for sample in samples:
        first = sample.args[0] if sample.args else None
        if isinstance(first, torch.Tensor) and first.numel() > 1:
            found.setdefault(first.dim(), sample)
    return list(found.values())[:_VARIED_SAMPLES]


def _varied(sample: Sample) -> list[Sample]:
    """The call with one argument that is no tensor changed: eager mode tells which of them are
    calls at all.
    """
    leaves, spec = pytree.tree_flatten((sample.args, sample.kwargs))
    found = []
    for at, leaf in enumerate(leaves):
        for value in _NEIGHBOURS.get(type(leaf), ()):
            if value != leaf:
                changed = [*leaves[:at], value, *leaves[at + 1 :]]
                args, kwargs = pytree.tree_unflatten(changed, spec)
                found.append(Sample(sample.function, args, kwargs, sample.how))
    return found


def _function_of(op: Any) -> str:
    return op.name if _named(op.name) is op.op else f"op_db:{op.name}/{op.variant_test_name}"


def _named(name: str) -> Any:
    return functools.reduce(lambda owner, part: getattr(owner, part, None), name.split("."), torch)


def _made(op: Any, name: str, dtype: torch.dtype, gradient: bool) -> list[Sample]:
    """Samples of a dtype: of each way of calling the first, in turns, those with the most arguments
    first.
    """
    if dtype not in (op.dtypes if not gradient else op.dtypes & set(op.backward_dtypes)):
        return []
    torch.manual_seed(_SEED)
    by_form: dict[str, list[Sample]] = {}
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        for given in op.sample_inputs("cpu", dtype, requires_grad=gradient):
            sample = Sample(name, (given.input, *given.args), dict(given.kwargs))
            leaves = pytree.tree_leaves((sample.args, sample.kwargs))
            tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            if any(t.layout is not torch.strided or t.numel() > _ELEMENTS for t in tensors):
                continue
            by_form.setdefault(_form(sample), []).append(sample)
    forms = sorted(by_form.values(), key=lambda form: -_weight(form[0]))
    turns = max(map(len, forms), default=0)
    return [form[turn] for turn in range(turns) for form in forms if turn < len(form)]


def _form(sample: Sample) -> str:
    """The form of a call: arguments that are no tensors, and the number of dimensions of each
    tensor.
    """

    def described(leaf: Any) -> str:
        if isinstance(leaf, torch.Tensor):
            return f"{leaf.dim()} {leaf.numel() > 1}"
        return repr(leaf)

    return str(pytree.tree_map(described, (sample.args, sample.kwargs)))


def _weight(sample: Sample) -> int:
    """How much a call says: keywords, and arguments beyond the first; nothing of it where all
    tensors are empty.
    """
    tensors = [
        leaf
        for leaf in pytree.tree_leaves((sample.args, sample.kwargs))
        if isinstance(leaf, torch.Tensor)
    ]
    broadcasts = len({t.shape for t in tensors}) > 1
    filled = all(t.numel() > 1 for t in tensors)
    return (3 * len(sample.kwargs) + len(sample.args) + 2 * broadcasts) * (3 if filled else 1)


def _has_matrix(sample: Sample) -> bool:
    return any(
        torch.is_tensor(leaf) and leaf.dim() > 1
        for leaf in pytree.tree_leaves((sample.args, sample.kwargs))
    )


def _strided(value: Any) -> Any:
    """The same numbers, in memory by columns and with a gap before them."""
    if not torch.is_tensor(value) or value.dim() < 2:
        return value
    turned = torch.zeros((value.shape[-1] + 1, *value.shape[:-1]), dtype=value.dtype)[1:].movedim(
        0, -1
    )
    return turned.copy_(value.detach())


def _call(sample: Sample) -> Callable[..., Any]:
    """The function as it is now, with its neighbours where there are any."""
    function: Callable[..., Any]
    if sample.function.startswith(_PROGRAM):
        return function_of(sample.function)
    if sample.function.startswith("op_db:"):
        name, _, variant = sample.function.removeprefix("op_db:").partition("/")
        function = next(
            op.op for op in op_db() if (op.name, op.variant_test_name) == (name, variant)
        )
    else:
        function = _named(sample.function)
    if sample.how.startswith("around"):
        return _surrounded(function, int(sample.how.split()[1]))
    return function


def _surrounded(function: Callable[..., Any], seed: int) -> Callable[..., Any]:
    """The function between a pointwise operation before it and one neighbour after it, both of
    which are used twice.
    """

    def neighbours(*args: Any, **kwargs: Any) -> Any:
        first, *rest = args
        before = (
            first * 0.5 + first if torch.is_tensor(first) and first.is_floating_point() else first
        )
        result = function(before, *rest, **kwargs)
        if not torch.is_tensor(result) or not result.is_floating_point() or result.dim() == 0:
            return result, before
        after: tuple[Callable[[], Any], ...] = (
            lambda: (torch.tanh(result) + result, result),
            lambda: (result - result.mean(-1, keepdim=True), result.sum()),
            lambda: (result.transpose(0, -1).contiguous() * 2, result.flatten()),
            lambda: (torch.cat([result, result * 3], -1), before),
        )
        return after[seed % len(after)]()

    return neighbours


def _leaf_copy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    copy = (
        torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
        if _is_dense(value)
        else value.clone()
    )
    return copy.copy_(value.detach()).requires_grad_(value.requires_grad)


def _is_dense(value: torch.Tensor) -> bool:
    """True if no two elements share memory, so that a tensor of the same strides can be filled."""
    return 0 not in value.stride() or value.numel() == 0


def program_of(sample: Sample) -> str:
    """A few lines that call it with these values, as `call(given())`; empty where they would be
    long.
    """
    if sample.function.startswith(_PROGRAM):
        given = ", ".join(repr(_literal(value)) for value in sample.args)
        return (
            f"def given():\n    return {given}\n{sample.function}def call(given):\n    return "
            "program(*given)\n"
        )
    name = sample.function.removeprefix("op_db:").partition("/")[0]
    owner = "torch" if callable(_named(name)) else "torch.Tensor"
    tensors = _tensors((sample.args, sample.kwargs))
    is_known = owner == "torch" or hasattr(torch.Tensor, name)
    if sample.how or not is_known or sum(tensor.numel() for tensor in tensors) > _WRITTEN_OUT:
        return ""
    args, kwargs = (
        repr(pytree.tree_map(_literal, value)) for value in (sample.args, sample.kwargs)
    )
    return f"""def given():
    return {args}, {kwargs}
def call(given):
    result = {owner}.{name}(*given[0], **given[1])
    wanted = [x for x in (*given[0], *given[1].values()) if torch.is_tensor(x) and x.requires_grad]
    return result, torch.autograd.grad(result.sum(), wanted) if wanted else ()
"""


def _literal(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    made = f"torch.tensor({value.tolist()}, dtype={value.dtype}).reshape({list(value.shape)})"
    return _Shown(f"{made}.requires_grad_()" if value.requires_grad else made)


def _call_all(
    functions: Sequence[Callable[..., Any]], calls: Sequence[tuple[Any, Any]]
) -> list[Any]:
    return [
        function(*args, **kwargs) for function, (args, kwargs) in zip(functions, calls, strict=True)
    ]


def _filled(functions: Sequence[Callable[..., Any]], calls: Sequence[tuple[Any, Any]]) -> list[Any]:
    """The same with memory that is filled before it is written, and with other random numbers for
    the same seed.
    """
    seed = torch.manual_seed
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with (
            warnings.catch_warnings(),
            mock.patch.object(torch, "manual_seed", lambda given: seed(given + 1)),
        ):
            warnings.simplefilter("ignore")
            return _call_all(functions, calls)
    finally:
        torch.use_deterministic_algorithms(False)


def _outcome(samples: Sequence[Sample], run: Callable[..., list[Any]]) -> Any:
    """Of one sample: what it gives, the gradients and the inputs after the call, or what it
    raises.
    """
    try:
        return _results(samples, run)[0]
    except Exception as error:
        return _raised(error)


def _raised(error: Exception) -> str:
    if lacks_a_module(error):
        raise error
    inner = getattr(error, "inner_exception", None) or error
    return f"{type(inner).__name__}: {inner}".splitlines()[0][:300]


def _results(samples: Sequence[Sample], run: Callable[..., list[Any]]) -> list[Results]:
    """Of each sample the outputs, the gradients along one direction, and the tensors that were
    passed.
    """
    calls = [pytree.tree_map(_leaf_copy, (sample.args, sample.kwargs)) for sample in samples]
    given = [pytree.tree_map(lambda x: x, call) for call in calls]
    functions = [_call(sample) for sample in samples]
    results = run(functions, calls)
    outputs = [
        [leaf for leaf in pytree.tree_leaves(result) if leaf is not None] for result in results
    ]
    gradients = _gradients(given, outputs)
    return [
        {
            "output": [*map(_plain, out)],
            "gradient": [*map(_plain, grads)],
            "input": [*map(_plain, _tensors(call))],
        }
        for out, grads, call in zip(outputs, gradients, given, strict=True)
    ]


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _plain(value: Any) -> torch.Tensor:
    """As a tensor that can be compared: a number as one, a complex one as pairs."""
    tensor = (
        value.detach().resolve_conj().resolve_neg()
        if isinstance(value, torch.Tensor)
        else _number(value)
    )
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).clone()


def _number(value: Any) -> torch.Tensor:
    try:
        return torch.tensor(value)
    except (TypeError, RuntimeError, ValueError):
        return torch.zeros(0)


def _gradients(calls: Sequence[Any], outputs: Sequence[Sequence[Any]]) -> list[list[torch.Tensor]]:
    """The gradients of all samples' inputs at once; one that no output depends on is empty."""
    wanted = [[t for t in _tensors(call) if t.requires_grad and t.is_leaf] for call in calls]
    results, along = [], []
    for out in outputs:
        noise = torch.Generator().manual_seed(0)
        for tensor in out:
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                results.append(tensor)
                along.append(torch.randn(tensor.shape, generator=noise).to(tensor.dtype))
    flat = [tensor for tensors in wanted for tensor in tensors]
    if not flat or not results:
        return [[] for _ in calls]
    taken = iter(torch.autograd.grad(results, flat, along, allow_unused=True))
    return [
        [torch.zeros(0) if (g := next(taken)) is None else g for _ in tensors] for tensors in wanted
    ]


def _is_repeated(one: Any, other: Any) -> bool:
    """True if both are results, and equal but for the last digits."""
    return not isinstance(one, str) and departure(other, one)["excess"] <= 1


def _compiled(samples: Sequence[Sample]) -> list[Any]:
    """Of each sample the results of a compile of many together, what it raises alone, or None where
    it was not run.
    """
    outcomes: list[Any] = [None] * len(samples)
    groups: list[Sequence[int]]
    groups = [
        range(start, min(start + _TOGETHER, len(samples)))
        for start in range(0, len(samples), _TOGETHER)
    ]
    compiles, failed, found = 0, False, False
    while groups and (compiles < _COMPILES or (failed and not found)):
        compiles += 1
        group = groups.pop(0)
        torch._dynamo.reset()
        try:
            results: list[Any] = _results(
                [samples[i] for i in group], torch.compile(_call_all, dynamic=False)
            )
        except Exception as error:
            failed = True
            if len(group) > 1:
                groups = [*_apart(samples, group), *groups]
                continue
            found = True
            results = [_raised(error)]
        for i, result in zip(group, results, strict=True):
            outcomes[i] = result
    return outcomes


def _apart(samples: Sequence[Sample], group: Sequence[int]) -> list[Sequence[int]]:
    """Groups for a group that raised: each sample that raises before any code is generated, and the
    others.

    Halves where there is none, so that one sample that fails alone is found in a few compiles.
    """
    suspects = []
    for i in group:
        torch._dynamo.reset()
        traced = torch.compile(_call_all, backend="aot_eager_decomp_partition", dynamic=False)
        if isinstance(_outcome([samples[i]], traced), str):
            suspects.append(i)
    others = [i for i in group if i not in suspects]
    if suspects and others:
        return [*([i] for i in suspects), others]
    middle = len(group) // 2
    return [group[:middle], group[middle:]]
