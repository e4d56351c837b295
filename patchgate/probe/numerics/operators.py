"""The operators of torch's own samples that a replaced name affects."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from patchgate.probe.numerics.derived_samples import Call

# An operator in the name of a table's entry: `lowerings[aten.add.Tensor]`,
# `_impls['aten/where.ScalarOther/CPU']`.
_ENTRY = re.compile(r"\[['\"]?(?:aten|prims)[./](\w+)")
_OVERLOAD = re.compile(r"\[(aten|prims)\.(\w+)\.(\w+)\]")
# Methods behind Python's signs -> the operators that do the same.
_SIGNS = {
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
}
# The most samples of one operator whose calls are recorded.
_RECORDED = 12
_NAMESPACES = torch.ops.aten, torch.ops.prims
_PREFIXES = ("native_", "_native_", "make_", "lower_", "tuned_", "fallback_")
_SUFFIXES = (
    "_backward",
    "_for_cpu",
    "_forward",
    "_lowering",
    "_impl",
    "_default",
    "_overrideable",
    "_decomp",
)
# Word in the name of an Inductor function that handles a family of operators -> the operators.
_FAMILIES = {
    "reduction": ("sum", "amax", "var", "argmax"),
    "reduce": ("sum", "amax", "mean"),
    "pointwise": ("add", "where", "sigmoid", "mul"),
    "elementwise": ("add", "where", "sigmoid", "mul"),
    "conv": ("nn.functional.conv2d", "nn.functional.conv1d"),
    "convolution": (
        "nn.functional.conv2d",
        "nn.functional.conv1d",
        "nn.functional.conv_transpose2d",
    ),
    "sdpa": ("nn.functional.scaled_dot_product_attention",),
    "attention": ("nn.functional.scaled_dot_product_attention",),
    "mm": ("mm", "addmm", "bmm"),
    "matmul": ("matmul", "mm"),
    "bmm": ("bmm", "baddbmm"),
    "gemm": ("mm", "addmm"),
    "softmax": ("softmax", "log_softmax"),
    "norm": ("nn.functional.layer_norm", "nn.functional.batch_norm"),
    "pool": ("nn.functional.max_pool2d", "nn.functional.avg_pool2d"),
    "scatter": ("scatter", "scatter_add", "index_put"),
    "gather": ("gather", "take_along_dim"),
    "index": ("index_select", "index_put", "__getitem__"),
    "slice": ("narrow", "__getitem__"),
    "view": ("view", "reshape"),
    "concat": ("cat",),
    "pad": ("nn.functional.pad", "constant_pad_nd"),
    "scan": ("cumsum", "cumprod"),
    "sort": ("sort", "topk"),
    "upsample": ("nn.functional.interpolate",),
    "foreach": ("add", "mul"),
    "iota": ("arange",),
    "nll": ("nn.functional.nll_loss", "nn.functional.cross_entropy"),
    "entropy": ("nn.functional.cross_entropy",),
    "grid": ("nn.functional.grid_sample",),
    "promote": ("add", "where"),
    "promotion": ("add", "where"),
    "broadcast": ("add", "where"),
}


def operators_of(names: Iterable[str], known: Sequence[Any]) -> dict[str, list[Any]]:
    """Replaced name -> the OpInfos of `known` that run it, the closest first; empty if none runs
    it.
    """
    by_word = _words(known)
    found = {name: _by_name(operator_in(name), by_word) for name in names}
    left = {operator_in(name) for name, ops in found.items() if not ops}
    # Running all operators takes half a minute, so only names that torch has are searched for.
    left = {word for word in left if any(hasattr(ops, word) for ops in _NAMESPACES)}
    called = _calling(left, known) if left else {}
    return {
        name: ops or called.get(operator_in(name)) or _family(name, by_word)
        for name, ops in found.items()
    }


def operators_by_name(names: Iterable[str], known: Sequence[Any]) -> dict[str, list[Any]]:
    """Name of a function -> the OpInfos of `known` with its name; empty if there are none."""
    by_word = _words(known)
    return {name: _by_name(operator_in(name), by_word) for name in names}


def _words(known: Sequence[Any]) -> dict[str, list[Any]]:
    """Name or alias of an operator, both whole and without torch's additions -> the OpInfos."""
    by_word: dict[str, list[Any]] = {}
    for op in known:
        for word in (
            op.name,
            op.name.rpartition(".")[2],
            op.aten_name,
            op.name.replace(".", "_"),
            *(alias.name for alias in op.aliases),
            *(alias.name.replace(".", "_") for alias in op.aliases),
        ):
            by_word.setdefault(stem(word), []).append(op)
            by_word.setdefault(word, []).append(op)
    return by_word


