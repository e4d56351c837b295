"""Samples, which are calls of operators and modules: torch's own, and those derived from them."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib.util
import itertools
import pickle
import re
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from typing import Any

import torch
from torch.utils import _pytree as pytree

from patchgate.probe.numerics.crossed_calls import crossed_calls
from patchgate.probe.numerics.derived_samples import (
    Call,
    Parameters,
    derived,
    left_out,
    parameters_of,
    resized,
    trained_alone,
)
from patchgate.probe.numerics.operators import samples_of_entry
from patchgate.probe.numerics.own_calls import own_modules
from patchgate.probe.numerics.sample_differences import NEXT_TO_ZERO, SMALL, shown_tensor
from patchgate.probe.patch.load import built_outside


def pickled(module: Any) -> Any:
    return pickle.loads(pickle.dumps(module))


# The most samples of one operator for each way to make them. The kinds alternate.
_PLAIN, _GRADIENT, _STRIDED, _OTHER_DTYPE, _AROUND = 14, 12, 4, 14, 4
_CONTAINED, _OF_A_ROW = 3, 4
_VARIED, _VARIED_SAMPLES, _DERIVED, _RESIZED, _HALF, _NOT_NUMBERS = 12, 3, 20, 8, 6, 6
# Calls with arguments that torch's own samples lack, in float64 and in eager mode.
_WIDE = 40
# Random calls that combine arguments of others, of which a third to a half are valid. They run in
# eager mode only, since some take long to compile: an average pooling with a window of nine by nine
# elements took 41 s of CPU.
_CROSSED = 400
# Parameters that are factors.
_FACTORS = ("beta", "alpha", "value")
# Calls with infinities, in three dtypes each.
_OF_INFINITIES = 2
# Calls with numbers multiplied by this, so that their exponentials overflow in float32.
_OVERFLOWING, _FACTOR = 2, 64.0
# Calls with numbers multiplied by this: formulas that cancel near zero lose all their digits.
_CANCELLING, _NEAR_ZERO = 2, 2.0**-26
# Calls with two numbers exchanged, for example crossed bounds; each also in half precision.
_EXCHANGED = 3
# Calls with two tensors of the same numbers.
_ALIKE = 8
# The most calls that mix dtypes, and the most samples from which such calls are made.
_MIXED, _MIXED_SAMPLES = 8, 2
# Calls of an overload with other settings.
_SETTINGS = 6
# The most calls with the smallest integer of a dtype, and the dtypes of such calls.
_SMALLEST, _INTEGERS = 4, (torch.int64, torch.int32)
#: Half precision.
HALVES = (torch.bfloat16, torch.float16)
# Type of an argument -> values that replace it, because code often branches at them.
_NEIGHBOURS: dict[type, tuple[Any, ...]] = {
    int: (-1, 0, 1, 2),
    bool: (True, False),
    float: (0.0, -1.5),
}
_ELEMENTS = 20_000
_OTHER_DTYPES = (torch.bfloat16, torch.int64, torch.float64, torch.float16, torch.bool, torch.int32)
SEED = 20261123
_PROGRAM = "def program("
_MODULE, _OP_DB, _MAKING = "module:", "op_db:", "making:"
#: The prefix of an entry of a table of decompositions.
DECOMPOSITION = "decomposition:"
#: How a deployed model is run.
DEPLOYED = "no_grad, evaluation"
_MODES = ("training", "evaluation", "no_grad", DEPLOYED)
#: A call after a call with other tensors, repeated after its own tensors were changed; and a call
#: with an incoming gradient that is the same for all elements, as for a sum.
BEFORE, EXPANDED_GRADIENT = "no_grad, after other calls", "the gradient expanded"
#: The graph expands the first tensor from its first row, so that all rows share their memory.
OF_A_ROW = "with one row expanded"
#: A call with infinities and NaN among the numbers.
INFINITE = "with infinities"
#: A random call that combines the arguments of several others.
CROSSED = "with other arguments"
#: A program that compiles a module and calls it again with other weights.
AGAIN = "called again with other weights"
#: How a module is copied -> the function that copies it. The copy has weights of its own.
COPIES: dict[str, Callable[[Any], Any]] = {
    "evaluation, copied": copy.deepcopy,
    "evaluation, pickled": pickled,
}
#: A call in training with the same seed, and so the same random numbers, each time.
DRAWN = "training, with one seed"
#: Several calls in one graph, each of which must draw new random numbers: calls of a function, and
#: calls of a module in training.
REDRAWN, TRAINED_REDRAWN = "drawn again", "training, drawn again"
#: Two calls with a generator of one seed, which must agree and draw from nothing else.
OWN_GENERATOR = "twice with a generator of one seed"
#: A call in training with the backward outside of autocast, where losses are often computed.
AUTOCAST = "training under autocast"
#: How a program is compiled -> Inductor's options.
OPTIONS: dict[str, dict[str, Any]] = {
    "with cpp_wrapper": {"cpp_wrapper": True},
    "with memory_planning": {"memory_planning": True},
    "without reused memory": {"allow_buffer_reuse": False, "inplace_buffers": False},
    "in four threads": {"cpp.threads": 4, "cpp.min_chunk_size": 1},
    "without vectors": {"cpp.simdlen": 1},
}
#: A call in training whose gradients are compared with slopes, with the same seed for each call.
SLOPE = "its gradient is the slope of its results"
# Further plain samples, and samples of each further dtype; both are run in eager mode only.
_EAGER, _FURTHER_DTYPE = 60, 3
_FURTHER_DTYPES = (torch.complex64, torch.uint8)


@dataclass
class Sample:
    """One call: `function` is a name below torch, `op_db:` and the name and variant of an OpInfo,
    `module:` and a name below torch, `decomposition:` and an entry of a table, or a program.
    """

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    #: "" for a call as torch has it; "strided", "with NaN", NEXT_TO_ZERO, "with large numbers",
    #: "around SEED", "larger"; for a module, its mode.
    how: str = ""
    made: Call = ((), {})  #: Arguments that a module is made with.
    first: Call | None = None  #: A call of other sizes for which the function is compiled first.
    writes: bool = False  #: True for a program that writes to its inputs.
    traced: bool = True  #: False if the sample is run in eager mode only.

    @property
    def text(self) -> str:
        """The call, such as `nn.functional.pad(float32[2, 3], (1, 1))`, and how it was made."""
        if self.is_program:
            written = map(str.strip, self.function.splitlines()[1:])
            lines = "; ".join(filter(None, written))
            dtypes = {str(tensor.dtype)[6:] for tensor in tensors_in(self.args)} - {"float32"}
            if dtypes:
                lines += f", given {', '.join(sorted(dtypes))}"
            if self.how in OPTIONS:
                lines += f", {self.how}"
            return f"{lines}: {SLOPE}" if self.how == SLOPE else lines
        name = self.function.removeprefix(_OP_DB).removeprefix(_MODULE).rstrip("/")
        name = name.replace(_MAKING, "the tensors of ").replace(DECOMPOSITION, "")
        made = f"({_arguments(*self.made)})" if self.is_module else ""
        call = f"{name}{made}({_arguments(self.args, self.kwargs)})"
        return f"{call}, {self.how}" if self.how else call

    @property
    def form(self) -> tuple[str, ...]:
        """The callee and the names of its keywords; for a module also the names of its
        constructor's keywords.
        """
        return self.function, *sorted(self.kwargs), *sorted(self.made[1])

    @property
    def is_program(self) -> bool:
        return self.function.startswith(_PROGRAM)

    @property
    def is_module(self) -> bool:
        return self.function.startswith(_MODULE)

    @property
    def is_decomposition(self) -> bool:
        return self.function.startswith(DECOMPOSITION)

    @property
    def is_making(self) -> bool:
        return self.function.startswith(_MAKING)

    def module(self) -> Any:
        """A new module with the same random weights each time, in the dtype of the first tensor of
        the call; None for a function.
        """
        if not self.is_module:
            return None
        with built_outside(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            args, kwargs = self.made
            module = named(self.function.removeprefix(_MODULE))(*args, **kwargs)
            with torch.no_grad():  # weights that are all 1 would hide that they are unused
                for tensor in (*module.parameters(), *module.buffers()):
                    if tensor.is_floating_point():
                        # A replaced constructor may leave any numbers in the copied weights.
                        kept = 0 if self.how in COPIES else tensor
                        tensor.copy_(torch.rand_like(tensor) * 0.25 + kept)
        dtypes = [each.dtype for each in tensors_in((self.args, self.kwargs))]
        module.to(next((dtype for dtype in dtypes if dtype.is_floating_point), None))
        is_trained = self.how.startswith("training") or self.how in ("no_grad", SLOPE)
        return module.train(is_trained)


def _arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    return ", ".join([*map(_shown, args), *(f"{key}={_shown(kwargs[key])}" for key in kwargs)])


def _shown(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(
            pytree.tree_map(
                lambda leaf: AsWritten(_shown(leaf)) if torch.is_tensor(leaf) else leaf, value
            )
        )
    return shown_tensor(value)


class AsWritten(str):
    """Text that is its own `repr`."""

    __repr__ = str.__str__


def op_db() -> list[Any]:
    """Return every OpInfo of this torch. Avoid two imports that torch's module makes.

    Samples use nothing of `expecttest`. `numba` would look for devices, which ends a process that
    may not use the machine's devices.
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
        from torch.testing._internal import common_methods_invocations as invocations

        # Setting a seed breaks the graph, and is not needed: samples that draw are left out anyway.
        invocations.wrapper_set_seed = _unseeded
    # `op_db`, and the lists of `_foreach_add` and similar functions.
    lists = [infos for name, infos in vars(invocations).items() if name.endswith("op_db")]
    return list(itertools.chain(*lists))


