"""Small programs of the operators that the text of a pass or a backend mentions: one operator
applied twice, two in a row, one before and after a write, or several nearly equal calls.

The calls are torch's own samples. Eager mode shows which programs can run.
"""

from __future__ import annotations

import itertools
import operator
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from patchgate.probe.numerics.formula_programs import formula_programs
from patchgate.probe.numerics.middle_values import with_readers
from patchgate.probe.numerics.operators import Calls, operator_in, operators_by_name, stem
from patchgate.probe.numerics.pass_programs import Program, function_of
from patchgate.probe.numerics.sample_calls import (
    AsWritten,
    Sample,
    flat,
    named,
    op_db,
    plain_samples,
    tensors_in,
)

# Operators that Python writes as signs, and the copy.
_ARITHMETIC = {"add", "sub", "mul", "div", "neg", "gt", "pow", "clone"}
# Name in the module `operator` -> torch's name.
_OPERATORS = {
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "and_": "bitwise_and",
    "or_": "bitwise_or",
    "xor": "bitwise_xor",
    "invert": "bitwise_not",
}
# An overload takes only some calls of its operator, so the operator is called in its place.
_OVERLOAD = re.compile(r"^(torch\.ops\.\w+\.\w+)\.\w+$")
# The most operators, calls of each, calls of each before and after a write, rows of two operators
# by their first calls and by their last, and programs of integers and booleans.
_MOST, _CALLS, _WRITTEN, _ROWS, _LAST_ROWS, _OTHERS = 14, 4, 2, 40, 20, 24
# Dtypes for functions that make a tensor from numbers. Their default is float32.
_MADE_DTYPES = (torch.float64, torch.int64, torch.bool, torch.float32)
_ELEMENTS = 600
_LETTERS = "abcdeghijklmnopqrstuvw"


@dataclass(frozen=True)
class _Call:
    """A call as text, `torch.add({0}, {1}, alpha=2)`, and the tensors for its places."""

    text: str
    tensors: tuple[torch.Tensor, ...]

    def on(self, names: Sequence[str]) -> str:
        return self.text.format(*names)

    def gives_dimensions(self) -> bool:
        """True if the call returns a tensor with dimensions, as most tensors in models are."""
        result = _run(_program(f"return {self.on(_LETTERS)}", self.tensors))
        return isinstance(result, torch.Tensor) and result.dim() > 0


def mentioned_programs(mentions: Sequence[str], seed: int) -> Iterator[Program]:
    """Yield texts of programs and their inputs. The kinds alternate: formulas, programs of one
    operator, programs of two in a row, programs whose middle value is read again, and programs with
    integers, booleans and NaN.
    """
    functions = dict.fromkeys(_OVERLOAD.sub(r"\1", name) for name in mentions)
    words = {name: word for name in functions if (word := _operator_word(name))}
    infos = operators_by_name(words.values(), op_db())
    every = (calls for name, word in words.items() if (calls := _calls(name, infos[word])))
    found = list(itertools.islice(every, _MOST))
    mentioned = [
        steady
        for calls in found
        if (steady := list(itertools.islice(filter(_is_steady, calls), _CALLS)))
    ]
    drawn = [program for calls in found for program in _of_draws(calls)]
    alone = [*drawn, *itertools.chain(*map(_of_one, mentioned))]
    pairs = list(itertools.permutations(mentioned, 2))
    random.Random(seed).shuffle(pairs)
    rows = list(_rows(pairs))
    formulas = list(_formulas(words.values(), seed))
    read = itertools.chain(with_readers(formulas), with_readers(rows))
    plain = [each for turn in itertools.zip_longest(rows, alone) for each in turn if each]
    typed = itertools.islice(_of_other_inputs([*formulas, *plain], _integers, _booleans), _OTHERS)
    others = [*_of_other_inputs(rows, _with_nan), *typed]
    turns = itertools.zip_longest(formulas, alone, rows, read, others)
    yield from (program for turn in turns for program in turn if program)


def _formulas(words: Iterable[str], seed: int) -> Iterator[Program]:
    """Formulas whose operators are all mentioned, apart from arithmetic."""
    mentioned = _ARITHMETIC | {stem(operator_in(word)) for word in words}
    for program in formula_programs(torch.Generator().manual_seed(seed)):
        with Calls() as calls:
            _run(program)
        if {*map(stem, calls.words)} <= mentioned:
            yield program