def operator_in(name: str) -> str:
    """The word in a replaced name that may name an operator, such as `add` in
    `...lowerings[aten.add.Tensor]`.
    """
    entry = _ENTRY.search(name)
    if entry:
        return _SIGNS.get(entry[1], entry[1])
    *_, owner, last = ["", *name.partition("[")[0].split(".")]
    return owner if last == "forward" else last


def _by_name(word: str, by_word: dict[str, list[Any]]) -> list[Any]:
    for candidate in (word, word.removesuffix("_"), stem(word)):
        if candidate in by_word:
            found = list({id(op): op for op in by_word[candidate]}.values())
            exact = [op for op in found if op.name.removeprefix("nn.functional.") == candidate]
            return exact or [op for op in found if not op.name.startswith("masked.")] or found
    return []


def stem(word: str) -> str:
    """The word without torch's additions to the name of an operator, such as `softmax` for
    `_softmax_backward`.
    """
    word = word.lower().strip("_") if not word.startswith("__") else word
    for prefix in _PREFIXES:
        word = word.removeprefix(prefix)
    for suffix in _SUFFIXES:
        word = word.removesuffix(suffix)
    return word.strip("_") if not word.startswith("__") else word


def overload_in(name: str) -> str:
    """The overload in a name: `ops.aten.add.Tensor` for `...[aten.add.Tensor]`; empty if none."""
    entry = _OVERLOAD.search(name)
    return f"ops.{'.'.join(entry.groups())}" if entry else ""


def module_in(name: str) -> Any:
    """The module class to which a replaced method belongs; None for any other name."""
    owner: Any = torch
    for part in name.split(".")[1:-1]:
        owner = getattr(owner, part, None)
    is_module = isinstance(owner, type) and issubclass(owner, torch.nn.Module)
    return owner if is_module else None


def modules_that_call(name: str, known: Iterable[Any]) -> list[Any]:
    """The classes of `known` ModuleInfos whose code names a function of `torch.nn.functional`, then
    the classes whose code names a caller of that function.
    """
    word = name.rpartition(".")[2]
    around = {key for key, each in vars(torch.nn.functional).items() if word in _names_in(each)}
    classes = dict.fromkeys(info.module_cls for info in known)
    named = {each: set().union(*map(_names_in, vars(each).values())) for each in classes}
    return [each for words in ({word}, around) for each in classes if words & named[each]]


def _names_in(function: Any) -> set[str]:
    return {*getattr(getattr(function, "__code__", None), "co_names", ())}


