"""Counts what Dynamo, AOTAutograd, the pattern passes, lowering and the scheduler do during one
compile.

Each count wraps one function of torch, and changes nothing of what it does.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch._dynamo import guards as dynamo_guards
from torch._dynamo import output_graph, trace_rules
from torch._dynamo.variables import TorchInGraphFunctionVariable
from torch._inductor import compile_fx as inductor
from torch._inductor import ir, pattern_matcher, scheduler
from torch._inductor.fx_passes import joint_graph, post_grad

from patchgate.probe.patch.load import held_by_patches, is_patch_module

# What a StorageBox holds once its value is stored.
_BUFFERS = (ir.ComputedBuffer, ir.InputsKernel, ir.InputBuffer, ir.ReinterpretView)

_Call = Callable[[], Any]

# Dynamo's name of a guard on a default of a function, whose name is the group.
_DEFAULT = re.compile(r".*\.(\w+)\.__(?:kw)?defaults__\[")


@dataclass(kw_only=True)
class CompileTrace:
    """The trace of one compile, stage by stage."""

    breaks: list[str] = field(default_factory=list)  #: graph breaks, as "file:line reason"
    guards: Counter[str] = field(default_factory=Counter)  #: named guards by kind
    symbolic_guards: int = 0  #: guards on symbolic sizes
    partitions: Counter[str] = field(
        default_factory=Counter
    )  #: calls in each graph, and tensors saved
    pattern_hits: Counter[str] = field(default_factory=Counter)  #: matches by pattern pass
    realized: Counter[str] = field(
        default_factory=Counter
    )  #: stored values by the function that asked for it
    fusions_refused: Counter[str] = field(default_factory=Counter)  #: by the scheduler's reason


@contextlib.contextmanager
def trace_compile(trace: CompileTrace) -> Iterator[None]:
    """Within it, what compiles is recorded in `trace`."""
    counted: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
        (dynamo_guards.CheckFunctionManager, "__init__", _count_guards),
        (inductor, "min_cut_rematerialization_partition", _count_partition),
        (pattern_matcher.PatternMatcherPass, "apply", _count_matches),
        (ir.StorageBox, "realize", _count_realized),
        (scheduler.WhyNoFuse, "__call__", _count_refused),
    )
    output_graph.graph_break_reasons.clear()
    with contextlib.ExitStack() as stack:
        for owner, name, count in counted:
            counting = _counting(getattr(owner, name), count, trace)
            stack.enter_context(mock.patch.object(owner, name, counting))
        yield
    for reason in output_graph.graph_break_reasons:
        frame, why = reason.user_stack[-1], reason.reason.splitlines()[0].strip()
        trace.breaks.append(f"{os.path.basename(frame.filename)}:{frame.lineno} {why}")


def _counting(
    original: Callable[..., Any], count: Callable[..., Any], trace: CompileTrace
) -> Callable[..., Any]:
    """The function of torch, called by `count`, which gets the trace, a call of it, and its
    arguments.
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
    # Those with a name: the nameless ones guard the process and are the same for every frame. Nor
    # those of what a function of the patch looks up in the patch's module, or has of its own.
    named = [guard for guard in output.guards if guard.name and not _is_of_patch(guard.name)]
    trace.guards.update(guard.create_fn_name() for guard in named)
    trace.symbolic_guards += len(output.shape_env.guards)
    call()


def _is_of_patch(guarded: str) -> bool:
    """True if a guard is about the patch's module, or about a default of what it has put in place
    of an operator.

    Torch's own functions are operators to Dynamo, which asks for no default of theirs; what stands
    for one is traced.
    """
    default = _DEFAULT.match(guarded)
    originals = held_by_patches(default[1]) if default else []
    is_traced = all(
        trace_rules.lookup(each) is not TorchInGraphFunctionVariable for each in originals
    )
    return is_patch_module(guarded) or not is_traced


def _count_partition(trace: CompileTrace, call: _Call, joint: Any, *_: Any, **options: Any) -> Any:
    joint_ops = _calls_in(joint.graph)
    forward, backward = call()
    (outputs,) = forward.graph.find_nodes(op="output")[0].args
    trace.partitions.update(
        joint_ops=joint_ops,
        forward_ops=_calls_in(forward.graph),
        backward_ops=_calls_in(backward.graph),
        saved_tensors=len(outputs) - options["num_fwd_outputs"],
    )
    return forward, backward


def _count_matches(trace: CompileTrace, call: _Call, self: Any, *_: Any) -> Any:
    matches = call()
    if matches:
        trace.pattern_hits[_pass_name(self)] += matches
    return matches


def _pass_name(pattern_pass: Any) -> str:
    """The pass's own name, or that of the variable which holds it."""
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
        # The caller of this function's caller, which stands for `realize`.
        trace.realized[sys._getframe(2).f_code.co_name.strip("_<>")] += 1
    return result


def _count_refused(trace: CompileTrace, call: _Call, self: Any, reason: str, *_: Any) -> None:
    words = re.findall(r"[a-z]+", reason.split("%")[0].lower())
    trace.fusions_refused["_".join(words[:6])] += 1
    call()