def _unseeded(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs)


def module_db() -> list[Any]:
    """Every ModuleInfo of this torch, and modules that have none."""
    from torch.testing._internal import common_modules

    return [*common_modules.module_db, *own_modules()]


def samples_of(op: Any, called: str = "") -> list[Sample]:
    """Samples that call one operator by the name `called`, the most telling of each kind first."""
    forms = (op.op, op.method_variant, op.inplace_variant)
    function = named(called)
    is_public = not re.search(r"(^|\.)_", called) and named(op.name) is op.op
    is_form = bool(called) and callable(function) and (is_public or function in forms)
    name = called if is_form else _function_of(op)
    plain = plain_samples(op, name=name)
    trained = _made(op, name, torch.float32, True) if op.supports_autograd else []
    if trained:  # torch leaves out some arguments if a gradient is asked for
        calls = pytree.tree_map(_trained, [(s.args, s.kwargs) for s in plain])
        trained = flat([trained, [Sample(name, *call) for call in calls]])
    others = [_made(op, name, dtype, False) for dtype in _OTHER_DTYPES]
    large = pytree.tree_map(_large, [(s.args, s.kwargs) for s in others[1][:2]])
    others.append([Sample(name, *call) for call in large])
    parameters = functools.partial(parameters_of, op.op, op.aten_name)
    crossed = _crossed(op.op, plain)
    further = flat([_made(op, name, dtype, False)[:_FURTHER_DTYPE] for dtype in _FURTHER_DTYPES])
    made = _in_turns(plain, trained, flat(others), parameters, crossed)
    return [*made, *(replace(sample, traced=False) for sample in further)]


