"""Checks the operators that a patch defines: each call must agree with the operator's schema, its
fake function, its gradient under AOTAutograd, and the slope of its results.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.library import opcheck
from torch.testing._internal.optests.generate_tests import OpCheckError
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from patchgate.probe.compile.observe import environment
from patchgate.probe.numerics.operator_slopes import wrong_gradient
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.protocol import CheckOperators, CustomOperator, OperatorsChecked, Stage

# The tests of opcheck. The test of how an autograd kernel is registered is left out, because a
# fault there does no harm to users.
_TESTS = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
# Shapes of the tensors of a call, in order; the last one is for all further tensors.
_SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((4, 8),),
    ((4, 8), (8,)),
    ((4, 8), (8,), (4, 8)),
    ((4, 8), (8, 8), (8,)),
    ((2, 4, 8),),
    ((8,),),
    ((2, 3, 4, 8),),
    ((4, 8), (4,)),
    ((2, 4, 8), (2,)),
    ((2, 4, 8), (8,)),
    ((2, 4, 8), (4, 8)),
)
# Dtypes of the tensors of a call, in the same order. The last choice is for a tensor of values and
# a tensor of indices into it.
_DTYPES: tuple[tuple[torch.dtype, ...], ...] = (
    (torch.float32,),
    (torch.bfloat16,),
    (torch.float64,),
    (torch.int64,),
    (torch.bool,),
    (torch.float32, torch.int64),
)
_VALUES: dict[str, Any] = {"float": 0.5, "number": 2, "bool": False}
# Integers of a call, in order; the last one is for all further integers. They may be counts or
# positions.
_INTEGERS = ((1,), (2, 0))
# The most calls of one operator and dtype. If no call has a tensor of `_DEEP` dimensions, one such
# call is added, because a transposed gradient with fewer dimensions can always be viewed as rows.
_CALLS, _DEEP = 3, 3
# The share by which a gradient may differ if the gradient of the result has another layout in
# memory, because terms may be added in another order.
_OFF = {torch.bfloat16: 0.05, torch.float16: 0.05}
_LENGTH = 300
# Names of operators that other operators call with shapes that fit each other.
_CALLED = re.compile(r"backward|bwd")
Call = tuple[tuple[Any, ...], dict[str, Any]]
Tensors = list[torch.Tensor]
Layouts = dict[str, Callable[[torch.Tensor], torch.Tensor]]
#: Overload and dtypes -> calls of it.
Calls = dict[tuple[Any, tuple[torch.dtype, ...]], list[Call]]


def check_operators(request: CheckOperators, stage: Stage) -> OperatorsChecked:
    """Run opcheck on calls of each operator that the patch defines."""
    apply_patch(request, stage)
    stage("run")
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        overloads = {name: _overloads(name) for name in request["operators"]}
        calls = _all_calls([*itertools.chain(*overloads.values())])
        found = {name: _checked(own, *calls) for name, own in overloads.items()}
    return {"environment": environment(), "operators": found}


def _overloads(name: str) -> list[Any]:
    namespace, _, short = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), short)
    return [getattr(packet, each) for each in packet.overloads()]


def _all_calls(overloads: Sequence[Any]) -> tuple[Calls, set[Any]]:
    """Return calls of each operator, and the operators for which only recorded calls are used, as
    other operators call them or their names suggest it. Calls of all other operators are made up.
    """
    made, inner = Calls(), Calls()
    for key in itertools.product(overloads, _DTYPES):
        recorder = _CallsOfOthers(key[0], overloads)
        made[key] = [*_calls(key[0], key[1], recorder)]
        for other, calls in recorder.calls.items():
            inner.setdefault((other, key[1]), []).extend(calls)
    called = {overload for overload, _ in inner} | {o for o in overloads if _CALLED.search(str(o))}
    found = {key: inner.get(key, [])[:_CALLS] if key[0] in called else made[key] for key in made}
    return found, called


class _CallsOfOthers(TorchDispatchMode):
    """Records an operator's calls of other operators, made in its gradient or its composition."""

    def __init__(self, caller: Any, overloads: Sequence[Any]) -> None:
        super().__init__()
        self._others = {*overloads} - {caller}
        self.calls: dict[Any, list[Call]] = defaultdict(list)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in self._others:
            self.calls[func].append(_copied((args, kwargs or {})))
        return func(*args, **kwargs or {})


