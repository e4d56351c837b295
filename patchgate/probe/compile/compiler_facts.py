"""The facts of one compile that are read from the compiler's own objects. The facts of the code are
in `generated_code`.

Names are flat and dotted, by stage; docs/golden.md lists them. Each count of a stage wraps one
function of torch, and does not change its behaviour.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch._dynamo import guards as dynamo_guards
from torch._dynamo import output_graph, trace_rules
from torch._dynamo.utils import counters
from torch._dynamo.variables import TorchInGraphFunctionVariable
from torch._inductor import compile_fx as inductor
from torch._inductor import cudagraph_utils, ir, memory, metrics, pattern_matcher, scheduler
from torch._inductor.fx_passes import joint_graph, post_grad
from torch._inductor.graph import GraphLowering
from torch._inductor.utils import get_first_incompatible_cudagraph_node
from torch.utils._ordered_set import OrderedSet

from patchgate.probe.compile.generated_code import histogram, late_bytes
from patchgate.probe.patch.load import held_by_patches, is_patch_module
from patchgate.probe.protocol import Facts, Function

# The types of the `data` of a StorageBox that is realized.
_BUFFERS = (ir.ComputedBuffer, ir.InputsKernel, ir.InputBuffer, ir.ReinterpretView)
_Call = Callable[[], Any]
# Dynamo's name for a guard on a default argument of a function. The group is the function's name.
_DEFAULT = re.compile(r".*\.(\w+)\.__(?:kw)?defaults__\[")


@dataclass(kw_only=True)
class Lowered:
    """One graph after code generation; sizes in bytes."""

    aten: Counter[str]  #: operations by name
    fused_nodes: int  #: scheduler nodes after fusion
    bytes_read: int
    bytes_written: int
    bytes_total: int
    peak_memory: int
    cudagraph_refusal: str  #: why there can be no CUDA graph; empty if there can


@dataclass(kw_only=True)
class CompileTrace:
    """The trace of one compile, stage by stage."""

    breaks: list[str] = field(default_factory=list)  #: graph breaks, as "file:line reason"
    symbolic_guards: int = 0  #: guards on symbolic sizes
    #: Prefix of facts -> name -> count. Counted are named guards by kind, calls in the graphs of a
    #: partition, matches by pattern pass, realized values by the function that realized them, and
    #: refused fusions by the scheduler's reason.
    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


@dataclass
class Captured:
    """The record of one compile."""

    #: Operations of each graph that Dynamo gave to the backend.
    fx: list[Counter[str]] = field(default_factory=list)
    lowered: list[Lowered] = field(default_factory=list)  #: Each graph that Inductor lowered.
    code: list[str] = field(default_factory=list)  #: The wrapper module of each lowered graph.
    trace: CompileTrace = field(default_factory=CompileTrace)
    #: Timed matrix product -> "padded" or "kept".
    padding: dict[str, str] = field(default_factory=dict)


def graph_facts(captured: Captured, *, triton: bool) -> Facts:
    """Return the facts of one compile from the compiler's own objects; `triton` adds the facts of
    CUDA graphs.
    """
    trace, lowered = captured.trace, captured.lowered
    fx: Counter[str] = sum(captured.fx, Counter())
    aten: Counter[str] = sum((graph.aten for graph in lowered), Counter())
    facts: Facts = {
        "dynamo.graphs": len(captured.fx),
        "dynamo.graph_breaks": sum(counters["graph_break"].values()),
        "fx.ops": sum(fx.values()),
        "aten.ops": sum(aten.values()),
        "kernels.generated": metrics.generated_kernel_count,
        "lowering.ir_nodes": metrics.ir_nodes_pre_fusion,
        "lowering.realized": sum(trace.counts["lowering.realized_by"].values()),
        "scheduler.fused_nodes": sum(graph.fused_nodes for graph in lowered),
        "memory.peak": max(_peaks(captured), default=0),
        "bytes.total": sum(graph.bytes_total for graph in lowered),
        "bytes.read": sum(graph.bytes_read for graph in lowered),
        "bytes.written": sum(graph.bytes_written for graph in lowered),
    }
    facts |= {f"dynamo.break.{index}": text for index, text in enumerate(trace.breaks, 1)}
    facts |= {f"padding.{product}": decision for product, decision in captured.padding.items()}
    for prefix, counts in {**trace.counts, "fx.op": fx, "aten.op": aten}.items():
        facts |= histogram(prefix, counts)
    if triton:
        refusals = [graph.cudagraph_refusal for graph in lowered if graph.cudagraph_refusal]
        facts["cudagraphs.eligible"] = len(lowered) - len(refusals)
        facts |= {f"cudagraphs.refused.{index}": reason for index, reason in enumerate(refusals, 1)}
    return facts


def _peaks(captured: Captured) -> Iterator[int]:
    """Yield each graph's peak by the compiler's plan, plus the bytes that the code frees late."""
    for graph, code in zip(captured.lowered, captured.code, strict=True):
        yield graph.peak_memory + late_bytes(code)


def count_operations(graph: torch.fx.Graph) -> Counter[str]:
    """Count the calls in a graph by name."""
    names: Counter[str] = Counter()
    for node in graph.nodes:
        if node.op in ("call_function", "call_method", "call_module"):
            target = node.target
            is_overload = isinstance(target, torch._ops.OpOverload)
            has_name = callable(target) and not is_overload
            names[getattr(target, "__name__", str(target)) if has_name else str(target)] += 1
    return names


def read_graph(graph: GraphLowering) -> Lowered:
    """Read the facts of one graph after code generation."""
    # GraphLowering.count_bytes is not used: it sums the same bytes, but also estimates run times,
    # for which it queries a device.
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
    """Return the most bytes alive at once by Inductor's own plan. Inputs that can be freed,
    intermediates and outputs count.
    """
    plan = graph.scheduler
    nodes, buffers = plan.nodes, plan.name_to_buf
    inputs = memory.get_freeable_input_buf(nodes, OrderedSet(graph.graph_inputs))
    memory.assign_memory_planning_info_for_scheduler_buffers(nodes, buffers)
    memory.assign_memory_planning_info_for_scheduler_nodes(
        nodes, plan.name_to_fused_node, buffers, inputs
    )
    outputs = OrderedSet(graph.get_output_names())
    changes = [0] * (len(nodes) + 1)
    for buffer in memory.compute_memory_timeline(nodes, inputs, outputs)[0]:
        changes[buffer.start_step] += buffer.size_alloc
        if buffer.end_step >= 0:  # not an output, which is alive at the end
            changes[buffer.end_step + 1] -= buffer.size_free
    return max(itertools.accumulate(changes), default=0)


def _cudagraph_refusal(graph: GraphLowering) -> str:
    mixed = cudagraph_utils.check_multiple_devices_or_any_cpu_nodes(graph.device_node_mapping)
    reason = graph.disable_cudagraphs_reason or mixed
    if reason:
        return str(reason).splitlines()[0]
    try:
        node = get_first_incompatible_cudagraph_node(graph.orig_gm)
    except AssertionError:  # raised by torch 2.12 for a kernel that a user wrote
        return "torch cannot read the value of a node"
    return f"incompatible op {node.target}" if node else ""


@contextmanager
def trace_compile(trace: CompileTrace) -> Iterator[None]:
    """Record compiles in `trace` until the context ends."""
    counted: tuple[tuple[Any, str, Function], ...] = (
        (dynamo_guards.CheckFunctionManager, "__init__", _count_guards),
        (inductor, "min_cut_rematerialization_partition", _count_partition),
        (pattern_matcher.PatternMatcherPass, "apply", _count_matches),
        (ir.StorageBox, "realize", _count_realized),
        (scheduler.WhyNoFuse, "__call__", _count_refused),
    )
    output_graph.graph_break_reasons.clear()
    with ExitStack() as stack:
        for owner, name, count in counted:
            counting = _counting(getattr(owner, name), count, trace)
            stack.enter_context(mock.patch.object(owner, name, counting))
        yield
    for reason in output_graph.graph_break_reasons:
        frame, why = reason.user_stack[-1], reason.reason.splitlines()[0].strip()
        trace.breaks.append(f"{os.path.basename(frame.filename)}:{frame.lineno} {why}")


def _counting(original: Function, count: Function, trace: CompileTrace) -> Function:
    """Wrap a function of torch, so that `count` is called instead. `count` gets the trace, a
    function that makes the original call, and the arguments.
    """

    @functools.wraps(original)
    def counted(*args: Any, **kwargs: Any) -> Any:
        return count(trace, lambda: original(*args, **kwargs), *args, **kwargs)

    return counted


def _calls_in(graph: torch.fx.Graph) -> int:
    return sum(node.op.startswith("call_") for node in graph.nodes)


def _count_guards(
    trace: CompileTrace, call: _Call, self: Any, code: Any, output: Any, *_: Any, **__: Any
) -> None:
    # Guards without a name are about the process and are the same for every frame. Guards on the
    # patch's functions, and on names that these look up in the patch's module, do not count.
    named = [guard for guard in output.guards if guard.name and not _is_of_patch(guard.name)]
    trace.counts["dynamo.guard"].update(guard.create_fn_name() for guard in named)
    trace.symbolic_guards += len(output.shape_env.guards)
    call()


def _is_of_patch(guarded: str) -> bool:
    """True if a guard is about the patch's module, or about a default argument of a function with
    which the patch replaces an operator.

    Dynamo takes torch's own functions as operators and sets no guards on their defaults. It traces
    into the patch's function instead, and sets such guards.
    """
    default = _DEFAULT.match(guarded)
    return is_patch_module(guarded) or any(
        trace_rules.lookup(each) is TorchInGraphFunctionVariable
        for each in (held_by_patches(default[1]) if default else ())
    )


def _count_partition(trace: CompileTrace, call: _Call, joint: Any, *_: Any, **options: Any) -> Any:
    joint_ops = _calls_in(joint.graph)
    forward, backward = call()
    (outputs,) = forward.graph.find_nodes(op="output")[0].args
    trace.counts["aot"].update(
        joint_ops=joint_ops,
        forward_ops=_calls_in(forward.graph),
        backward_ops=_calls_in(backward.graph),
        saved_tensors=len(outputs) - options["num_fwd_outputs"],
    )
    return forward, backward


def _count_matches(trace: CompileTrace, call: _Call, self: Any, *_: Any) -> Any:
    matches = call()
    if matches:
        trace.counts["passes.hits"][_pass_name(self)] += matches
    return matches


def _pass_name(pattern_pass: Any) -> str:
    """Return the pass's own name, or else the name of the variable that holds the pass."""
    if pattern_pass.pass_name:
        return str(pattern_pass.pass_name)
    for stage, module in (("joint_graph", joint_graph), ("post_grad", post_grad)):
        for name, value in vars(module).items():
            if value is pattern_pass:
                return f"{stage}.{name}"
            for index, item in enumerate(value) if isinstance(value, (list, tuple)) else ():
                if item is pattern_pass:
                    return f"{stage}.{name}_{index}"
    return "other"


def _count_realized(trace: CompileTrace, call: _Call, self: Any) -> Any:
    was_buffer = isinstance(self.data, _BUFFERS)
    result = call()
    if not was_buffer and isinstance(self.data, _BUFFERS):
        # Frame 1 is `counted`, which replaces `realize`; frame 2 is the caller of `realize`.
        caller = sys._getframe(2).f_code.co_name.strip("_<>")
        trace.counts["lowering.realized_by"][caller] += 1
    return result


def _count_refused(trace: CompileTrace, call: _Call, self: Any, reason: str, *_: Any) -> None:
    words = re.findall(r"[a-z]+", reason.split("%")[0].lower())
    trace.counts["scheduler.refused"]["_".join(words[:6])] += 1
    call()
