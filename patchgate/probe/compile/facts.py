"""The facts of one compile, made of what was captured.

Names are flat and dotted, by stage; docs/golden.md lists them. What a fact counts is read elsewhere: generated code in
`kernels`, Inductor's graph in `lowered`, the compiler's stages in `instrumentation`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from torch._dynamo.utils import counters
from torch._inductor import metrics

from patchgate.probe.compile.capture import Captured
from patchgate.probe.compile.kernels import Kernel, read_wrapper
from patchgate.probe.protocol import Facts


def graph_facts(captured: Captured, *, triton: bool) -> Facts:
    """What the compiler's own objects say of one compile; `triton` adds what is asked of a GPU's code only."""
    facts = _graph_facts(captured) | _lowering_facts(captured)
    if triton:
        refusals = [graph.cudagraph_refusal for graph in captured.lowered if graph.cudagraph_refusal]
        facts["cudagraphs.eligible"] = len(captured.lowered) - len(refusals)
        facts |= {f"cudagraphs.refused.{index}": reason for index, reason in enumerate(refusals, 1)}
    return facts


def code_facts(code: Sequence[str], *, triton: bool) -> Facts:
    """What the generated code says by itself, a wrapper module a graph. A patch has no word in it."""
    wrappers = [read_wrapper(text) for text in code]
    calls: Counter[str] = sum((wrapper.calls for wrapper in wrappers), Counter())
    kernels = [kernel for wrapper in wrappers for kernel in wrapper.distinct]
    facts: Facts = {
        "kernels.defined": sum(len(wrapper.kernels) for wrapper in wrappers),
        "kernels.distinct": len(kernels),
        "kernels.called": sum(count for kind, count in calls.items() if kind not in ("extern", "fallback")),
        "wrapper.lines": sum(wrapper.lines for wrapper in wrappers),
        "wrapper.allocations": sum(wrapper.allocations for wrapper in wrappers),
        "wrapper.reused": sum(wrapper.reused for wrapper in wrappers),
    } | _histogram("kernels.kind", calls)
    return facts | _triton_facts(kernels) if triton else facts


def _triton_facts(kernels: list[Kernel]) -> Facts:
    loads = [kernel.loads for kernel in kernels if kernel.loads is not None]
    stores = [kernel.stores for kernel in kernels if kernel.stores is not None]
    facts: Facts = {"loads": loads, "loads.max": max(loads, default=0)}
    facts |= {"stores": stores, "stores.max": max(stores, default=0)}
    facts |= _histogram("kernels.hint", Counter(kernel.hint for kernel in kernels if kernel.hint))
    return facts | _histogram("kernels.grid", Counter(kernel.grid for kernel in kernels if kernel.grid))


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
        "kernels.generated": metrics.generated_kernel_count,
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
    facts |= {f"padding.{product}": decision for product, decision in captured.padding.items()}
    return facts | _histogram("scheduler.refused", trace.fusions_refused)
