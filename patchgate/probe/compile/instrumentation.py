"""Watches one compile from the side: what Dynamo, AOTAutograd, the passes and lowering did and why.

Decides where each stage is watched. Changes nothing of what it watches, and refuses to know
what ought to have happened.
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
from torch._dynamo import output_graph
from torch._inductor import compile_fx as inductor
from torch._inductor import ir, pattern_matcher, scheduler
from torch._inductor.fx_passes import joint_graph, post_grad

from patchgate.probe.patch.snapshot import MODULE

# Dynamo guards the names that a function looks up in its module, whatever function a patch brings.
_OF_THE_PATCH = f"G['__import_{MODULE}"
# What a box holds once its value is stored.
_BUFFERS = (ir.ComputedBuffer, ir.InputsKernel, ir.InputBuffer, ir.ReinterpretView)


@dataclass(kw_only=True)
class Partition:
    """How AOTAutograd split one joint graph."""

    joint_ops: int
    forward_ops: int
    backward_ops: int
    saved_tensors: int


@dataclass(kw_only=True)
class Seen:
    """Counts by name, in the stage that they belong to. `relations` are guards on symbolic sizes."""

    breaks: list[str] = field(default_factory=list)
    guards: Counter[str] = field(default_factory=Counter)
    relations: int = 0
    partitions: list[Partition] = field(default_factory=list)
    passes: Counter[str] = field(default_factory=Counter)
    realized: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


@contextlib.contextmanager
def watching(seen: Seen) -> Iterator[None]:
    """Record what happens while this lasts."""
    watched = (
        (dynamo_guards.CheckFunctionManager, "__init__", _count_guards),
        (inductor, "min_cut_rematerialization_partition", _count_partition),
        (pattern_matcher.PatternMatcherPass, "apply", _count_matches),
        (ir.StorageBox, "realize", _count_realized),
        (scheduler.WhyNoFuse, "__call__", _count_refused),
    )
    output_graph.graph_break_reasons.clear()
    with contextlib.ExitStack() as stack:
        for owner, name, counting in watched:
            stack.enter_context(mock.patch.object(owner, name, counting(getattr(owner, name), seen)))
        yield
    seen.breaks += [_break(reason) for reason in output_graph.graph_break_reasons]


def _break(reason: Any) -> str:
    frame = reason.user_stack[-1]
    return f"{os.path.basename(frame.filename)}:{frame.lineno} {reason.reason.splitlines()[0].strip()}"


def _calls(graph: torch.fx.Graph) -> int:
    return sum(node.op.startswith("call_") for node in graph.nodes)


def _count_guards(original: Callable[..., Any], seen: Seen) -> Callable[..., Any]:
    @functools.wraps(original)
    def init(self: Any, code: Any, output: Any, *args: Any, **kwargs: Any) -> None:
        # Those with a name: the nameless ones guard the process and are the same for every frame.
        names = [guard for guard in output.guards if guard.name and not guard.name.startswith(_OF_THE_PATCH)]
        seen.guards.update(guard.create_fn_name() for guard in names)
        seen.relations += len(output.shape_env.guards)
        original(self, code, output, *args, **kwargs)

    return init


def _count_partition(original: Callable[..., Any], seen: Seen) -> Callable[..., Any]:
    @functools.wraps(original)
    def partition(joint: Any, *args: Any, **kwargs: Any) -> Any:
        joint_ops = _calls(joint.graph)
        forward, backward = original(joint, *args, **kwargs)
        (outputs,) = forward.graph.find_nodes(op="output")[0].args
        seen.partitions.append(
            Partition(
                joint_ops=joint_ops,
                forward_ops=_calls(forward.graph),
                backward_ops=_calls(backward.graph),
                saved_tensors=len(outputs) - kwargs["num_fwd_outputs"],
            )
        )
        return forward, backward

    return partition


def _count_matches(original: Callable[..., Any], seen: Seen) -> Callable[..., Any]:
    @functools.wraps(original)
    def apply(self: Any, graph: Any) -> int:
        matches: int = original(self, graph)
        if matches:
            seen.passes[_pass_name(self)] += matches
        return matches

    return apply


def _pass_name(one: Any) -> str:
    if one.pass_name:
        return str(one.pass_name)
    for stage, module in (("joint_graph", joint_graph), ("post_grad", post_grad)):
        for name, value in vars(module).items():
            if value is one:
                return f"{stage}.{name}"
            if isinstance(value, (list, tuple)) and any(each is one for each in value):
                return f"{stage}.{name}_{next(i for i, each in enumerate(value) if each is one)}"
    return "other"


def _count_realized(original: Callable[..., Any], seen: Seen) -> Callable[..., Any]:
    @functools.wraps(original)
    def realize(self: Any) -> Any:
        was_buffer = isinstance(self.data, _BUFFERS)
        result = original(self)
        if not was_buffer and isinstance(self.data, _BUFFERS):
            seen.realized[sys._getframe(1).f_code.co_name.strip("_<>")] += 1
        return result

    return realize


def _count_refused(original: Callable[..., Any], seen: Seen) -> Callable[..., Any]:
    @functools.wraps(original)
    def refuse(self: Any, reason: str, *args: Any) -> None:
        words = re.findall(r"[a-z]+", reason.split("%")[0].lower())
        seen.refused["_".join(words[:6])] += 1
        original(self, reason, *args)

    return refuse
