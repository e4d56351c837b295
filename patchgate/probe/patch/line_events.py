"""Which lines of one file run in this process, and the jumps between them within a frame.

Needs no torch.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from patchgate.probe.patch.branch_coverage import Jump


@dataclass
class LinesRun:
    """Lines of the patch that ran, and the jumps from one to the next within a frame."""

    lines: set[int] = field(default_factory=set)
    jumps: set[Jump] = field(default_factory=set)


def line_events(path: str, ran: LinesRun) -> contextlib.AbstractContextManager[None]:
    """Within it, what runs of the file is added to `ran`."""
    return _monitored(path, ran) if sys.version_info >= (3, 12) else traced(path, ran)


@contextlib.contextmanager
def traced(path: str, ran: LinesRun) -> Iterator[None]:
    """By trace events, before Python 3.12: they double the time of everything that runs in this
    thread.
    """

    def trace_call(frame: types.FrameType, event: str, argument: Any) -> Any:
        return _frame_tracer(ran) if frame.f_code.co_filename == path else None

    before = sys.gettrace()
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


@contextlib.contextmanager
def _monitored(path: str, ran: LinesRun) -> Iterator[None]:
    """By `sys.monitoring`, which only the code of the file pays for."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]  # since Python 3.12
    events = monitoring.events
    inside = events.LINE | events.PY_RETURN | events.PY_YIELD
    last: dict[int, int] = {}  # of each frame

    def start(code: types.CodeType, offset: int) -> Any:
        if code.co_filename != path:
            return monitoring.DISABLE
        last.pop(id(sys._getframe(1)), None)
        monitoring.set_local_events(tool, code, inside)
        return None

    def line(code: types.CodeType, number: int) -> None:
        frame = id(sys._getframe(1))
        ran.lines.add(number)
        if frame in last:
            ran.jumps.add((last[frame], number))
        last[frame] = number

    def leave(code: types.CodeType, offset: int, value: object) -> None:
        before = last.pop(id(sys._getframe(1)), None)
        if before is not None:
            ran.jumps.add((before, 0))

    def fail(code: types.CodeType, offset: int, error: BaseException) -> None:
        if code.co_filename == path:
            last.pop(
                id(sys._getframe(1)), None
            )  # where it goes from here is no outcome of a condition

    callbacks = {
        events.PY_START: start,
        events.PY_RESUME: start,
        events.LINE: line,
        events.PY_RETURN: leave,
        events.PY_YIELD: leave,
        events.RAISE: fail,
    }
    tool = next(number for number in range(6) if monitoring.get_tool(number) is None)
    monitoring.use_tool_id(tool, "patchgate")
    for event, callback in callbacks.items():
        monitoring.register_callback(tool, event, callback)
    monitoring.set_events(tool, events.PY_START | events.PY_RESUME | events.RAISE)
    try:
        yield
    finally:
        monitoring.set_events(tool, 0)
        for event in callbacks:
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
