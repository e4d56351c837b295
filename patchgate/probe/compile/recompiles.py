"""Counts how often Dynamo compiles one workload when it is called again, for other instances, sizes
and states, and for a script of sizes. Reasons, guards and fallbacks to eager mode are recorded too.

Workloads are small and on the CPU. Code is generated only for Inductor's guards, and never built.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

import torch
import torch._dynamo.config as dynamo_config
import torch._inductor.compile_fx as inductor
from torch import Tensor
from torch._dynamo import convert_frame
from torch._dynamo import utils as dynamo_utils
from torch._dynamo.output_graph import OutputGraph

from patchgate.probe.compile.capture import (
    change_rows,
    default_dtype,
    no_caches,
    record_lowering,
    runs_nodes,
)
from patchgate.probe.compile.compiler_facts import Captured, CompileTrace, trace_compile
from patchgate.probe.compile.observe import compile_before, environment, load_build
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.patch.coverage import covering
from patchgate.probe.protocol import (
    Compile,
    Facts,
    Function,
    Observe,
    Recompiles,
    Request,
    ShapeFacts,
    Stage,
)
from patchgate.probe.simulate.device_context import device_context

_Instance = tuple[Function, tuple[Any, ...]]
# The number of further instances. Each is compiled separately, like the layers of a model.
INSTANCES = 3


def count_recompiles(request: Compile, stage: Stage) -> Recompiles:
    """Count the graphs that are compiled in several calls of several instances of a workload, and
    the graphs among them with symbolic sizes.

    Under "uncompiled" the workload is called without torch.compile. This counts the graphs that a
    patch compiles itself.
    """
    apply_patch(request, stage)
    stage("compile")
    make = _instances(request)
    graphs: list[bool] = []
    call_user_compiler = OutputGraph.call_user_compiler

    def counted(self: OutputGraph, module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        graphs.append(_is_symbolic(module))
        return call_user_compiler(self, module, *args, **kwargs)

    ways: dict[str, Function] = {
        "uncompiled": lambda f: f,
        # Called as by users, because a patch of torch.compile may make a backend for each call.
        "compiled": lambda f: torch.compile(f, dynamic=request["dynamic"]),
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
            counts[way] = _counts_by_step(make, compile_with, graphs)
    return {"counts": counts}


def _instances(request: Request) -> Callable[[], _Instance]:
    """Return a function that makes a small instance of the workload on the CPU, with inputs."""
    build, dtype = load_build(request), getattr(torch, request["dtype"])
    torch.set_num_threads(1)

    def make() -> _Instance:
        torch.manual_seed(0)
        return build(torch.device("cpu"), dtype, "small")

    return make


def _counts_by_step(
    make: Callable[[], _Instance], compile_with: Function, graphs: list[bool]
) -> dict[str, dict[str, int]]:
    def instance() -> _Instance:
        function, args = make()
        return compile_with(function), args

    counts: dict[str, dict[str, int]] = {}

    def count(step: str, *calls: _Instance) -> None:
        graphs.clear()
        for function, args in calls:
            function(*args)
        counts[step] = {"graphs": len(graphs), "symbolic": sum(graphs)}

    first, args = instance()
    count("first call", (first, args))
    count("second call", (first, args))
    others = [instance() for _ in range(INSTANCES)]
    count("other instances", *others)
    # An instance that is not the first, to show if instances share compiled code.
    count("another size", (others[-1][0], change_rows(lambda rows: torch.cat([rows, rows]), args)))
    # With another default dtype the same code may give other dtypes. Only the guard on the state of
    # the process fails then; under autocast, guards on tensors would fail too.
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


# The size of the first dimension in each call: one size twice, three other sizes, and 1, for which
# torch specializes.
SCRIPT = (8, 8, 12, 16, 3, 1)
# The recompile limit; torch's default is 8. Static shapes reach this lower limit, which shows that
# reaching a limit is counted; the other modes stay below it.
LIMIT = 4
# Name of a mode -> the argument `dynamic` of torch.compile.
MODES: dict[str, bool | None] = {"static": False, "automatic": None, "dynamic": True}
_SOURCE_LINE = re.compile(r"([\w.-]+\.py:\d+)")
_ADDRESS = re.compile(r"0x[0-9a-f]+|\b\d{9,}\b")


@dataclass(kw_only=True)
class ScriptRun:
    """Dynamo's work in one run of the script."""

    trace: CompileTrace = field(default_factory=CompileTrace)
    compiled: list[int] = field(default_factory=list)  #: number of frames that each call compiled
    reasons: list[str] = field(default_factory=list)  #: the reason for each recompile
    eager: int = 0  #: number of calls that ran no compiled graph
    limit: int = 0  #: how often the recompile limit was reached


