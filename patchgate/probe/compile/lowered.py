"""Reads one `GraphLowering` after code generation: operations, scheduler nodes, bytes, memory and
code.

The generated code itself is read by `patchgate.probe.compile.generated_code`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

import torch
from torch._inductor import cudagraph_utils, memory
from torch._inductor.graph import GraphLowering
from torch._inductor.utils import get_first_incompatible_cudagraph_node
from torch.utils._ordered_set import OrderedSet


@dataclass(kw_only=True)
class Lowered:
    """One graph after code generation; sizes in bytes."""

    aten: Counter[str]  #: operations by name
    fused_nodes: int  #: scheduler nodes after fusion
    bytes_read: int
    bytes_written: int
    bytes_total: int
    peak_memory: int
    cudagraph_refusal: str  #: why it cannot be a CUDA graph; empty where it can


def count_operations(graph: torch.fx.Graph) -> Counter[str]:
    """Calls in a graph by name."""
    names: Counter[str] = Counter()
    for node in graph.nodes:
        if node.op in ("call_function", "call_method", "call_module"):
            target = node.target
            name = str(target) if not callable(target) else getattr(target, "__name__", str(target))
            names[str(target) if isinstance(target, torch._ops.OpOverload) else name] += 1
    return names


def read_graph(graph: GraphLowering) -> Lowered:
    """The record of one graph."""
    # GraphLowering.count_bytes sums the same bytes, but also estimates run times, for which it
    # queries a device.
    nodes = graph.scheduler.nodes

    def total_bytes(**include: bool) -> int:
        return sum(node.get_read_write_buffers_sizes_impl(**include) for node in nodes)

    return Lowered(
        aten=count_operations(graph.orig_gm.graph),
        fused_nodes=len(nodes),
        bytes_read=total_bytes(include_reads=True, include_writes=False),
        bytes_written=total_bytes(include_reads=False, include_writes=True),
        bytes_total=sum(node.get_read_write_buffers_sizes() for node in nodes),
        peak_memory=_peak_memory(graph),
        cudagraph_refusal=_cudagraph_refusal(graph),
    )


def _peak_memory(graph: GraphLowering) -> int:
    """Most bytes alive at once by Inductor's own plan: inputs that can be freed, intermediates,
    outputs.
    """
    nodes, scheduler = graph.scheduler.nodes, graph.scheduler
    inputs = memory.get_freeable_input_buf(nodes, OrderedSet(graph.graph_inputs))
    memory.assign_memory_planning_info_for_scheduler_buffers(nodes, scheduler.name_to_buf)
    memory.assign_memory_planning_info_for_scheduler_nodes(
        nodes, scheduler.name_to_fused_node, scheduler.name_to_buf, inputs
    )
    buffers = memory.compute_memory_timeline(nodes, inputs, OrderedSet(graph.get_output_names()))[0]
    changes = [0] * (len(nodes) + 1)
    for buffer in buffers:
        changes[buffer.start_step] += buffer.size_alloc
        if buffer.end_step >= 0:  # an output is alive at the end
            changes[buffer.end_step + 1] -= buffer.size_free
    return max(itertools.accumulate(changes), default=0)


def _cudagraph_refusal(graph: GraphLowering) -> str:
    mixed = cudagraph_utils.check_multiple_devices_or_any_cpu_nodes(graph.device_node_mapping)
    reason = graph.disable_cudagraphs_reason or mixed
    if reason:
        return str(reason).splitlines()[0]
    node = get_first_incompatible_cudagraph_node(graph.orig_gm)
    return f"incompatible op {node.target}" if node else ""