def plain_samples(op: Any, dtype: torch.dtype = torch.float32, name: str = "") -> list[Sample]:
    """Samples of a dtype, or of int64 if the operator does not take that dtype."""
    return _made(op, name, dtype, False) or _made(op, name, torch.int64, False)


def samples_of_overload(name: str, calls: Sequence[Call]) -> list[Sample]:
    """Samples of an overload such as `ops.aten.add.Tensor`, made from calls of it."""
    plain = _by_form(Sample(name, *call) for call in calls)
    trained = [Sample(name, *pytree.tree_map(_trained, (s.args, s.kwargs))) for s in plain]
    others = [[cast_sample(s, dtype)] for s in plain[:_VARIED_SAMPLES] for dtype in _OTHER_DTYPES]
    # The tensors of a backward function need one dtype and shapes that fit each other; it may crash
    # otherwise.
    is_public = "backward" not in name and not name.startswith("ops.aten._")
    parameters = functools.partial(parameters_of, named(name), "") if is_public else None
    crossed = _crossed(named(name), plain) if is_public else []
    found = _in_turns(plain, trained, flat(others), parameters, crossed)
    settings = [each for s in plain[:_VARIED_SAMPLES] for each in _with_other_settings(s)]
    return flat([found, settings[:_SETTINGS]])


