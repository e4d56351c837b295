"""The facts of one compile that the compiler's own objects give; those of its code are in
`generated_code`.

Names are flat and dotted, by stage; docs/golden.md lists them. What a fact counts is read
elsewhere: Inductor's graph in `lowered`, the compiler's stages in `instrumentation`.
"""

from __future__ import annotations

from collections import Counter

from torch._dynamo.utils import counters
from torch._inductor import metrics

from patchgate.probe.compile.capture import Captured
from patchgate.probe.compile.generated_code import histogram
from patchgate.probe.protocol import Facts


def graph_facts(captured: Captured, *, triton: bool) -> Facts:
    """The facts of the compiler's own objects in one compile; `triton` adds those of a GPU's
    code.
    """
    facts = _graph_facts(captured) | _lowering_facts(captured)
    if triton:
        refusals = [
            graph.cudagraph_refusal for graph in captured.lowered if graph.cudagraph_refusal
        ]
        facts["cudagraphs.eligible"] = len(captured.lowered) - len(refusals)
        facts |= {f"cudagraphs.refused.{index}": reason for index, reason in enumerate(refusals, 1)}
    return facts


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
    facts |= histogram("dynamo.guard", trace.guards)
    facts |= histogram("fx.op", fx) | histogram("aten.op", aten)
    return facts | histogram("aot", trace.partitions)


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
    facts |= histogram("passes.hits", trace.pattern_hits)
    facts |= histogram("lowering.realized_by", trace.realized)
    facts |= {f"padding.{product}": decision for product, decision in captured.padding.items()}
    return facts | histogram("scheduler.refused", trace.fusions_refused)
