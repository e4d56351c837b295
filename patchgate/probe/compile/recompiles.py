"""How often Dynamo compiles one workload: at first, again, for other instances, another size and
another state.

Nothing is lowered: a graph runs as it was captured.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
import torch._inductor.compile_fx as inductor
from torch._dynamo.output_graph import OutputGraph

from patchgate.probe.compile.capture import (
    Build,
    change_rows,
    default_dtype,
    no_caches,
    runs_nodes,
)
from patchgate.probe.compile.observe import load_build
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.protocol import Compile, Recompiles, Stage

# Further instances; each is compiled on its own, as the layers of a model are.
INSTANCES = 3


def count_recompiles(request: Compile, stage: Stage) -> Recompiles:
    """Graphs compiled in several calls of several instances of a workload, and those with symbolic
    sizes.

    "uncompiled", the workload is called as it is: only what a patch compiles by itself is counted
    there.
    """
    apply_patch(request, stage)
    stage("compile")
    build, dynamic = load_build(request), request["dynamic"]
    dtype = getattr(torch, request["dtype"])
    torch.set_num_threads(1)
    graphs: list[bool] = []
    call_user_compiler = OutputGraph.call_user_compiler

    def counted(self: OutputGraph, module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        graphs.append(_is_symbolic(module))
        return call_user_compiler(self, module, *args, **kwargs)

    ways = {
        "uncompiled": lambda f: f,
        # As users call it: a patch of torch.compile may make a backend for each call.
        "compiled": lambda f: torch.compile(f, dynamic=dynamic),
    }
    counts = {}
    with (
        torch.no_grad(),
        no_caches(),
        mock.patch.object(OutputGraph, "call_user_compiler", counted),
        mock.patch.object(inductor, "compile_fx", runs_nodes),
    ):
        for way, compile_with in ways.items():
            torch._dynamo.reset()
            counts[way] = _counts_by_step(build, dtype, compile_with, graphs)
    return {"counts": counts}


def _counts_by_step(
    build: Build, dtype: torch.dtype, compile_with: Any, graphs: list[bool]
) -> dict[str, dict[str, int]]:
    def instance() -> tuple[Any, tuple[Any, ...]]:
        torch.manual_seed(0)
        function, args = build(torch.device("cpu"), dtype, "small")
        return compile_with(function), args

    counts: dict[str, dict[str, int]] = {}

    def count(step: str, *calls: tuple[Any, tuple[Any, ...]]) -> None:
        graphs.clear()
        for function, args in calls:
            function(*args)
        counts[step] = {"graphs": len(graphs), "symbolic": sum(graphs)}

    first, args = instance()
    count("first call", (first, args))
    count("second call", (first, args))
    others = [instance() for _ in range(INSTANCES)]
    count("other instances", *others)
    # One of them, not the first: whether instances share what was compiled shows here too.
    count("another size", (others[-1][0], change_rows(lambda rows: torch.cat([rows, rows]), args)))
    # The same lines may give another dtype. Only the guard on the state of the process sees it:
    # under autocast the guards on tensors fail too.
    with default_dtype(torch.float64):
        count("another state", (first, args))
    return counts


def _is_symbolic(module: torch.fx.GraphModule) -> bool:
    """True if an input of the graph has a symbolic size."""
    sizes: list[Any] = []
    for node in module.graph.find_nodes(op="placeholder"):
        value = node.meta.get("example_value")
        sizes += value.shape if torch.is_tensor(value) else [value]
    return any(isinstance(size, torch.SymInt) for size in sizes)
