"""The work of each kernel of a graph, for a model of its time: bytes, products, arithmetic, and how it is spread.

Bytes and products are the scheduler's; what a generated kernel does for each element is read off its text.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

from torch._inductor import ir
from torch._inductor.dependencies import MemoryDep
from torch._inductor.graph import GraphLowering
from torch._inductor.scheduler import (
    BaseSchedulerNode,
    ExternKernelSchedulerNode,
    ForeachKernelSchedulerNode,
    NopKernelSchedulerNode,
)

from patchgate.probe.protocol import Launch

_SOURCE = re.compile(r"^(\w+) = async_compile\.triton\('\w+', '''(.*?)'''", re.MULTILINE | re.DOTALL)
# The name of a kernel that does the work of several; that of any other one says which operations are in it.
_COMBINED = re.compile(r"triton_[a-z]+_fused_\d+")
_CALL = re.compile(r"^ +(\w+)\.run\(.*stream=", re.MULTILINE)
# What a line of a kernel costs for each element, in multiply-adds of an H200 (docs/modelled-time.md).
_COSTS = (
    (47, re.compile(r"libdevice\.(tanh|erf|log1p|expm1|pow|sin|cos|log)|tl_math\.(log|sin|cos)")),
    (40, re.compile(r"online_softmax_combine")),
    (10, re.compile(r"(libdevice|tl_math)\.(exp|exp2|sqrt|rsqrt)|tl\.sigmoid| / | // | % ")),
)
_VALUE = re.compile(r"(_?tmp\w+|[xyr]\w+),? ")
_OPERATIONS = dict.fromkeys(("tanh", "erf", "log1p", "expm1", "pow", "sin", "cos", "log"), 47) | dict.fromkeys(
    ("exp", "exp2", "sqrt", "rsqrt", "sigmoid", "truediv", "div", "reciprocal"), 10
)
# An index that moves by more than one element from a thread to the next.
_STRIDED = re.compile(r"\b(?:[2-9]|1\d)\d*\*x0\b")
# Attention in one kernel reaches this share of what a plain product does.
_ATTENTION = 0.45
_ELEMENTS = 1024  # that a program handles


def read_launches(graph: GraphLowering, code: str) -> list[Launch]:
    """Of each kernel that the graph launches, in order; `code` is the wrapper that was generated for it."""
    nodes = [node for node in graph.scheduler.nodes if _is_launched(node)]
    sources, names = dict(_SOURCE.findall(code)), _CALL.findall(code)
    alone = [node for node in nodes if not isinstance(node, (ExternKernelSchedulerNode, ForeachKernelSchedulerNode))]
    names = [name for name in names if not _COMBINED.fullmatch(name)]
    texts = dict(zip(alone, names, strict=True)) if len(names) == len(alone) else {}
    return [
        _library_call(node)
        if isinstance(node, ExternKernelSchedulerNode)
        else _combined(node)
        if isinstance(node, ForeachKernelSchedulerNode)
        else _generated(node, sources.get(texts.get(node, ""), ""))
        for node in nodes
    ]


def _is_launched(node: BaseSchedulerNode) -> bool:
    """False for a node that only names a part of another buffer."""
    return not isinstance(node, NopKernelSchedulerNode) and not isinstance(node.node, ir.MultiOutput)


def _library_call(node: BaseSchedulerNode) -> Launch:
    operations = int(node.estimate_flops() or 0) or _attention(node)
    operands = node.node.inputs if operations and isinstance(node.node, ir.InputsKernel) else []
    dtype = str(operands[0].get_dtype()).removeprefix("torch.") if operands else ""
    return _launch(bytes=sum(size for _, size in _accesses(node)), operations=operations, dtype=dtype)


def _attention(node: BaseSchedulerNode) -> int:
    """Operations of attention, of which the scheduler has none; half of them where later tokens are not seen."""
    for origin in getattr(node.node, "origins", ()):
        if "scaled_dot_product" not in str(origin.target) or len(origin.args) < 2:
            continue
        query, key = (argument.meta["val"].shape for argument in origin.args[:2])
        names = [argument.name for argument in origin.target._schema.arguments]
        causal = dict(zip(names, origin.args), **origin.kwargs).get("is_causal") is True  # noqa: B905 (defaults)
        sizes = [_known(size) or 0 for size in (*query, key[-2])]
        return int(4 * math.prod(sizes) / _ATTENTION / (2 if causal else 1))
    return 0


def _generated(node: BaseSchedulerNode, source: str) -> Launch:
    accesses = _accesses(node)
    moved = sum(size for _, size in accesses)
    known = map(_known, node.group[1] if isinstance(node.group[1], tuple) else ())
    sizes = [0 if size is None else size for size in known]
    elements = math.prod(sizes) if sizes else 0
    if not elements or not source:
        return _launch(bytes=moved, programs=max(elements or moved, 1) // _ELEMENTS + 1)
    looped = "for r0_offset" in source
    lines = [line.strip() for line in source.splitlines() if not looped or line.startswith("     ")]
    pointers = [line for line in lines if "tl.load(" in line or "tl.store(" in line]
    whole = [size for written, size in accesses if not written and 2 * size >= elements]
    rows = elements // sizes[-1] if looped and "ReductionHint.INNER" in source else 0
    once = "ynumel" not in source and "r0_numel" not in source
    return _launch(
        bytes=moved,
        programs=(rows + 1) // (2 if sizes[-1] < _ELEMENTS else 1) if rows else _programs(elements, sizes[-1], looped),
        rows=rows,
        again=(source.count("for r0_offset") - 1) * sum(whole) if looped else 0,
        strided=sum(_STRIDED.search(line) is not None for line in pointers) * max(whole, default=0) if once else 0,
        arithmetic=elements * sum(map(_cost, lines)),
    )


def _programs(elements: int, row: int, looped: bool) -> int:
    """Thread blocks of a kernel; in a loop one of them has whole rows."""
    return max(1, min(elements // _ELEMENTS, elements // row) if looped else elements // _ELEMENTS)


def _combined(node: BaseSchedulerNode) -> Launch:
    """Several kernels in one: its text does not say which elements a line is for, so the operations are counted."""
    arithmetic = 0
    for part in node.get_nodes():
        counts = part._body.op_counts if hasattr(part, "_body") else {}
        elements = math.prod(_known(size) or 0 for sizes in part.get_ranges() for size in sizes) if counts else 0
        arithmetic += elements * sum(count * _OPERATIONS.get(name, 1) for name, count in counts.items())
    moved = sum(size for _, size in _accesses(node))
    return _launch(bytes=moved, programs=moved // _ELEMENTS + 1, arithmetic=arithmetic)


def _cost(line: str) -> int:
    if "tl.load(" in line or "tl.store(" in line:
        return 1
    if not _VALUE.match(line):
        return 0
    return next((cost for cost, pattern in _COSTS if pattern.search(line)), 1)


def _accesses(node: BaseSchedulerNode) -> list[tuple[bool, int]]:
    """(is written, bytes) of each buffer: as much of it as the node touches, and once."""
    dependencies = itertools.chain(node.read_writes.reads, node.read_writes.writes)
    touched: dict[str, int | None] = {}
    for dependency in dependencies:
        size, before = _touched(dependency), touched.get(dependency.name, 0)
        touched[dependency.name] = None if size is None or before is None else before + size
    written = {dependency.name for dependency in node.read_writes.writes}
    accesses = node.get_read_write_buffer_accesses(include_reads=True, include_writes=True)
    return [
        (name in written, whole if (part := touched.get(name)) is None else min(whole, part))
        for name, whole in accesses.items()
    ]


def _touched(dependency: Any) -> int | None:
    """Bytes that one access touches; None where it may be the whole buffer."""
    if not isinstance(dependency, MemoryDep):
        return None
    if not dependency.is_indirect():
        return int(dependency.numbytes_hint())
    reached, every = _known(math.prod(dependency.size)), dependency.numel_hint()
    return None if reached is None or not every else reached * (dependency.numbytes_hint() // every)


def _known(size: Any) -> int | None:
    """A size that is no symbol."""
    return int(size) if isinstance(size, int) or getattr(size, "is_number", False) else None


def _launch(**figures: Any) -> Launch:
    nothing: Launch = {
        "bytes": 0,
        "operations": 0,
        "dtype": "",
        "programs": 0,
        "rows": 0,
        "again": 0,
        "strided": 0,
        "arithmetic": 0,
    }
    return {**nothing, **figures}  # type: ignore[typeddict-item]
