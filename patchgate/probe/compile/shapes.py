"""Calls one workload with a script of sizes, and counts compiles, their reasons, guards and
fallbacks to eager.

On the CPU, small. Code is generated for Inductor's guards, and never built.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

import torch
import torch._dynamo.config as dynamo_config
from torch._dynamo import convert_frame
from torch._dynamo import utils as dynamo_utils
from torch._inductor import compile_fx as inductor

from patchgate.probe.compile.capture import (
    Build,
    Captured,
    change_rows,
    no_caches,
    record_lowering,
    runs_nodes,
)
from patchgate.probe.compile.instrumentation import CompileTrace, trace_compile
from patchgate.probe.compile.observe import (
    compile_before,
    environment,
    load_build,
    patch_to_cover,
)
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.patch.line_coverage import tracing
from patchgate.probe.protocol import Facts, Observe, ShapeFacts, Stage
from patchgate.probe.simulate.device_context import device_context

# Sizes of the first dimension, call by call: one twice, three others, and 1, which torch
# specializes.
SCRIPT = (8, 8, 12, 16, 3, 1)
# Torch's own limit is 8. Static shapes reach this one, which shows that reaching it is counted; the
# others do not.
LIMIT = 4
# Name -> `dynamic` of torch.compile.
MODES: dict[str, bool | None] = {"static": False, "automatic": None, "dynamic": True}
_SOURCE_LINE = re.compile(r"([\w.-]+\.py:\d+)")
_ADDRESS = re.compile(r"0x[0-9a-f]+|\b\d{9,}\b")


@dataclass(kw_only=True)
class ScriptRun:
    """The work of Dynamo in one run of the script."""

    trace: CompileTrace = field(default_factory=CompileTrace)
    compiled: list[int] = field(default_factory=list)  #: frames that each call compiled
    reasons: list[str] = field(default_factory=list)  #: of each recompile
    eager: int = 0  #: calls that ran no compiled graph
    limit: int = 0  #: times that the recompile limit was reached


def observe_shapes(request: Observe, stage: Stage) -> ShapeFacts:
    """Facts of a workload called with the script of sizes under every mode."""
    compile_before(request, stage)
    apply_patch(request, stage)
    stage("shapes")
    dtype = getattr(torch, request["dtype"])
    facts: Facts = {}
    with tracing(patch_to_cover(request)) as coverage:
        build = load_build(request)
        torch.set_num_threads(1)
        with (
            torch.no_grad(),
            no_caches(),
            device_context(request["profile"]),
            dynamo_config.patch(recompile_limit=LIMIT),
        ):
            for mode, dynamic in MODES.items():
                facts |= _facts(mode, _run_script(build, dtype, dynamic))
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
    guards = run.trace.guards + Counter(SYMBOLIC=run.trace.symbolic_guards)
    return facts | {f"shapes.guard.{mode}.{kind}": count for kind, count in guards.items()}


def _run_script(build: Build, dtype: torch.dtype, dynamic: bool | None) -> ScriptRun:
    run, graph_runs = ScriptRun(), Counter[str]()
    torch._dynamo.reset()
    torch.manual_seed(0)
    function, args = build(torch.device("cpu"), dtype, "small")
    compiled = torch.compile(
        function, dynamic=dynamic, backend=_backend(graph_runs, lowers=dynamic is not False)
    )
    with (
        trace_compile(run.trace),
        _count_limit_reached(run),
        record_lowering(Captured(), run=False),
    ):
        for size in SCRIPT:
            dynamo_utils.clear_compilation_metrics()
            graph_runs.clear()
            compiled(*change_rows(partial(_repeated, size), args))
            run.eager += not graph_runs
            frames = [
                frame for frame in dynamo_utils.get_compilation_metrics() if not frame.fail_reason
            ]
            run.compiled.append(len(frames))
            run.reasons += [
                _reason(frame.recompile_reason) for frame in frames if frame.recompile_reason
            ]
    return run


def _backend(graph_runs: Counter[str], *, lowers: bool) -> Callable[..., Any]:
    """Lowers a graph for its guards (static sizes have none), and runs it as it was captured."""

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        if lowers:
            inductor.compile_fx(module, inputs)

        run_graph = runs_nodes(module)

        def run(*args: Any) -> Any:
            graph_runs["graph"] += 1
            return run_graph(*args)

        return run

    return backend


@contextmanager
def _count_limit_reached(run: ScriptRun) -> Iterator[None]:
    exceeds = convert_frame.exceeds_recompile_limit

    def counted(*args: Any, **kwargs: Any) -> Any:
        result = exceeds(*args, **kwargs)
        run.limit += bool(result[0])
        return result

    with mock.patch.object(convert_frame, "exceeds_recompile_limit", counted):
        yield


def _repeated(size: int, rows: torch.Tensor) -> torch.Tensor:
    """As many rows: those that there are, again and again."""
    return rows[torch.arange(size) % len(rows)].clone()


def _reason(text: str) -> str:
    """Torch's reason for a recompile: the guard that failed and the user's line, without what
    differs by process.
    """
    guard, _, comment = text.splitlines()[0].partition("  # ")
    guard = _ADDRESS.sub("N", re.sub(r"^\d+/\d+: ", "", guard))
    line = _SOURCE_LINE.search(comment)
    return f"{guard} ({line[1]})" if line else guard
