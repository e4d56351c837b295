"""Counts the Python calls of one compile by module. Unlike seconds, the counts repeat exactly.

The garbage collector, caches and compile threads are off. Work in C++ is not counted.
"""

from __future__ import annotations

import cProfile
import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from types import CodeType
from unittest import mock

import torch
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass

from patchgate.probe.compile import capture
from patchgate.probe.compile.observe import environment, load_build
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.protocol import Calls, CountCalls, Stage

# CPU seconds of other threads and processes that are ignored, because the clock moves in steps.
_SECONDS_ELSEWHERE = 0.01
# The number of compiles before the counted one. The first fills tables that later ones use.
WARM_UPS = 1


def count_calls(request: CountCalls, stage: Stage) -> Calls:
    """Count the Python calls of one compile by module, without the calls of the probe.

    Before that the workload is compiled `WARM_UPS` times.
    """
    apply_patch(request, stage)
    stage("compile")
    build, dtype = load_build(request), getattr(torch, request["dtype"])

    def compile_once() -> None:
        torch._dynamo.reset()
        # Tracing the compiler and reading its graphs are the probe's work and are left out.
        with (
            mock.patch.object(capture, "trace_compile", lambda trace: nullcontext()),
            mock.patch.object(capture, "read_graph", lambda graph: None),
        ):
            capture.capture(
                build, dtype=dtype, dynamic=request["dynamic"], profile=request["profile"]
            )
        # Ask every pass in the options for its `uuid`. The caches, which are off here, do this for
        # each graph.
        for value in config.shallow_copy_dict().values():
            if isinstance(value, CustomGraphPass):
                value.uuid()

    for _ in range(WARM_UPS):
        compile_once()
    calls, missing = _count(compile_once)
    return {"calls": _by_module(calls), "missing": missing, "environment": environment()}


def _count(work: Callable[[], None]) -> tuple[Counter[CodeType], str]:
    """Return calls by code object, and why some calls may be missing (empty if none are missing).

    Python's own profiler is used because its table is in C, so that the profiled code cannot remove
    an entry.
    """
    on = False

    def refuse(event: str, arguments: object) -> None:
        if on and event == "sys.setprofile":
            raise RuntimeError("calls are being counted")

    sys.addaudithook(refuse)
    profile = cProfile.Profile(builtins=False, subcalls=False)
    gc.collect()
    gc.disable()
    elsewhere = _seconds_elsewhere()
    profile.enable()
    on = True
    try:
        work()
    finally:
        on = False
        profile.disable()
        gc.enable()
    elsewhere = _seconds_elsewhere() - elsewhere
    calls: Counter[CodeType] = Counter()
    for entry in profile.getstats():
        if isinstance(entry.code, CodeType):
            # Two methods made from the same text have equal code objects, and their entries come in
            # the order of their addresses; so their calls are added.
            calls[entry.code] += entry.callcount
    missing = (
        f"other threads and processes computed for {elsewhere:.2f} s meanwhile, whose calls "
        "are not counted"
    )
    return calls, missing if elsewhere > _SECONDS_ELSEWHERE else ""


def _seconds_elsewhere() -> float:
    """Return the CPU time of all other threads and of child processes that have ended."""
    times = os.times()
    return time.process_time() - time.thread_time() + times.children_user + times.children_system


def _by_module(calls: Counter[CodeType]) -> dict[str, int]:
    names = {getattr(module, "__file__", None): name for name, module in list(sys.modules.items())}
    counts: Counter[str] = Counter()
    for code, count in calls.items():
        # Code that was made from text (a compiled graph, a namedtuple) has no module.
        name = names.get(code.co_filename, "generated")
        if not name.startswith(("patchgate.probe", "model_module")):
            counts[name] += count
    return dict(counts)
