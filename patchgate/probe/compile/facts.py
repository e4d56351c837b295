"""The facts of one compile: flat, dotted names by stage, sorted out of what was seen.

Decides names and sums. Refuses to know how they were taken, and what they ought to be.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch._dynamo.utils import counters
from torch._inductor import metrics

from patchgate.probe.compile.capture import Captured
from patchgate.probe.compile.kernels import Kernel
from patchgate.probe.compile.lowered import Lowered

Facts = dict[str, Any]


def facts_of(captured: Captured) -> Facts:
    """Every fact of one compile (DESIGN facts 1, 11 and 12)."""
    lowered = captured.lowered
    kernels = [kernel for graph in lowered for kernel in graph.wrapper.distinct]
    facts = _graph_facts(captured) | _lowering_facts(captured) | _kernel_facts(lowered, kernels)
    if captured.has_loads:
        facts |= _triton_facts(lowered, kernels)
    return facts


def _histogram(prefix: str, counts: Counter[str]) -> Facts:
    return {f"{prefix}.{name.removeprefix('aten.')}": count for name, count in counts.items()}


def _graph_facts(captured: Captured) -> Facts:
    seen = captured.seen
    fx = sum(captured.fx, Counter())
    aten = sum((graph.aten for graph in captured.lowered), Counter())
    facts: Facts = {
        "dynamo.graphs": len(captured.fx),
        "dynamo.graph_breaks": sum(counters["graph_break"].values()),
        "fx.ops": sum(fx.values()),
        "aten.ops": sum(aten.values()),
    }
    facts |= {f"dynamo.break.{index}": text for index, text in enumerate(seen.breaks, 1)}
    facts |= _histogram("dynamo.guard", seen.guards) | _histogram("fx.op", fx) | _histogram("aten.op", aten)
    if seen.partitions:
        for name in ("joint_ops", "forward_ops", "backward_ops", "saved_tensors"):
            facts[f"aot.{name}"] = sum(getattr(partition, name) for partition in seen.partitions)
    return facts


def _lowering_facts(captured: Captured) -> Facts:
    seen, lowered = captured.seen, captured.lowered
    facts: Facts = {
        "lowering.ir_nodes": metrics.ir_nodes_pre_fusion,
        "lowering.realized": sum(seen.realized.values()),
        "scheduler.fused_nodes": sum(graph.fused_nodes for graph in lowered),
        "memory.peak": max((graph.peak_memory for graph in lowered), default=0),
        "bytes.total": sum(graph.bytes_total for graph in lowered),
        "bytes.read": sum(graph.bytes_read for graph in lowered),
        "bytes.written": sum(graph.bytes_written for graph in lowered),
    }
    facts |= _histogram("passes.hits", seen.passes)
    facts |= _histogram("lowering.realized_by", seen.realized)
    return facts | _histogram("scheduler.refused", seen.refused)


def _kernel_facts(lowered: list[Lowered], kernels: list[Kernel]) -> Facts:
    kinds: Counter[str] = sum((graph.wrapper.calls for graph in lowered), Counter())
    generated = {kind: n for kind, n in kinds.items() if kind not in ("extern", "fallback")}
    return {
        "kernels.generated": metrics.generated_kernel_count,
        "kernels.defined": sum(len(graph.wrapper.kernels) for graph in lowered),
        "kernels.distinct": len(kernels),
        "kernels.called": sum(generated.values()),
        "wrapper.lines": sum(graph.wrapper.lines for graph in lowered),
        "wrapper.allocations": sum(graph.wrapper.allocations for graph in lowered),
        "wrapper.reused": sum(graph.wrapper.reused for graph in lowered),
    } | _histogram("kernels.kind", kinds)


def _triton_facts(lowered: list[Lowered], kernels: list[Kernel]) -> Facts:
    loads = [kernel.loads for kernel in kernels if kernel.loads is not None]
    stores = [kernel.stores for kernel in kernels if kernel.stores is not None]
    refusals = [graph.refuses_cudagraph for graph in lowered if graph.refuses_cudagraph]
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