def _of_other_inputs(
    programs: Sequence[Program], *changes: Callable[[torch.Tensor], torch.Tensor]
) -> Iterator[Program]:
    """Yield each program with inputs changed by each of `changes`, if the change has an effect and
    the program still runs.
    """
    for text, inputs in programs:
        for change in changes:
            other = text, tuple(map(change, inputs))
            is_other = any(one is not same for one, same in zip(other[1], inputs, strict=True))
            if is_other and _run(other) is not None:
                yield other


def _with_nan(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype is not torch.float32:
        return tensor
    changed = tensor.clone().flatten()
    changed[1::3] = torch.nan
    return changed.reshape(tensor.shape)


def _integers(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor * 4).to(torch.int64) if tensor.dtype is torch.float32 else tensor


def _booleans(tensor: torch.Tensor) -> torch.Tensor:
    return tensor > 0 if tensor.dtype is torch.float32 else tensor


def by_mention(programs: Sequence[Program], mentions: Sequence[str]) -> list[int]:
    """Return the indices of the programs. A program comes earlier if it calls a mentioned operator
    that few other programs call.
    """
    words = mentioned_stems(mentions)
    called = [words & _stems_called(program) for program in programs]
    often = Counter(word for found in called for word in found)
    rarest = [min((often[word] for word in found), default=len(programs)) for found in called]
    return sorted(range(len(programs)), key=rarest.__getitem__)


def mentioned_stems(mentions: Iterable[str]) -> set[str]:
    """The stems of the operators among the mentioned functions."""
    return {
        stem(operator_in(word))
        for name in mentions
        if (word := _operator_word(_OVERLOAD.sub(r"\1", name)))
    }


def _stems_called(program: Program) -> set[str]:
    """The stems of all operators that a program calls, by Python name and ATen name."""
    calls, functions = Calls(), _Functions()
    with calls, functions:
        _run(program)
    return {*map(stem, calls.words | functions.words)}


class _Functions(TorchFunctionMode):
    """Notes the names of torch's functions that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.words: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.words.add(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


def _operator_word(name: str) -> str:
    """The name of the operator that a mentioned function stands for; empty if there is none."""
    owner, _, last = name.rpartition(".")
    is_python = owner == "operator"
    function = getattr(operator, last, None) if is_python else named(name.removeprefix("torch."))
    if not callable(function) or isinstance(function, type):
        return ""
    return _OPERATORS.get(last, last) if is_python else name


def _calls(name: str, infos: Sequence[Any]) -> list[_Call]:
    """Calls of a function; empty if there are no samples of it."""
    samples = [sample for info in infos[:1] for sample in plain_samples(info)]
    if samples and not tensors_in((samples[0].args, samples[0].kwargs)):
        samples = flat([plain_samples(infos[0], dtype) for dtype in _MADE_DTYPES])
    else:  # the samples with the fewest and with the most arguments come first
        middle = len(samples) // 2
        samples = flat([samples[middle:][::-1], samples[:middle]])
    distinct: dict[str, _Call] = {}
    for call in filter(None, (_written(name, sample) for sample in samples)):
        if not call.tensors or (call.tensors[0].dim() and call.tensors[0].numel()):
            distinct.setdefault(call.text, call)
    return list(distinct.values())


def _written(name: str, sample: Sample) -> _Call | None:
    """The call as text; None for a large call, and for a method of a value that is no tensor."""
    tensors: list[torch.Tensor] = []

    def place(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        tensors.append(value.detach())
        return AsWritten(f"{{{len(tensors) - 1}}}")

    args, kwargs = pytree.tree_map(place, (sample.args, sample.kwargs))
    parts = [*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())]
    if sum(map(torch.numel, tensors)) > _ELEMENTS:
        return None
    owner, _, method = name.rpartition(".")
    if owner == "torch.Tensor":
        name = f"{{0}}.{method}"
        if parts.pop(0) != "{0}":
            return None
    return _Call(f"{name}({', '.join(parts)})", tuple(tensors))


def _is_steady(call: _Call) -> bool:
    """True if the call runs and random numbers do not change its result."""
    results = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        results.append(_run(_program(f"return {call.on(_LETTERS)}", call.tensors)))
    first, second = map(pytree.tree_leaves, results)
    return first != [None] and all(map(_is_same, first, second))


def _is_same(one: Any, other: Any) -> bool:
    one, other = torch.as_tensor(one).nan_to_num(), torch.as_tensor(other).nan_to_num()
    return bool((one == other).all())


def _run(program: Program) -> Any:
    """The results of a program; None if it raises."""
    text, inputs = program
    try:
        return function_of(text)(*(tensor.clone() for tensor in inputs))
    except Exception:
        return None


def _program(body: str, inputs: Sequence[torch.Tensor]) -> Program:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"def program({', '.join(_LETTERS[: len(inputs)])}):\n{lines}", tuple(inputs)


def _of_draws(calls: Sequence[_Call]) -> Iterator[Program]:
    """Programs that draw random numbers eight times and return whether any draw differs from the
    first.

    Dropout is left out: without training it drops nothing.
    """
    for call in calls[:1]:
        if "dropout" not in call.text and not _is_steady(call):
            body = f"x = [{call.on(_LETTERS)} for _ in range(8)]\n"
            yield _program(f"{body}return (torch.stack(x) != x[0]).any()", call.tensors)


def _of_one(calls: Sequence[_Call]) -> Iterator[Program]:
    """Programs of one operator. One has all its calls, the first of them twice. Each call is also
    followed by a product, and applied to its own result. Some calls come before and after a write,
    have a result that is written to, or take a row that is expanded.
    """
    inputs = [tensor for call in calls for tensor in call.tensors]
    if len(inputs) <= len(_LETTERS):
        letters = iter(_LETTERS)
        alike = [call.on([*itertools.islice(letters, len(call.tensors))]) for call in calls]
        yield _program(f"return {', '.join([*alike, alike[0]])}", inputs)
    for number, call in enumerate(call for call in calls if call.tensors):
        plain, again = call.on(_LETTERS), call.on(["x", *_LETTERS[1:]])
        yield _program(f"return {plain} * 2", [*map(_halves, call.tensors)])
        if call.gives_dimensions():
            yield _program(f"x = {plain}\nreturn {again}", call.tensors)
        if number < _WRITTEN:
            around = f"x = a.clone()\ny = {again}\nx.fill_(1)\nreturn y, {again}"
            yield _program(around, call.tensors)
            yield _program(f"x = {plain}\nx.fill_(1)\nreturn x, a", call.tensors)
            if call.tensors[0].dim():
                yield _program(f"x = (a[:1] * 2).expand(a.shape)\nreturn {again}", call.tensors)


def _halves(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers rounded to multiples of a half, so that some are zero and some are equal."""
    return (tensor * 2).round() / 2 if tensor.is_floating_point() else tensor


def _rows(pairs: Sequence[tuple[Sequence[_Call], Sequence[_Call]]]) -> Iterator[Program]:
    """Programs that pass the result of one operator to another: by the first calls that fit, then
    by the last, which have other arguments.
    """
    first = filter(None, (_row(one, other) for one, other in pairs))
    known = list(itertools.islice(first, _ROWS))
    yield from known
    texts = {text for text, _ in known}
    last = filter(None, (_row(one[::-1], other[::-1]) for one, other in pairs))
    yield from itertools.islice((each for each in last if each[0] not in texts), _LAST_ROWS)


def _row(first: Sequence[_Call], second: Sequence[_Call]) -> Program | None:
    """A program that passes the result of one operator to another; None if no calls fit."""
    for one, other in itertools.product(filter(_Call.gives_dimensions, first), second):
        rest = _LETTERS[len(one.tensors) :]
        for at in range(min(2, len(other.tensors))):
            names = [*rest[:at], "x", *rest[at:]]
            inputs = [*one.tensors, *other.tensors[:at], *other.tensors[at + 1 :]]
            body = f"x = {one.on(_LETTERS)}\nreturn {other.on(names)}"
            program = _program(body, inputs)
            if len(inputs) <= len(_LETTERS) and _run(program) is not None:
                return program
    return None