def _crossed(function: Callable[..., Any], samples: Sequence[Sample]) -> list[Sample]:
    """Random calls that combine the arguments of samples of one function."""
    calls = crossed_calls(function, [(s.args, s.kwargs) for s in samples], SEED)
    name = samples[0].function if samples else ""
    return [
        Sample(name, args, kwargs, how=CROSSED)
        for args, kwargs in itertools.islice(calls, _CROSSED)
    ]


def samples_of_module(owner: Any, modules: Sequence[Any]) -> list[Sample]:
    """Samples of the modules that derive from a class, in each mode. The modes alternate."""
    by_mode: dict[bool, list[list[Sample]]] = {True: [], False: []}
    infos = [info for info in modules if issubclass(info.module_cls, owner)]
    # A class without samples of its own gets a few calls of modules that contain an instance.
    most = None if infos else _CONTAINED
    for info in infos or [info for info in modules if _contains(info, owner)]:
        for training, modes in ((True, _MODES[::2]), (False, _MODES[1::2])):
            torch.manual_seed(SEED)
            found = by_mode[training]
            with contextlib.suppress(Exception):
                made = info.module_inputs_func(
                    info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
                )
                for given in itertools.islice(made, most):
                    calls = _calls_of_module(info, given.constructor_input, given.forward_input)
                    found += [[replace(calls[0], how=mode)] for mode in modes]
                    found.append([replace(call, how=modes[0]) for call in calls[1:]])
                    if not training:
                        halves = [cast_sample(call, torch.bfloat16) for call in calls]
                        found.append([replace(call, how=modes[0]) for call in halves])
    return flat([flat(found) for found in by_mode.values()])


def samples_of_making(owner: Any, modules: Sequence[Any]) -> list[Sample]:
    """Samples of the constructor of a class with each of its settings, and of copies of the modules
    that it makes; in eager mode only.
    """
    found = []
    for info in modules:
        if issubclass(info.module_cls, owner):
            torch.manual_seed(SEED)
            with contextlib.suppress(Exception):
                for given in info.module_inputs_func(
                    info, device="cpu", dtype=torch.float32, requires_grad=True, training=True
                ):
                    made, call = given.constructor_input, given.forward_input
                    called = _calls_of_module(info, made, call)[:1]
                    found.append([replace(each, how=how) for each in called for how in COPIES])
                    calls = _calls_of_module(info, made, made)
                    found.append([Sample(f"{_MAKING}{info.name}", *c.made) for c in calls])
    return [replace(sample, traced=False) for sample in flat(found)]


def _contains(info: Any, owner: Any) -> bool:
    with contextlib.suppress(Exception):
        how = {"device": "cpu", "dtype": torch.float32, "requires_grad": True, "training": False}
        made = next(iter(info.module_inputs_func(info, **how))).constructor_input
        module = info.module_cls(*made.args, **made.kwargs)
        return any(isinstance(each, owner) for each in module.modules())
    return False


