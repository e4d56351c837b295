"""Autograd's backward pass in Python, for a device that is not there.

Autograd's engine in C++ asks the device for streams before it runs a node, so it cannot trace a
backward graph of a simulated GPU. Here nodes run and gradients are summed in the engine's order; a
test on the CPU compares both.
"""

from __future__ import annotations

import heapq
import itertools
import weakref
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch._functorch._aot_autograd import graph_capture_wrappers, logging_utils
from torch.autograd.function import FunctionCtx
from torch.fx import traceback as fx_traceback

from patchgate.probe.protocol import Function

Hooks = dict[Any, tuple[list[Function], list[Function]]]
Edge = tuple[Any, int]

#: Nodes that called `ctx.set_materialize_grads(False)`; the nodes themselves do not tell this.
_functions_with_none: weakref.WeakSet[Any] = weakref.WeakSet()


class _HookedNode:
    """A node of the autograd graph. Its hooks are added to `hooks` (node -> hooks before and hooks
    after it runs), and `_run` calls them.
    """

    def __init__(self, node: Any, hooks: Hooks) -> None:
        self._node, self._hooks = node, hooks
        self.metadata, self._sequence_nr = node.metadata, node._sequence_nr

    @property
    def next_functions(self) -> list[tuple[Any, int]]:
        return [
            (fn and _HookedNode(fn, self._hooks), index) for fn, index in self._node.next_functions
        ]

    def register_prehook(self, hook: Function) -> None:
        self._hooks[self._node][0].append(hook)

    def register_hook(self, hook: Function) -> None:
        self._hooks[self._node][1].append(hook)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HookedNode) and other._node is self._node

    def __hash__(self) -> int:
        return hash(self._node)


@contextmanager
def backward_in_python() -> Iterator[None]:
    """Until the context ends, `torch.autograd.grad` works without the engine in C++.

    It raises NotImplementedError for options that compiled graphs never use.
    """
    hooks: Hooks = defaultdict(lambda: ([], []))
    set_up = logging_utils.setup_stacktrace_preservation_hooks

    def set_up_hooks(roots: Sequence[Any]) -> None:
        set_up([root and _HookedNode(root, hooks) for root in roots])

    def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, **options: Any) -> Any:
        if options.keys() - {"allow_unused"} or grad_outputs is None:
            raise NotImplementedError(f"backward on a simulated device with {sorted(options)}")
        with mock.patch.object(logging_utils, "callback_set", True), torch.no_grad():
            stack = fx_traceback.format_stack()
            try:
                return gradients(outputs, inputs, grad_outputs, hooks)
            finally:
                fx_traceback.set_stack_trace(stack)
                hooks.clear()

    set_materialize_grads = FunctionCtx.set_materialize_grads

    def note_materialize_grads(node: Any, value: bool) -> None:
        (_functions_with_none.discard if value else _functions_with_none.add)(node)
        set_materialize_grads(node, value)

    with (
        mock.patch.object(torch.autograd, "grad", grad),
        mock.patch.object(FunctionCtx, "set_materialize_grads", note_materialize_grads),
        mock.patch.object(
            graph_capture_wrappers, "setup_stacktrace_preservation_hooks", set_up_hooks
        ),
    ):
        yield