def observe_shapes(request: Observe, stage: Stage) -> ShapeFacts:
    """Return the facts of a workload that is called with the script of sizes in every mode."""
    compile_before(request, stage)
    apply_patch(request, stage)
    stage("shapes")
    facts: Facts = {}
    with covering(request) as coverage:
        make = _instances(request)
        with (
            torch.no_grad(),
            no_caches(),
            device_context(request["profile"]),
            dynamo_config.patch(recompile_limit=LIMIT),
        ):
            for mode, dynamic in MODES.items():
                facts |= _facts(mode, _run_script(make, dynamic))
    return {"facts": facts, "environment": environment(), **coverage}


def _facts(mode: str, run: ScriptRun) -> Facts:
    facts: Facts = {
        f"shapes.compiled.{mode}": run.compiled,
        f"shapes.breaks.{mode}": len(run.trace.breaks),
        f"shapes.eager.{mode}": run.eager,
        f"shapes.limit.{mode}": run.limit,
    }
    for name, texts in (("reason", run.reasons), ("break", list(dict.fromkeys(run.trace.breaks)))):
        facts |= {f"shapes.{name}.{mode}.{index}": text for index, text in enumerate(texts, 1)}
    guards = run.trace.counts["dynamo.guard"] + Counter(SYMBOLIC=run.trace.symbolic_guards)
    return facts | {f"shapes.guard.{mode}.{kind}": count for kind, count in guards.items()}


def _run_script(make: Callable[[], _Instance], dynamic: bool | None) -> ScriptRun:
    run, graph_runs = ScriptRun(), Counter[str]()
    exceeds = convert_frame.exceeds_recompile_limit

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Function:
        """Lower a graph to get its guards (static sizes have none), and run the captured graph."""
        if dynamic is not False:
            inductor.compile_fx(module, inputs)
        run_graph = runs_nodes(module)

        def counted(*args: Any) -> Any:
            graph_runs["graph"] += 1
            return run_graph(*args)

        return counted

    def counted_limit(*args: Any, **kwargs: Any) -> Any:
        result = exceeds(*args, **kwargs)
        run.limit += bool(result[0])
        return result

    torch._dynamo.reset()
    function, args = make()
    compiled = torch.compile(function, dynamic=dynamic, backend=backend)
    with (
        trace_compile(run.trace),
        mock.patch.object(convert_frame, "exceeds_recompile_limit", counted_limit),
        record_lowering(Captured(), run=False),
    ):
        for size in SCRIPT:
            dynamo_utils.clear_compilation_metrics()
            graph_runs.clear()
            compiled(*change_rows(partial(_repeated, size), args))
            run.eager += not graph_runs
            frames = dynamo_utils.get_compilation_metrics()
            done = [frame for frame in frames if not frame.fail_reason]
            run.compiled.append(len(done))
            reasons = (frame.recompile_reason for frame in done)
            run.reasons += [_reason(reason) for reason in reasons if reason]
    return run


def _repeated(size: int, rows: Tensor) -> Tensor:
    """Return `size` rows, which repeat the given rows."""
    return rows[torch.arange(size) % len(rows)].clone()


def _reason(text: str) -> str:
    """Shorten torch's reason for a recompile to the guard that failed and the user's line, without
    numbers that depend on the process.
    """
    guard, _, comment = text.splitlines()[0].partition("  # ")
    guard = _ADDRESS.sub("N", re.sub(r"^\d+/\d+: ", "", guard))
    line = _SOURCE_LINE.search(comment)
    return f"{guard} ({line[1]})" if line else guard