def made_tensors(sample: Sample) -> Callable[..., list[torch.Tensor]]:
    """A function that makes the module and returns zeros in place of its parameters and buffers,
    since their first values may be random.
    """

    def make(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
        module = named(sample.function.removeprefix(_MAKING))(*args, **kwargs)
        return [torch.zeros_like(t) for t in (*module.parameters(), *module.buffers())]

    return make


def _calls_of_module(info: Any, made: Any, call: Any) -> list[Sample]:
    """A call of a module with its usual settings, and with each other setting."""
    parameters = parameters_of(info.module_cls, "", len(made.args))
    further = ({**made.kwargs, name: value} for name, value in left_out(parameters, made.kwargs))
    name, args = f"{_MODULE}{info.name}", tuple(call.args)
    return [
        Sample(name, args, dict(call.kwargs), made=(tuple(made.args), settings))
        for settings in (dict(made.kwargs), *further)
    ]


def flat(by_source: Sequence[Sequence[Sample]]) -> list[Sample]:
    """Take one sample of each source in turn, because the first samples of each source are the most
    telling.
    """
    turns = itertools.zip_longest(*by_source)
    return [sample for turn in turns for sample in turn if sample is not None]


def _in_turns(
    plain: list[Sample],
    trained: list[Sample],
    others: list[Sample],
    parameters: Callable[[int], Parameters] | None,
    crossed: list[Sample],
) -> list[Sample]:
    """Make further samples from those of an operator. Return some of each kind, in turns."""
    around = [s for s in plain if any(torch.is_tensor(a) and a.is_floating_point() for a in s.args)]
    alone = [
        replace(sample, args=call[0], kwargs=call[1])
        for sample in trained[:_GRADIENT]
        for call in trained_alone(sample.args, sample.kwargs)
    ]
    further, sizes, varied, mixed = (list[Sample]() for _ in range(4))
    if parameters:
        sources = [*_first_of_each_rank(trained), *_first_of_each_rank(plain)]
        further = flat(
            [
                [
                    replace(s, args=args, kwargs=kwargs)
                    for args, kwargs in derived(known, s.args, s.kwargs)
                ]
                for s in sources
                for known in [parameters(len(s.args))]
            ]
        )
        sizes = _sizes(sources[::-1])
        varied = [each for s in plain[:_VARIED_SAMPLES] for each in _varied(s)]
        mixed = [each for s in _with_several_floats(plain) for each in _of_mixed_dtypes(s)]
    named_dtype = [s for s in further if "dtype" in s.kwargs]
    halves = _halves_of([*named_dtype, *further])
    exchanged = [*itertools.islice(filter(None, map(_exchanged, plain)), _EXCHANGED)]
    kinds = [
        plain[:_PLAIN],
        *_with_unusual_numbers(around),
        exchanged,
        _halves_of(exchanged),
        _alike([*trained, *plain]),
        [each for s in others for each in _with_smallest(s)][:_SMALLEST],
        alone[:_GRADIENT],
        further[:_DERIVED],
        sizes,
        others[:_OTHER_DTYPE],
        mixed[:_MIXED],
        halves[:_HALF],
        trained[:_GRADIENT],
        _strided([*plain, *further]),
        [replace(s, how=OF_A_ROW) for s in filter(_has_rows, around)][:_OF_A_ROW],
        [replace(s, how=f"around {seed}") for seed, s in enumerate(around[:_AROUND])],
        varied[:_VARIED],
    ]
    wide = [cast_sample(s, torch.float64) for s in further[:_WIDE]]
    alone = [*wide, *crossed, *plain[_PLAIN : _PLAIN + _EAGER]]
    return [*flat(kinds), *(replace(sample, traced=False) for sample in alone)]


def _has_rows(sample: Sample) -> bool:
    """True for a call whose first argument is a tensor of several rows."""
    first = sample.args[0]
    return isinstance(first, torch.Tensor) and first.dim() > 0 and first.shape[0] > 1


def _strided(samples: Sequence[Sample]) -> list[Sample]:
    """Calls whose matrices are laid out in columns."""
    return [
        replace(s, args=_in_columns(s.args), kwargs=_in_columns(s.kwargs), how="strided")
        for s in itertools.islice(filter(_has_matrix, samples), _STRIDED)
    ]


def _with_unusual_numbers(samples: Sequence[Sample]) -> list[list[Sample]]:
    """The calls with NaN, NaN and a zero factor, infinities, large numbers, and small numbers."""
    of_infinities = [*samples[:_OF_INFINITIES], *_halves_of(samples[:_OF_INFINITIES])]
    next_to_zero = (
        replace(each, how=NEXT_TO_ZERO) for s in _with_zeros(samples) for each in _with_nan(s)
    )
    return [
        [each for s in samples for each in _with_nan(s)][:_NOT_NUMBERS],
        [*itertools.islice(next_to_zero, _NOT_NUMBERS)],
        [*map(_with_infinities, of_infinities)],
        [*map(_with_large_numbers, samples[:_OVERFLOWING])],
        [*map(_with_small_numbers, samples[:_CANCELLING])],
    ]


def _with_nan(sample: Sample) -> Iterator[Sample]:
    """The call with NaN in each of its tensors in turn; the result must not lose the NaN."""
    leaves, spec = pytree.tree_flatten((sample.args, sample.kwargs))
    for at, leaf in enumerate(leaves):
        if torch.is_tensor(leaf) and leaf.is_floating_point() and leaf.numel() > 1:
            changed = leaf.detach().flatten().clone()
            changed[: changed.numel() // 2] = torch.nan
            new = [*leaves[:at], changed.reshape(leaf.shape), *leaves[at + 1 :]]
            args, kwargs = pytree.tree_unflatten(new, spec)
            yield replace(sample, args=args, kwargs=kwargs, how="with NaN")


def _with_several_floats(samples: Iterable[Sample]) -> list[Sample]:
    """The first samples that have several tensors of float32."""
    several = (s for s in samples if len(_floats(s)) > 1)
    return [*itertools.islice(several, _MIXED_SAMPLES)]


def _floats(sample: Sample) -> list[torch.Tensor]:
    found = tensors_in((sample.args, sample.kwargs))
    return [tensor for tensor in found if tensor.dtype is torch.float32]


def _of_mixed_dtypes(sample: Sample) -> Iterator[Sample]:
    """Yield four calls: the first tensor in bfloat16, all others in bfloat16, the first in int64,
    and all others in float64 without dimensions. Torch promotes each in its own way.
    """
    first, *others = map(id, _floats(sample))
    changes: tuple[tuple[Any, Callable[[torch.Tensor], torch.Tensor]], ...] = (
        ([first], lambda tensor: tensor.bfloat16()),
        (others, lambda tensor: tensor.bfloat16()),
        ([first], lambda tensor: (tensor.detach() * 4).to(torch.int64)),
        (others, lambda tensor: tensor.detach().flatten()[:1].sum().double()),
    )
    for changed, change in changes:
        leaves, spec = pytree.tree_flatten((sample.args, sample.kwargs))
        leaves = [change(leaf) if id(leaf) in changed else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        yield replace(sample, args=args, kwargs=kwargs)


def _with_other_settings(sample: Sample) -> Iterator[Sample]:
    """Yield the call of an overload with other factors, then for each switch this call with the
    switch inverted. Torch's own functions call a backward with few of these settings. Yield
    nothing for a Python function, which has no schema.
    """
    schema = getattr(named(sample.function), "_schema", None)
    if schema is None:
        return
    kinds = {argument.name: str(argument.type) for argument in schema.arguments}
    names = [*itertools.islice(kinds, len(sample.args)), *sample.kwargs]
    values = [*sample.args, *sample.kwargs.values()]
    places = itertools.count(1)
    values = [
        value + 0.25 * next(places) if _is_factor(value, kinds[name]) else value
        for name, value in zip(names, values, strict=True)
    ]
    leaves, spec = pytree.tree_flatten(values)
    # Without a running mean, the backward of a batch norm in evaluation crashes the process.
    is_whole = all(value is not None for value in values)
    switches = [at for at, leaf in enumerate(leaves) if is_whole and type(leaf) is bool]
    for at in (None, *switches):
        turned = [not leaf if place == at else leaf for place, leaf in enumerate(leaves)]
        given = pytree.tree_unflatten(turned, spec)
        args, rest = tuple(given[: len(sample.args)]), given[len(sample.args) :]
        yield replace(sample, args=args, kwargs=dict(zip(sample.kwargs, rest, strict=True)))


def _is_factor(value: Any, kind: str) -> bool:
    return kind in ("number", "Scalar", "float") and type(value) in (int, float)


def _with_zeros(samples: Iterable[Sample]) -> list[Sample]:
    """The calls with zero in place of each factor that they pass. Torch skips some products with
    zero, and so loses their NaN.
    """
    return [
        replace(s, kwargs={**s.kwargs, name: 0})
        for s in samples
        for name in _FACTORS
        if name in s.kwargs
    ]


def _halves_of(samples: Iterable[Sample]) -> list[Sample]:
    return [cast_sample(sample, dtype) for sample in samples for dtype in HALVES]


def _with_infinities(sample: Sample) -> Sample:
    """The call with infinities and NaN among the numbers of its first tensor."""
    first = next(leaf for leaf in sample.args if torch.is_tensor(leaf) and leaf.is_floating_point())
    changed = first.detach().flatten().clone()
    for number, value in enumerate((torch.inf, -torch.inf, torch.nan)):
        changed[number::5] = value
    args = [changed.reshape(first.shape) if leaf is first else leaf for leaf in sample.args]
    return replace(sample, args=tuple(args), how=INFINITE)


def _with_large_numbers(sample: Sample) -> Sample:
    """The call with numbers so large that intermediate results overflow."""
    args, kwargs = pytree.tree_map(_multiplied, (sample.args, sample.kwargs))
    return replace(sample, args=args, kwargs=kwargs, how="with large numbers")


def _with_small_numbers(sample: Sample) -> Sample:
    """The call with numbers near zero. The digits of its small results are compared too."""
    multiplied = functools.partial(_multiplied, by=_NEAR_ZERO)
    args, kwargs = pytree.tree_map(multiplied, (sample.args, sample.kwargs))
    return replace(sample, args=args, kwargs=kwargs, how=SMALL)


def _multiplied(value: Any, by: float = _FACTOR) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return value.detach() * by


def _exchanged(sample: Sample) -> Sample | None:
    """The call with its first two numbers exchanged; None if they are equal or fewer than two."""
    leaves, spec = pytree.tree_flatten((sample.args, sample.kwargs))
    numbers = [at for at, leaf in enumerate(leaves) if type(leaf) in (int, float)][:2]
    if len({leaves[at] for at in numbers}) < 2:
        return None
    for at, value in zip(numbers, [leaves[at] for at in reversed(numbers)], strict=True):
        leaves[at] = value
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    return replace(sample, args=args, kwargs=kwargs)


def _alike(samples: Sequence[Sample]) -> list[Sample]:
    """Calls whose second tensor is a copy of the first, so that distances and differences are zero.
    Each call has a setting that no call before it has. Calls whose first two tensors differ in
    dtype or number of dimensions are left out.
    """
    found, met = list[Sample](), set[tuple[int, str]]()
    for sample in samples:
        leaves, spec = pytree.tree_flatten((sample.args, sample.kwargs))
        places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        settings = {(at, repr(leaf)) for at, leaf in enumerate(leaves) if at not in places}
        tensors = [leaves[at] for at in places[:2]]
        if len(tensors) < 2 or len({(each.dim(), each.dtype) for each in tensors}) > 1:
            continue
        if found and settings <= met:
            continue
        met |= settings
        first, second = tensors
        leaves[places[1]] = first.detach().clone().requires_grad_(second.requires_grad)
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        found.append(replace(sample, args=args, kwargs=kwargs))
    return found[:_ALIKE]


def _sizes(sources: Sequence[Sample]) -> list[Sample]:
    """Calls with no element and with one element along a dimension, and calls with twice as many
    elements after a compile for the original size.
    """
    found = []
    for s in sources:
        for dim in (0, -1):
            for size in (0, 1):
                args, kwargs = resized((s.args, s.kwargs), dim, size)
                found.append(replace(s, args=args, kwargs=kwargs))
            args, kwargs = resized((s.args, s.kwargs), dim, None)
            first = (s.args, s.kwargs)
            found.append(replace(s, args=args, kwargs=kwargs, how="larger", first=first))
    return found[:_RESIZED]


def _first_of_each_rank(samples: Sequence[Sample]) -> list[Sample]:
    """The first sample for each number of dimensions of the first tensor, which must have several
    elements; at most three samples.
    """
    found: dict[int, Sample] = {}
    for sample in samples:
        first = sample.args[0] if sample.args else None
        if isinstance(first, torch.Tensor) and first.numel() > 1:
            found.setdefault(first.dim(), sample)
    return list(found.values())[:_VARIED_SAMPLES]


def _varied(sample: Sample) -> list[Sample]:
    """The call with one argument other than a tensor changed. Eager mode shows which of these calls
    are valid.
    """
    leaves, spec = pytree.tree_flatten((sample.args, sample.kwargs))
    found = []
    for at, leaf in enumerate(leaves):
        for value in _NEIGHBOURS.get(type(leaf), ()):
            if value != leaf:
                changed = [*leaves[:at], value, *leaves[at + 1 :]]
                args, kwargs = pytree.tree_unflatten(changed, spec)
                found.append(replace(sample, args=args, kwargs=kwargs))
    return found


def _function_of(op: Any) -> str:
    return op.name if named(op.name) is op.op else f"{_OP_DB}{op.name}/{op.variant_test_name}"


def named(name: str) -> Any:
    """The object below torch with this name; None if there is none."""
    return functools.reduce(lambda owner, part: getattr(owner, part, None), name.split("."), torch)


def _made(op: Any, name: str, dtype: torch.dtype, gradient: bool) -> list[Sample]:
    """Samples of a dtype. They alternate between forms, the form with the most arguments first."""
    if dtype not in (op.dtypes if not gradient else op.dtypes & set(op.backward_dtypes)):
        return []
    torch.manual_seed(SEED)
    found = []
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        for given in samples_of_entry(op, dtype, requires_grad=gradient):
            found.append(Sample(name, (given.input, *given.args), dict(given.kwargs)))
    return _by_form(found)


def _by_form(samples: Iterable[Sample]) -> list[Sample]:
    """Samples without large tensors. They alternate between forms, the form with the most arguments
    first.
    """
    by_form: dict[str, list[Sample]] = {}
    for sample in samples:
        tensors = tensors_in((sample.args, sample.kwargs))
        if all(t.layout is torch.strided and t.numel() <= _ELEMENTS for t in tensors):
            by_form.setdefault(_form(sample), []).append(sample)
    return flat(sorted(by_form.values(), key=lambda form: -_weight(form[0])))


def _form(sample: Sample) -> str:
    """The form of a call: its arguments other than tensors, and for each tensor the number of
    dimensions and whether it has several elements.
    """

    def described(leaf: Any) -> str:
        if isinstance(leaf, torch.Tensor):
            return f"{leaf.dim()} {leaf.numel() > 1}"
        return repr(leaf)

    return str(pytree.tree_map(described, (sample.args, sample.kwargs)))


def _weight(sample: Sample) -> int:
    """Return a number that says how telling a call is. Keywords, other arguments and tensors of
    different shapes count, and count three times if every tensor has several elements.
    """
    tensors = tensors_in((sample.args, sample.kwargs))
    broadcasts = len({t.shape for t in tensors}) > 1
    filled = all(t.numel() > 1 for t in tensors)
    return (3 * len(sample.kwargs) + len(sample.args) + 2 * broadcasts) * (3 if filled else 1)


def _has_matrix(sample: Sample) -> bool:
    return any(
        tensor.dim() > 1 < tensor.numel() for tensor in tensors_in((sample.args, sample.kwargs))
    )


def _in_columns(values: Any) -> Any:
    """The same numbers, stored by columns and after a gap."""
    return pytree.tree_map(column_major, values)


def column_major(value: Any) -> Any:
    if not torch.is_tensor(value) or value.dim() < 2:
        return value
    turned = torch.zeros((value.shape[-1] + 1, *value.shape[:-1]), dtype=value.dtype)[1:].movedim(
        0, -1
    )
    return turned.copy_(value.detach())


def _large(value: Any) -> Any:
    """Integers multiplied so that float32 rounds them; other values unchanged."""
    if not torch.is_tensor(value) or value.dtype is not torch.int64:
        return value
    return value * (2**33 + 1)


def _with_smallest(sample: Sample) -> Iterator[Sample]:
    """The call with the smallest integer of its dtype, which has no negative, in its only tensor.

    Dividing that integer by -1 ends the process, so no call that could do so is made.
    """
    leaves = pytree.tree_leaves((sample.args, sample.kwargs))
    first = next(iter(sample.args), None)
    if not isinstance(first, torch.Tensor) or first.dtype not in _INTEGERS or first.numel() < 2:
        return
    if any(torch.is_tensor(each) or each == -1 for each in leaves[1:]):
        return
    changed = first.flatten().clone()
    changed[changed.numel() // 2] = torch.iinfo(first.dtype).min
    args = changed.reshape(first.shape), *sample.args[1:]
    yield replace(sample, args=args, how="with the smallest integer")


def _trained(value: Any) -> Any:
    if not torch.is_tensor(value) or not value.is_floating_point():
        return value
    return value.detach().clone().requires_grad_()


def cast_sample(sample: Sample, dtype: torch.dtype) -> Sample:
    """The call with its tensors of float32 in another dtype."""
    cast = functools.partial(_cast, dtype=dtype)
    args, kwargs = pytree.tree_map(cast, (sample.args, sample.kwargs))
    return replace(sample, args=args, kwargs=kwargs)


def _cast(value: Any, dtype: torch.dtype) -> Any:
    return value.to(dtype) if torch.is_tensor(value) and value.dtype is torch.float32 else value


def tensors_in(values: Any) -> list[torch.Tensor]:
    """The tensors of a call or of results."""
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]