def gradients(
    outputs: Sequence[Any], inputs: Sequence[Any], grad_outputs: Sequence[Any], hooks: Hooks
) -> tuple[Any, ...]:
    """Return the gradient of each input; None if no output depends on the input."""
    roots = [_edge(tensor) for tensor in outputs]
    wanted = [_edge(tensor) for tensor in inputs]
    needed, waits = _schedule([node for node, _ in roots], {node for node, _ in wanted})
    ready: list[tuple[int, int, Any]] = []
    order = itertools.count()
    received: dict[Any, dict[int, Any]] = defaultdict(
        dict
    )  # node -> gradients of its outputs so far, by index
    at_edge: dict[Edge, Any] = {}

    def deliver(edges: Sequence[Edge], values: Sequence[Any]) -> None:
        # As in the engine, all are fitted before any is added; the traced graph shows this order.
        fitted = [_fit(value, edge) for value, edge in zip(values, edges, strict=True)]
        for (node, index), value in zip(edges, fitted, strict=True):
            if node is None or node not in needed:
                continue
            if value is not None:
                before = received[node].get(index)
                received[node][index] = value if before is None else before + value
            waits[node] -= 1
            if not waits[node]:
                heapq.heappush(ready, (-node._sequence_nr(), next(order), node))

    deliver(roots, grad_outputs)
    while ready:
        node = heapq.heappop(ready)[2]
        gradient_by_index = received.pop(node, {})
        for edge in wanted:
            if edge[0] is node:
                at_edge[edge] = gradient_by_index.get(edge[1])
        if needed.get(node):
            deliver(node.next_functions, _run(node, gradient_by_index, hooks))
    return tuple(at_edge.get(edge) for edge in wanted)


def _edge(tensor: Any) -> Edge:
    edge = torch.autograd.graph.get_gradient_edge(tensor)
    return edge.node, edge.output_nr


def _schedule(roots: Sequence[Any], wanted: set[Any]) -> tuple[dict[Any, bool], Counter[Any]]:
    """Return two maps: a node on a path to a wanted node -> True if it must run, and a node -> the
    number of gradients that it waits for.
    """
    needed: dict[Any, bool] = {}
    stack = [(node, False) for node in roots]
    seen: set[Any] = set()
    while stack:
        node, done = stack.pop()
        following = [fn for fn, _ in node.next_functions if fn is not None]
        if done:
            leads_on = any(fn in needed for fn in following)
            if leads_on or node in wanted:
                needed[node] = leads_on
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(fn, False) for fn in following]
    # A wanted node that leads to no other one only receives gradients and does not run.
    waits: Counter[Any] = Counter(node for node in roots if node in needed)
    for node, leads_on in needed.items():
        if leads_on:
            waits.update(fn for fn, _ in node.next_functions if fn in needed)
    return needed, waits


def _run(node: Any, gradients: dict[int, Any], hooks: Hooks) -> Sequence[Any]:
    before, after = hooks.get(node, ((), ()))
    values = [gradients.get(index) for index in range(len(node._input_metadata))]
    for hook in before:
        hook(values)
    results = _run_function(node, values) if hasattr(node, "apply") else node(*values)
    results = results if isinstance(results, tuple) else (results,)
    for hook in after:
        hook(results, values)
    return results


def _run_function(node: Any, values: list[Any]) -> tuple[Any, ...]:
    """Return the gradients of a user's `torch.autograd.Function`, one for each edge.

    `backward` gets zeros for outputs without a gradient, unless it asked for None. It returns one
    result for each argument of `forward`, but only tensor arguments have an edge.
    """
    if node not in _functions_with_none:
        described = zip(values, node._input_metadata, strict=True)
        values = [
            torch.ops.aten.zeros.default(
                like.shape, dtype=like.dtype, layout=torch.strided, device=like.device
            )
            if value is None
            else value
            for value, like in described
        ]
    results = node.apply(*values)
    results = results if isinstance(results, tuple) else (results,)
    asked = itertools.compress(results, node.needs_input_grad)
    return tuple(
        None if following is None else next(asked, None) for following, _ in node.next_functions
    )


def _fit(value: Any, edge: Edge) -> Any:
    """Convert a gradient to the shape and dtype of its tensor, as the engine does."""
    node, index = edge
    if value is None or node is None:
        return value
    metadata = node._input_metadata[index]
    if tuple(value.shape) != tuple(metadata.shape):
        value = value.sum_to_size(metadata.shape)
    return value if value.dtype == metadata.dtype else value.to(metadata.dtype)
