"""The operators of torch's own samples that a replaced name stands for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

# An operator in the name of a table's entry: `lowerings[aten.add.Tensor]`,
# `_impls['aten/where.ScalarOther/CPU']`.
_ENTRY = re.compile(r"\[['\"]?(?:aten|prims)[./](\w+)")
# What runs over whole graphs: passes, their tables of patterns, and the options that hold a pass.
_ON_GRAPHS = re.compile(
    r"\b_?inductor\.(?:fx_passes\.|pattern_matcher\.|config\.\w+_custom_\w*pass|config\.\w+_passes)"
)
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
# Inductor's functions for a family of operators: a word of their name -> operators that are of it.
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
    "promote": ("add", "where"),
    "promotion": ("add", "where"),
    "broadcast": ("add", "where"),
}


def runs_on_graphs(name: str) -> bool:
    """True if a replaced name is a pass, which any graph may reach."""
    return bool(_ON_GRAPHS.search(name))


def operators_of(names: Iterable[str], known: Sequence[Any]) -> dict[str, list[Any]]:
    """Name that was replaced -> the OpInfos of `known` that run it, the closest first; none where
    none is known.
    """
    by_word: dict[str, list[Any]] = {}
    for op in known:
        for word in (
            op.name,
            op.name.rpartition(".")[2],
            op.aten_name,
            *(alias.name for alias in op.aliases),
        ):
            by_word.setdefault(_stem(word), []).append(op)
            by_word.setdefault(word, []).append(op)
    found = {name: _by_name(operator_in(name), by_word) for name in names}
    left = {operator_in(name) for name, ops in found.items() if not ops}
    called = _calling(left, known) if left else {}
    return {
        name: ops or called.get(operator_in(name)) or _family(name, by_word)
        for name, ops in found.items()
    }


def operator_in(name: str) -> str:
    """The word in a replaced name that is an operator, if any is: `add` of
    `...lowerings[aten.add.Tensor]`.
    """
    entry = _ENTRY.search(name)
    if entry:
        return entry[1]
    *_, owner, last = ["", *name.partition("[")[0].split(".")]
    return owner if last == "forward" else last


def _by_name(word: str, by_word: dict[str, list[Any]]) -> list[Any]:
    for candidate in (word, word.removesuffix("_"), _stem(word)):
        if candidate in by_word:
            found = list({id(op): op for op in by_word[candidate]}.values())
            exact = [op for op in found if op.name.removeprefix("nn.functional.") == candidate]
            return exact or [op for op in found if not op.name.startswith("masked.")] or found
    return []


def _stem(word: str) -> str:
    word = word.lower().strip("_") if not word.startswith("__") else word
    for prefix in _PREFIXES:
        word = word.removeprefix(prefix)
    for suffix in _SUFFIXES:
        word = word.removesuffix(suffix)
    return word.strip("_") if not word.startswith("__") else word


class _Calls(TorchDispatchMode):
    """Notes the names of the operators that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.words: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.words.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def _calling(words: set[str], known: Sequence[Any]) -> dict[str, list[Any]]:
    """Word -> the OpInfos whose first sample calls an operator of that name, those that call little
    first.
    """
    found: dict[str, list[tuple[int, Any]]] = {word: [] for word in words}
    for op in known:
        gradient = op.supports_autograd and torch.float32 in op.backward_dtypes
        if torch.float32 not in op.dtypes:
            continue
        calls = _Calls()
        try:
            sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=gradient)))
            with calls:
                result = op.op(sample.input, *sample.args, **sample.kwargs)
                for leaf in pytree.tree_leaves(result):
                    if torch.is_tensor(leaf) and leaf.requires_grad:
                        leaf.sum().backward(retain_graph=True)
        except Exception:  # an operator whose sample this build cannot run is no candidate
            continue
        for word in words & calls.words:
            found[word].append((len(calls.words), op))
    return {
        word: [op for _, op in sorted(ops, key=lambda each: each[0])] for word, ops in found.items()
    }


def _family(name: str, by_word: dict[str, list[Any]]) -> list[Any]:
    """Operators of the family that the name has a word of."""
    words = re.findall(r"[a-z]+", operator_in(name).lower())
    families = [_FAMILIES[word] for word in words if word in _FAMILIES]
    return [by_word[op][0] for family in families[:1] for op in family if op in by_word]
