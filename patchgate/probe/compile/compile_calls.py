"""Counts the Python calls of one compile, by module: work that can be compared where seconds cannot.

Decides what is counted and what must be still while it is (garbage collector,
caches, compile threads). It is blind to C++, and says nothing of seconds.
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
from patchgate.probe.simulate.fake_device import Profile

# Compiles before the one that counts: the first fills tables that every later one finds filled.
WARM_UPS = 1


def count_calls(build: Build, **how: Any) -> dict[str, int]:
    """Module -> Python calls into it during one compile, our own left out; `how` as for `warmed_up`."""
    return _by_module(_counted(warmed_up(build, **how)))


def warmed_up(build: Build, *, dtype: torch.dtype, dynamic: bool, profile: Profile) -> Callable[[], None]:
    """Compiles once more, each time that it is called."""

    def compile_once() -> None:
        torch._dynamo.reset()
        # Watching the compiler and reading the code that came out is our work, not the compiler's.
        with (
            mock.patch.object(capture, "watching", lambda seen: contextlib.nullcontext()),
            mock.patch.object(capture, "read_graph", lambda graph, source: None),
        ):
            capture.capture(build, dtype=dtype, dynamic=dynamic, profile=profile)

    for _ in range(WARM_UPS):
        compile_once()
    return compile_once


def _counted(work: Callable[[], None]) -> Counter[CodeType]:
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
    found: Counter[str] = Counter()
    for code, count in calls.items():
        # Code that was made from a text (a compiled graph, a namedtuple) has no module of its own.
        name = names.get(code.co_filename, "generated")
        if not name.startswith(("patchgate.probe", "patchgate_workload")):
            found[name] += count
    return dict(found)
