"""How often Dynamo compiles one workload: at first, again, for other instances of it, and for another size.

Decides the calls that are made and what of each graph is counted. Nothing is lowered: a graph
runs as it was captured. Refuses to know how often is too often.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
import torch._inductor.compile_fx as inductor
from torch._dynamo.output_graph import OutputGraph
from torch.utils import _pytree as pytree

from patchgate.probe.compile.capture import Build, no_caches

# Instances beside the first; each is compiled on its own, as the layers of a model are.
INSTANCES = 3

Counts = dict[str, int]


def count(build: Build, *, dtype: torch.dtype, dynamic: bool) -> dict[str, dict[str, Counts]]:
    """Way of calling -> step -> graphs compiled in it, and how many of them had symbolic sizes.

    "uncompiled" calls the workload as it is: only what a patch compiles by itself is counted there.
    """
    torch.set_num_threads(1)
    graphs: list[bool] = []
    compiling = OutputGraph.call_user_compiler

    def counted(self: OutputGraph, module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        graphs.append(is_symbolic(module))
        return compiling(self, module, *args, **kwargs)

    ways = {"uncompiled": _as_it_is, "compiled": lambda made: torch.compile(made, backend="eager", dynamic=dynamic)}
    found = {}
    with (
        torch.no_grad(),
        no_caches(),
        mock.patch.object(OutputGraph, "call_user_compiler", counted),
        mock.patch.object(inductor, "compile_fx", lambda module, *args, **kwargs: module.forward),
    ):
        for way, compiled in ways.items():
            torch._dynamo.reset()
            found[way] = _steps(build, dtype, compiled, graphs)
    return found


def _as_it_is(made: Any) -> Any:
    return made


def _steps(build: Build, dtype: torch.dtype, compiled: Any, graphs: list[bool]) -> dict[str, Counts]:
    def made() -> tuple[Any, tuple[Any, ...]]:
        torch.manual_seed(0)
        function, args = build(torch.device("cpu"), dtype, "small")
        return compiled(function), args

    found: dict[str, Counts] = {}

    def told(step: str, *calls: tuple[Any, tuple[Any, ...]]) -> None:
        graphs.clear()
        for function, args in calls:
            function(*args)
        found[step] = {"graphs": len(graphs), "symbolic": sum(graphs)}

    first, args = made()
    told("first call", (first, args))
    told("second call", (first, args))
    others = [made() for _ in range(INSTANCES)]
    told("other instances", *others)
    # One of them, not the first: whether instances share what was compiled shows here too.
    told("another size", (others[-1][0], doubled(args)))
    return found


def doubled(args: tuple[Any, ...]) -> Any:
    """The inputs with twice the leading size, wherever it is that of the first tensor."""
    tensors = [leaf for leaf in pytree.tree_leaves(args) if torch.is_tensor(leaf) and leaf.dim()]
    leading = tensors[0].shape[0] if tensors else 0

    def twice(leaf: Any) -> Any:
        has_it = torch.is_tensor(leaf) and leaf.dim() and leaf.shape[0] == leading
        return torch.cat([leaf, leaf]) if has_it else leaf

    return pytree.tree_map(twice, args)


def is_symbolic(module: torch.fx.GraphModule) -> bool:
    """Whether an input of the graph has a size that is not a number."""
    values = [node.meta.get("example_value") for node in module.graph.nodes if node.op == "placeholder"]
    sizes = [size for value in values for size in (value.shape if torch.is_tensor(value) else [value])]
    return any(isinstance(size, torch.SymInt) for size in sizes)