class Calls(TorchDispatchMode):
    """Notes the names of the operators that are called, and the calls of operator `recorded`."""

    def __init__(self, recorded: str = "") -> None:
        super().__init__()
        self.words: set[str] = set()
        self.recorded = recorded
        self.calls: list[tuple[Any, Call]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.words.add(func.overloadpacket.__name__)
        if func.overloadpacket.__name__ == self.recorded:
            self.calls.append((func, pytree.tree_map(_copied, (tuple(args), dict(kwargs or {})))))
        return func(*args, **(kwargs or {}))


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _run_sample(op: Any, sample: Any, calls: Calls) -> None:
    """Call an operator with a sample, and run the backward of its results."""
    _run(op.op, ((sample.input, *sample.args), sample.kwargs), calls)


def _run(
    function: Callable[..., Any], call: Call, calls: Calls, noise: torch.Generator | None = None
) -> None:
    """Make one call, and run the backward of its sum; with `noise`, of its sum with random
    factors.
    """
    args, kwargs = call
    with calls:
        for leaf in pytree.tree_leaves(function(*args, **kwargs)):
            if torch.is_tensor(leaf) and leaf.requires_grad:
                factors = torch.randn(leaf.shape, generator=noise) if noise else None
                total = leaf.sum() if factors is None else (leaf * factors).sum()
                total.backward(retain_graph=True)


def _samples(op: Any) -> Iterator[Any]:
    gradient = op.supports_autograd and torch.float32 in op.backward_dtypes
    dtype = torch.float32 if torch.float32 in op.dtypes else torch.int64
    yield from samples_of_entry(op, dtype, requires_grad=gradient)


def samples_of_entry(op: Any, dtype: torch.dtype, *, requires_grad: bool) -> Iterable[Any]:
    """The samples of an OpInfo, made one by one. Torch first looks for a running test of its own in
    the whole stack, which takes longer than the samples; there is none here.
    """
    from torch.testing._internal import common_utils
    from torch.testing._internal.opinfo import core

    with contextlib.ExitStack() as stack:
        for module in (common_utils, core):
            stack.enter_context(mock.patch.object(module, "extract_test_fn", lambda: None))
        found: Iterable[Any] = op.sample_inputs("cpu", dtype, requires_grad=requires_grad)
    return found


def recorded_calls(overload: str, ops: Iterable[Any]) -> list[Call]:
    """Calls of an overload such as `ops.aten.add.Tensor` that samples of operators make. If samples
    make none, calls of the operator's other overloads, with arguments changed to fit this one.
    """
    _, namespace, packet, last = overload.split(".")
    target = getattr(getattr(getattr(torch.ops, namespace), packet), last, None)
    calls = Calls(packet)
    for op in ops:
        with contextlib.suppress(Exception):
            for sample in itertools.islice(_samples(op), _RECORDED):
                with contextlib.suppress(Exception):  # a sample that raises is left out
                    _run_sample(op, sample, calls)
    exact = [call for func, call in calls.calls if func is target]
    return exact or [_as_taken(target, *call) for func, call in calls.calls]


def calls_of_overload(
    overload: Any, function: Callable[..., Any], tried: Iterable[Call], seed: int
) -> list[Call]:
    """The calls of an overload that calls of a function make, forward and backward."""
    calls, noise = Calls(overload.overloadpacket.__name__), torch.Generator().manual_seed(seed)
    for call in tried:
        with contextlib.suppress(Exception):  # a call that raises is left out
            _run(function, call, calls, noise)
    return [call for func, call in calls.calls if func is overload]


def _as_taken(overload: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Call:
    """A call with its arguments changed to the overload's types: a tensor to a number that half
    precision holds, for example, or one dimension to a list. Eager mode shows if the call is valid.
    """
    schema = {
        argument.name: re.sub(r"^Optional\[(.*)\]$", r"\1", str(argument.type))
        for argument in overload._schema.arguments
    }
    positional = zip(args, schema.values(), strict=False)
    named = {name: _argument(kwargs[name], schema[name]) for name in kwargs if name in schema}
    return tuple(_argument(value, kind) for value, kind in positional), named


def _simple(value: Any) -> Any:
    """A finite fraction rounded to a multiple of 1/8; other numbers unchanged."""
    is_fraction = isinstance(value, float) and math.isfinite(value)
    return round(value * 8) / 8 if is_fraction else value


def _argument(value: Any, kind: str) -> Any:
    is_tensor = isinstance(value, torch.Tensor)
    if kind in ("number", "Scalar", "float") and is_tensor and value.numel():
        return _simple(value.flatten()[0].item())
    if kind == "Tensor" and isinstance(value, (bool, int, float)):
        return torch.tensor(value)
    if "List[int" in kind and isinstance(value, int):
        return [value]
    if kind == "int" and isinstance(value, (list, tuple)) and value:
        return value[0]
    return value


def _calling(words: set[str], known: Sequence[Any]) -> dict[str, list[Any]]:
    """Word -> the OpInfos whose first sample calls an operator of that name. OpInfos that call few
    operators come first.
    """
    found: dict[str, list[tuple[int, Any]]] = {word: [] for word in words}
    for op in known:
        calls = Calls()
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # An operator whose sample this build cannot run is no candidate.
            _run_sample(op, next(iter(_samples(op))), calls)
            for word in words & calls.words:
                found[word].append((len(calls.words), op))
    return {
        word: [op for _, op in sorted(ops, key=lambda each: each[0])] for word, ops in found.items()
    }


def _family(name: str, by_word: dict[str, list[Any]]) -> list[Any]:
    """The operators of the first family for which the name contains a word."""
    words = re.findall(r"[a-z]+", operator_in(name).lower())
    families = [_FAMILIES[word] for word in words if word in _FAMILIES]
    return [by_word[op][0] for family in families[:1] for op in family if op in by_word]
