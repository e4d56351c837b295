"""Which lines of a patch ran while a workload was compiled, and which lines belong to which function.

Decides by Python's own trace events, and by what Dynamo reads instead of calling it.
Refuses to know what should have run.
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
from patchgate.probe.patch.snapshot import functions_inside


@dataclass
class Ran:
    """Lines of the patch that ran, and the jumps from one to the next within a frame."""

    lines: set[int] = field(default_factory=set)
    jumps: set[Jump] = field(default_factory=set)

    def told(self, path: str | None) -> dict[str, Any]:
        """As an answer has it."""
        return {"ran": sorted(self.lines), "took": taken(path, self.jumps) if path else []}


@contextlib.contextmanager
def traced(path: str | None, ran: Ran) -> Iterator[None]:
    """Add what runs of the file `path` in this thread to `ran`; nothing without a path."""
    if path is None:
        yield
        return
    starts_line = InstructionTranslatorBase.starts_line
    read: dict[int, int] = {}

    def calls(frame: types.FrameType, event: str, argument: Any) -> Any:
        return _following(ran) if frame.f_code.co_filename == path else None

    def reading(self: Any, line: int) -> None:
        starts_line(self, line)
        if self.f_code.co_filename == path:
            ran.lines.add(line)
            ran.jumps.add((read.get(id(self), 0), line))
            read[id(self)] = line

    before = sys.gettrace()
    with mock.patch.object(InstructionTranslatorBase, "starts_line", reading):
        sys.settrace(calls)
        try:
            yield
        finally:
            sys.settrace(before)


def _following(ran: Ran) -> Callable[..., Any]:
    """What hears of one frame."""
    last: int | None = None

    def hear(frame: types.FrameType, event: str, argument: Any) -> Any:
        nonlocal last
        if event == "exception":
            last = None  # where it goes from here is no outcome of a condition
            return hear
        ran.lines.add(frame.f_lineno)
        if last is not None and event in ("line", "return"):
            ran.jumps.add((last, frame.f_lineno if event == "line" else 0))
        last = frame.f_lineno if event == "line" else last
        return hear

    return hear


def own_lines(code: types.CodeType) -> set[int]:
    """The lines of a function's body, without its `def` line and without functions inside it."""
    return {line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno}


def functions(path: str) -> dict[str, list[int]]:
    """Name -> lines for every function of the file, however deeply nested, as `name:first line`."""
    with open(path, encoding="utf-8") as file:
        todo = [compile(file.read(), path, "exec")]
    found = {}
    while todo:
        for inner in todo.pop().co_consts:
            if isinstance(inner, types.CodeType):
                todo.append(inner)
                if not inner.co_name.startswith("<") and own_lines(inner):
                    found[f"{inner.co_name}:{inner.co_firstlineno}"] = sorted(own_lines(inner))
    return found


def replacements(changes: dict[str, tuple[Any, Any]], path: str) -> dict[str, list[int]]:
    """Changed name -> lines of its replacement, for functions written in the patch, however torch wraps them.

    A lowering is kept in its registry as a wrapper of torch's around the function that was registered.
    """
    found = {}
    for name, (_, now) in changes.items():
        inside = functions_inside(getattr(now, "__func__", now))
        codes = [item.__code__ for item in inside if isinstance(item, types.FunctionType)]
        ours = [own_lines(code) or {code.co_firstlineno} for code in codes if code.co_filename == path]
        if ours:
            found[name] = sorted(set().union(*ours))
    return found