def _checked(overloads: Sequence[Any], calls: Calls, called: set[Any]) -> CustomOperator:
    """The result for one operator. A fault counts if all calls with the same dtypes have faults,
    since eager mode accepts some arguments by chance. If the calls with other dtypes are right, a
    fake function may refuse some dtypes, and may be wrong for integers.
    """
    answer: CustomOperator = {"calls": 0, "faults": [], "some": []}
    unclear, is_right = list[str](), False
    for overload, dtypes in itertools.product(overloads, _DTYPES):
        found = [_faults(overload, *call) for call in calls[overload, dtypes]]
        answer["calls"] += len(found)
        right = [
            call for call, faults in zip(calls[overload, dtypes], found, strict=True) if not faults
        ]
        faults, some = _of_right_calls(overload, right, is_recorded=overload in called)
        answer["faults"] += faults
        answer["some"] += some
        is_right = is_right or not all(found)
        shown = next(filter(None, reversed(found)), {})
        if not all(found):
            answer["some"] += shown
        elif any(map(_is_refusal, shown.values())) or not dtypes[-1].is_floating_point:
            unclear += shown
        else:
            answer["faults"] += shown
        if answer["faults"]:
            break
    answer["some" if is_right else "faults"] += unclear
    return answer


def _of_right_calls(
    overload: Any, right: Sequence[Call], *, is_recorded: bool
) -> tuple[list[str], list[str]]:
    """Return further faults of calls in which opcheck finds none: faults of the operator, then
    faults that show with some arguments only. The operator is meant to take the arguments of these
    calls, so their choice does not explain a fault.
    """

    def first(faults: Iterator[list[str]]) -> list[str]:
        return next(filter(None, faults), [])

    more = itertools.chain(
        (_of_layouts(overload, *call) for call in right),
        (_of_given_layouts(overload, *call) for call in right if not is_recorded),
        (_of_switches(overload, *call) for call in right[:1]),
        (_of_strides(overload, *call, _AS_GIVEN, keeps=True) for call in right),
        # The arguments of recorded calls depend on each other, so their layout is not changed.
        (_of_strides(overload, *call, _IN_ROWS, keeps=True) for call in right if not is_recorded),
    )
    faults = first(more)
    if is_recorded:
        return faults, []
    more = itertools.chain(
        (_of_strides(overload, *call, _IN_ROWS, keeps=False) for call in right),
        (_of_strides(overload, *call, _IN_COLUMNS, keeps=True) for call in right),
    )
    some = first(more)
    slopes = [wrong_gradient(overload, *call) for call in right]
    wrong = [
        f"{overload}({_text(*call)}): {text}"
        for call, text in zip(right, slopes, strict=True)
        if text
    ]
    return (faults, some + wrong[:1]) if "" in slopes else (faults + wrong[:1], some)


def _faults(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Exception]:
    """The faults that opcheck finds in a call, by their texts. If opcheck finds none, the fault may
    be that the fake function makes the number of rows a constant.
    """
    results = opcheck(overload, args, kwargs, test_utils=_TESTS, raise_exception=False)
    called = f"{overload}({_text(args, kwargs)})"
    faults = {
        f"{called}: {test.removeprefix('test_')}: {_first_line(result)}": result
        for test, result in results.items()
        if isinstance(result, Exception)
    }
    if not faults and _makes_rows_constant(overload, args, kwargs):
        text = f"{called}: its fake function makes the number of rows a constant"
        faults[text] = OpCheckError(text)
    return faults


