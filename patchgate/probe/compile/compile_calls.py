"""Counts the Python calls of one compile by module: a cost that repeats exactly where seconds do not.

The garbage collector, caches and compile threads are off meanwhile. Work in C++ is not seen.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections import Counter
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any
from unittest import mock

import torch

from patchgate.probe.compile import capture
from patchgate.probe.compile.capture import Build
from patchgate.probe.protocol import Profile

# Compiles before the one that counts: the first fills tables that later ones use.
WARM_UPS = 1


def count_calls(build: Build, **options: Any) -> dict[str, int]:
    """Module -> Python calls into it during one compile, our own left out; `options` as for `warm_compile`."""
    return _by_module(_count(warm_compile(build, **options)))


def warm_compile(build: Build, *, dtype: torch.dtype, dynamic: bool, profile: Profile) -> Callable[[], None]:
    """A function that compiles the workload once more each time; it has been called `WARM_UPS` times."""

    def compile_once() -> None:
        torch._dynamo.reset()
        # Tracing the compiler and reading the code that came out is our work, not the compiler's.
        with (
            mock.patch.object(capture, "trace_compile", lambda trace: contextlib.nullcontext()),
            mock.patch.object(capture, "read_graph", lambda graph: None),
        ):
            capture.capture(build, dtype=dtype, dynamic=dynamic, profile=profile)

    for _ in range(WARM_UPS):
        compile_once()
    return compile_once


def _count(work: Callable[[], None]) -> Counter[CodeType]:
    calls: Counter[CodeType] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    gc.collect()
    gc.disable()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def _by_module(calls: Counter[CodeType]) -> dict[str, int]:
    names = {getattr(module, "__file__", None): name for name, module in list(sys.modules.items())}
    counts: Counter[str] = Counter()
    for code, count in calls.items():
        # Code made from a text (a compiled graph, a namedtuple) has no module of its own.
        name = names.get(code.co_filename, "generated")
        if not name.startswith(("patchgate.probe", "patchgate_workload")):
            counts[name] += count
    return dict(counts)
