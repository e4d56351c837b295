"""Records which lines of a patch ran while a workload was compiled, and finds the lines of its functions.

What Python calls is known by trace events. What Dynamo inlines is read, not called: its reader is watched.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from torch._dynamo.symbolic_convert import InstructionTranslatorBase

from patchgate.probe.patch.branch_coverage import Jump, taken
from patchgate.probe.patch.snapshot import Changes, with_wrapped
from patchgate.probe.protocol import Coverage


@dataclass
class LinesRun:
    """Lines of the patch that ran, and the jumps from one to the next within a frame."""

    lines: set[int] = field(default_factory=set)
    jumps: set[Jump] = field(default_factory=set)

    def coverage(self, path: str | None) -> Coverage:
        """The part of an answer; `path` is the patch's."""
        return {"ran": sorted(self.lines), "took": taken(path, self.jumps) if path else []}


@contextlib.contextmanager
def tracing(path: str | None, ran: LinesRun) -> Iterator[None]:
    """Add to `ran` what runs of the file `path` in this thread; nothing without a path."""
    if path is None:
        yield
        return
    starts_line = InstructionTranslatorBase.starts_line
    last: dict[int, int] = {}  # of each translator

    def trace_call(frame: types.FrameType, event: str, argument: Any) -> Any:
        return _frame_tracer(ran) if frame.f_code.co_filename == path else None

    def recorded_line(self: Any, line: int) -> None:
        starts_line(self, line)
        if self.f_code.co_filename == path:
            ran.lines.add(line)
            ran.jumps.add((last.get(id(self), 0), line))
            last[id(self)] = line

    before = sys.gettrace()
    with mock.patch.object(InstructionTranslatorBase, "starts_line", recorded_line):
        sys.settrace(trace_call)
        try:
            yield
        finally:
            sys.settrace(before)


def _frame_tracer(ran: LinesRun) -> Callable[..., Any]:
    """The trace function of one frame."""
    last: int | None = None

    def trace(frame: types.FrameType, event: str, argument: Any) -> Any:
        nonlocal last
        if event == "exception":
            last = None  # where it goes from here is no outcome of a condition
            return trace
        ran.lines.add(frame.f_lineno)
        if last is not None and event in ("line", "return"):
            ran.jumps.add((last, frame.f_lineno if event == "line" else 0))
        last = frame.f_lineno if event == "line" else last
        return trace

    return trace


def _own_lines(code: types.CodeType) -> set[int]:
    """The lines of a function's body, without its `def` line and without functions inside it."""
    return {line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno}


def functions(path: str) -> dict[str, list[int]]:
    """Name -> lines for every function of the file, however deeply nested, as `name:first line`."""
    with open(path, encoding="utf-8") as file:
        todo = [compile(file.read(), path, "exec")]
    by_function = {}
    while todo:
        for inner in todo.pop().co_consts:
            if isinstance(inner, types.CodeType):
                todo.append(inner)
                if not inner.co_name.startswith("<") and _own_lines(inner):
                    by_function[f"{inner.co_name}:{inner.co_firstlineno}"] = sorted(_own_lines(inner))
    return by_function


def replacements(changes: Changes, path: str) -> dict[str, list[int]]:
    """Changed name -> lines of its replacement, for functions written in the patch.

    Also inside torch's wrappers: a registry of lowerings holds a wrapper around the function that was registered.
    """
    by_name = {}
    for name, (_, now) in changes.items():
        functions = with_wrapped(getattr(now, "__func__", now))
        codes = [item.__code__ for item in functions if isinstance(item, types.FunctionType)]
        lines = [_own_lines(code) or {code.co_firstlineno} for code in codes if code.co_filename == path]
        if lines:
            by_name[name] = sorted(set().union(*lines))
    return by_name
