"""The facts of one compile, made of what was captured.

Names are flat and dotted, by stage; docs/golden.md lists them. What a fact counts is read elsewhere: generated code in
`kernels`, Inductor's graph in `lowered`, the compiler's stages in `instrumentation`.
"""

from __future__ import annotations

from collections import Counter

from torch._dynamo.utils import counters
from torch._inductor import metrics

from patchgate.probe.compile.capture import Captured
from patchgate.probe.compile.kernels import Kernel
from patchgate.probe.compile.lowered import Lowered
from patchgate.probe.protocol import Facts


def facts_of(captured: Captured, *, triton: bool) -> Facts:
    """Every fact of one compile; `triton` adds what is read off Triton code only."""
    lowered = captured.lowered
    kernels = [kernel for graph in lowered for kernel in graph.wrapper.distinct]
    facts = _graph_facts(captured) | _lowering_facts(captured) | _kernel_facts(lowered, kernels)
    if triton:
        facts |= _triton_facts(lowered, kernels)
    return facts


def _histogram(prefix: str, counts: Counter[str]) -> Facts:
    return {f"{prefix}.{name.removeprefix('aten.')}": count for name, count in counts.items()}


def _graph_facts(captured: Captured) -> Facts:
    trace = captured.trace
    fx = sum(captured.fx, Counter())
    aten = sum((graph.aten for graph in captured.lowered), Counter())
    facts: Facts = {
        "dynamo.graphs": len(captured.fx),
        "dynamo.graph_breaks": sum(counters["graph_break"].values()),
        "fx.ops": sum(fx.values()),
        "aten.ops": sum(aten.values()),
    }
    facts |= {f"dynamo.break.{index}": text for index, text in enumerate(trace.breaks, 1)}
    facts |= _histogram("dynamo.guard", trace.guards) | _histogram("fx.op", fx) | _histogram("aten.op", aten)
    return facts | _histogram("aot", trace.partitions)


def _lowering_facts(captured: Captured) -> Facts:
    trace, lowered = captured.trace, captured.lowered
    facts: Facts = {
        "lowering.ir_nodes": metrics.ir_nodes_pre_fusion,
        "lowering.realized": sum(trace.realized.values()),
        "scheduler.fused_nodes": sum(graph.fused_nodes for graph in lowered),
        "memory.peak": max((graph.peak_memory for graph in lowered), default=0),
        "bytes.total": sum(graph.bytes_total for graph in lowered),
        "bytes.read": sum(graph.bytes_read for graph in lowered),
        "bytes.written": sum(graph.bytes_written for graph in lowered),
    }
    facts |= _histogram("passes.hits", trace.pattern_hits)
    facts |= _histogram("lowering.realized_by", trace.realized)
    return facts | _histogram("scheduler.refused", trace.fusions_refused)


def _kernel_facts(lowered: list[Lowered], kernels: list[Kernel]) -> Facts:
    calls: Counter[str] = sum((graph.wrapper.calls for graph in lowered), Counter())
    return {
        "kernels.generated": metrics.generated_kernel_count,
        "kernels.defined": sum(len(graph.wrapper.kernels) for graph in lowered),
        "kernels.distinct": len(kernels),
        "kernels.called": sum(count for kind, count in calls.items() if kind not in ("extern", "fallback")),
        "wrapper.lines": sum(graph.wrapper.lines for graph in lowered),
        "wrapper.allocations": sum(graph.wrapper.allocations for graph in lowered),
        "wrapper.reused": sum(graph.wrapper.reused for graph in lowered),
    } | _histogram("kernels.kind", calls)


def _triton_facts(lowered: list[Lowered], kernels: list[Kernel]) -> Facts:
    loads = [kernel.loads for kernel in kernels if kernel.loads is not None]
    stores = [kernel.stores for kernel in kernels if kernel.stores is not None]
    refusals = [graph.cudagraph_refusal for graph in lowered if graph.cudagraph_refusal]
    facts: Facts = {
        "loads": loads,
        "loads.max": max(loads, default=0),
        "stores": stores,
        "stores.max": max(stores, default=0),
        "cudagraphs.eligible": len(lowered) - len(refusals),
    }
    facts |= {f"cudagraphs.refused.{index}": reason for index, reason in enumerate(refusals, 1)}
    facts |= _histogram("kernels.hint", Counter(kernel.hint for kernel in kernels if kernel.hint))
    return facts | _histogram("kernels.grid", Counter(kernel.grid for kernel in kernels if kernel.grid))