def _of_layouts(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Run the backward of a call with the result's gradient in other layouts: stored by columns, as
    after a transpose, and expanded, as after a sum. Return the first fault: the backward raises, or
    its gradients differ from the gradients for a contiguous layout.
    """
    for name, way in {"transposed": _turned, "expanded": _of_a_sum}.items():
        one = partial(_gradients, overload, args, kwargs, way)
        other = partial(_gradients, overload, args, kwargs, partial(_in_rows, way))
        if text := _departure(one, other):
            called = f"{overload}({_text(args, kwargs)})"
            return [f"{called}: its gradient {text} where that of the result is {name}"]
    return []


def _of_given_layouts(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Run the backward of a call with arguments in other layouts. Return the first fault, as above.
    Layouts that the forward does not take are left out.
    """
    for name, way in (_IN_ROWS | _IN_COLUMNS).items():
        given = pytree.tree_map_only(torch.Tensor, way, _copied((args, kwargs)))
        if all(each.is_contiguous() for each in _tensors(given)):
            continue
        with suppress(Exception):
            overload(*given[0], **given[1])
            one = partial(_gradients, overload, args, kwargs, _unchanged, way)
            text = _departure(one, partial(_gradients, overload, args, kwargs, _unchanged))
            if text:
                called = f"{overload}({_text(args, kwargs)})"
                return [f"{called}: its gradient {text} where its arguments are {name}"]
    return []


def _departure(one: Callable[[], Tensors], other: Callable[[], Tensors]) -> str:
    """How the first gradients depart from the others: they raise, are missing or have other
    numbers. Empty if they do not, or if the others raise: only the operator knows which arguments
    have a gradient.
    """
    try:
        expected = other()
    except Exception:
        return ""
    try:
        found = one()
    except Exception as error:
        return f"raises {type(error).__name__}: {_first_line(error)}"
    if len(found) != len(expected):
        return "is missing"
    return "" if all(map(_is_near, found, expected)) else "has other numbers"


def _of_switches(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Invert the default of one boolean argument at a time, for example with `keepdim=True`. Return
    the faults of the first such call that has any.
    """
    for argument in overload._schema.arguments:
        if str(argument.type) == "bool" and argument.has_default_value():
            switched = args, kwargs | {argument.name: not argument.default_value}
            faults = _faults(overload, *switched) if _is_repeated(overload, *switched) else {}
            if faults and not any(map(_is_refusal, faults.values())):
                return [*faults]
    return []


def _of_strides(
    overload: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    layouts: Layouts,
    *,
    keeps: bool,
) -> list[str]:
    """Call the operator with arguments in these layouts. Describe the first result whose layout in
    memory differs from the fake function's. Opcheck compares no strides on the CPU.

    If the layout of arguments is changed, only some results are compared: non-contiguous ones if
    `keeps`, else contiguous ones. Operators with contiguous results may need such arguments.
    """
    for name, way in layouts.items():
        given = pytree.tree_map_only(
            torch.Tensor, lambda each, way=way: way(each.detach().clone()), (args, kwargs)
        )
        if name and all(each.is_contiguous() for each in _tensors(given)):
            continue
        mode = FakeTensorMode()
        faked = pytree.tree_map_only(torch.Tensor, mode.from_tensor, given)
        try:
            found = _tensors(overload(*given[0], **given[1]))
            with mode:
                expected = _tensors(overload(*faked[0], **faked[1]))
        except Exception:  # only the operator knows which layouts it takes
            continue
        for real, fake in zip(found, expected, strict=False):
            one, other = _layout(fake), _layout(real)
            if one != other and (not name or keeps is not real.is_contiguous()):
                where = f" where its arguments are {name}" * bool(name)
                called = f"{overload}({_text(args, kwargs)})"
                return [f"{called}: its fake function gives {one} in place of {other}{where}"]
    return []


def _layout(value: torch.Tensor) -> str:
    """The shape, strides and offset of a tensor, or the name of a layout without strides. The
    stride of a dimension of size 1 has no meaning, and is shown as 1.
    """
    if value.layout is not torch.strided:
        return str(value.layout)
    is_empty = not value.numel()
    strides = [
        1 if is_empty or size == 1 else stride
        for size, stride in zip(value.shape, value.stride(), strict=True)
    ]
    start = value.storage_offset()
    return f"{_shown(value)} with strides {strides}" + f" from {start}" * bool(start)


def _tensors(values: Any) -> list[torch.Tensor]:
    return [each for each in pytree.tree_leaves(values) if torch.is_tensor(each)]


def _in_rows(way: Callable[[torch.Tensor], torch.Tensor], value: torch.Tensor) -> torch.Tensor:
    return way(value).clone(memory_format=torch.contiguous_format)


def _unchanged(value: torch.Tensor) -> torch.Tensor:
    return value


def _turned(value: torch.Tensor) -> torch.Tensor:
    """The same numbers, with the dimensions in reverse order in memory."""
    order = [*reversed(range(value.dim()))]
    return value.permute(order).contiguous().permute(order)


def _of_a_sum(value: torch.Tensor) -> torch.Tensor:
    return value.new_ones(()).expand(value.shape)


def _in_channels(value: torch.Tensor) -> torch.Tensor:
    return value.contiguous(memory_format=torch.channels_last) if value.dim() == 4 else value


def _of_heads(value: torch.Tensor) -> torch.Tensor:
    """The same numbers in the layout of attention's transposed heads: each row is in one piece."""
    return value.transpose(0, -2).contiguous().transpose(0, -2) if value.dim() > 2 else value


def _of_wider(value: torch.Tensor) -> torch.Tensor:
    """The same numbers as a part of wider rows."""
    return torch.cat([value, value], -1)[..., : value.shape[-1]] if value.dim() > 1 else value


#: Layouts of the arguments of a call: unchanged, layouts that leave each row in one piece, and a
#: layout that an operator on rows need not support.
_AS_GIVEN: Layouts = {"": torch.Tensor.clone}
_IN_ROWS: Layouts = {
    "channels last": _in_channels,
    "transposed heads": _of_heads,
    "parts of wider rows": _of_wider,
}
_IN_COLUMNS: Layouts = {"transposed": _turned}


def _gradients(
    overload: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    laid_out: Callable[[torch.Tensor], torch.Tensor],
    given_as: Callable[[torch.Tensor], torch.Tensor] = _unchanged,
) -> Tensors:
    """The gradients of a call, for gradients of its results in the layout of `laid_out` and
    arguments in that of `given_as`.
    """
    given = _with_gradient(*_copied((args, kwargs)))
    laid = pytree.tree_map_only(torch.Tensor, given_as, given)
    noise = torch.Generator().manual_seed(0)
    results = [
        each
        for each in pytree.tree_leaves(overload(*laid[0], **laid[1]))
        if torch.is_tensor(each) and each.requires_grad
    ]
    along = [laid_out(torch.rand(e.shape, generator=noise).to(e.dtype)) for e in results]
    wanted = [each for each in pytree.tree_leaves(given) if torch.is_tensor(each)]
    wanted = [each for each in wanted if each.requires_grad]
    found = torch.autograd.grad(results, wanted, along, allow_unused=True)
    return [each for each in found if each is not None]


def _is_near(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if the tensors are finite in the same places, and equal there apart from rounding."""
    if one.shape != other.shape or not torch.equal(one.isfinite(), other.isfinite()):
        return False
    a, b = (each.double().nan_to_num(0.0, 0.0, 0.0) for each in (one, other))
    return bool((a - b).norm() <= _OFF.get(other.dtype, 1e-4) * b.norm())


def _is_refusal(error: Exception) -> bool:
    """True if the fake function itself raised, for example for a shape that it cannot unpack.
    Opcheck raises its own exceptions for results that differ or are missing.
    """
    return isinstance(error, (ValueError, IndexError, TypeError))


def _makes_rows_constant(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True if the fake function makes the first size of the first tensor a constant, so that each
    number of rows needs its own compile.
    """
    sizes = ShapeEnv(duck_shape=False)
    mode = FakeTensorMode(shape_env=sizes)
    made: list[torch.Tensor] = []

    def faked(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        dynamic = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * value.dim())
        source = ConstantSource(f"tensor{len(made)}")
        made.append(mode.from_tensor(value, symbolic_context=dynamic, source=source))
        return made[-1]

    try:
        fake_args, fake_kwargs = pytree.tree_map(faked, (args, kwargs))
        rows = made[0].shape[0]
        with mode:
            overload(*fake_args, **fake_kwargs)
        return bool(sizes.replace(rows.node.expr).is_number)
    except Exception:  # opcheck reports calls that fail with plain sizes too
        return False


def _calls(
    overload: Any, dtypes: Sequence[torch.dtype], recorder: TorchDispatchMode
) -> Iterator[Call]:
    """Calls that eager mode runs twice with the same result. Their tensors require a gradient if
    the operator has one.
    """
    left, tried, is_deep = _CALLS, set[str](), False
    for shapes, integers in itertools.product(_SHAPES, _INTEGERS):
        torch.manual_seed(len(tried))
        call = _call(overload._schema, dtypes, shapes, integers)
        if call is None or (not left and is_deep):
            return
        text = _text(*call)
        dims = [each.dim() for each in pytree.tree_leaves(call) if torch.is_tensor(each)]
        is_wanted = text not in tried and (left or max(dims, default=0) >= _DEEP)
        if is_wanted and _is_repeated(overload, *call):
            left = max(left - 1, 0)
            is_deep = is_deep or max(dims, default=0) >= _DEEP
            trained = _with_gradient(*call)
            with recorder:
                has_gradient = _has_gradient(overload, *trained)
            yield trained if has_gradient else call
        tried.add(text)


def _call(
    schema: Any,
    dtypes: Sequence[torch.dtype],
    shapes: Sequence[tuple[int, ...]],
    integers: Sequence[int],
) -> Call | None:
    """Arguments for all parameters without a default; None if a parameter has an unknown type."""
    left, kinds, numbers = iter(shapes), iter(dtypes), iter(integers)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument in schema.arguments:
        if argument.has_default_value():
            continue
        kind = str(argument.type)
        is_tensor = "Tensor" in kind
        shape = next(left, shapes[-1]) if is_tensor else ()
        dtype = next(kinds, dtypes[-1]) if is_tensor else dtypes[-1]
        is_integer = kind.removeprefix("Optional[").rstrip("]") in ("int", "SymInt")
        value = next(numbers, integers[-1]) if is_integer else _value(kind, dtype, shape)
        if value is None:
            return None
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return tuple(args), kwargs


def _value(kind: str, dtype: torch.dtype, shape: tuple[int, ...]) -> Any:
    if kind in ("Tensor", "Optional[Tensor]"):
        return _tensor(dtype, shape)
    if kind == "List[Tensor]":
        return [_tensor(dtype, shape), _tensor(dtype, shape)]
    if kind.startswith("List["):
        return [1]
    return _VALUES.get(kind.removeprefix("Optional[").rstrip("]"))


def _tensor(dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """A tensor of numbers for which most functions are defined: floats are positive."""
    if dtype.is_floating_point:
        return (torch.rand(shape) + 0.5).to(dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 4, shape).to(dtype)


def _is_repeated(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        first, second = (
            pytree.tree_leaves(overload(*_copied(args), **_copied(kwargs))) for _ in range(2)
        )
    except Exception:  # only the operator knows which arguments it takes
        return False
    return all(
        torch.equal(a, b)
        for a, b in zip(first, second, strict=True)
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    )


def _has_gradient(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        return bool(_gradients(overload, args, kwargs, partial(_in_rows, _of_a_sum)))
    except Exception:
        return False


def _with_gradient(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def trained(value: Any) -> Any:
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.detach().clone().requires_grad_() if is_float else value

    return pytree.tree_map(trained, (args, kwargs))


def _copied(values: Any) -> Any:
    return pytree.tree_map(
        lambda each: each.clone() if isinstance(each, torch.Tensor) else each, values
    )


def _text(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return ", ".join(map(_shown, (*args, *kwargs.values())))


def _shown(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return str(value)
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    inner = error.__cause__ or error.__context__
    cause = f" ({str(inner).strip().splitlines()[0]})" if inner and str(inner).strip() else ""
    return f"{lines[0] if lines else type(error).__name__}{cause}"[:_LENGTH]
