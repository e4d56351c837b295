"""Records which lines of a patch ran while a workload was compiled, and finds the lines of its
functions.

What Python calls is known by its events. What Dynamo inlines is read, not called: its reader is
watched.
"""

from __future__ import annotations

import tokenize
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any
from unittest import mock

from torch._dynamo.symbolic_convert import InstructionTranslatorBase

from patchgate.probe.patch.coverage import LinesRun, line_events, outcomes, taken
from patchgate.probe.patch.snapshot import Changes, with_wrapped
from patchgate.probe.protocol import Coverage, Functions, ReadPatch, Stage


@contextmanager
def tracing(path: str | None) -> Iterator[Coverage]:
    """Gives what ran of the file `path` in this thread, filled in at the end; nothing without a
    path.
    """
    coverage: Coverage = {"ran": [], "took": []}
    if path is None:
        yield coverage
        return
    ran = LinesRun()
    starts_line = InstructionTranslatorBase.starts_line
    last: dict[int, int] = {}  # of each translator

    def recorded_line(self: Any, line: int) -> None:
        starts_line(self, line)
        if self.f_code.co_filename == path:
            ran.lines.add(line)
            ran.jumps.add((last.get(id(self), 0), line))
            last[id(self)] = line

    with (
        mock.patch.object(InstructionTranslatorBase, "starts_line", recorded_line),
        line_events(path, ran),
    ):
        try:
            yield coverage
        finally:
            coverage["ran"] = sorted(ran.lines)
            coverage["took"] = taken(path, ran.jumps)


def _own_lines(code: CodeType) -> set[int]:
    """The lines of a function's body, without its `def` line and without functions inside it."""
    return {
        line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno
    }


def read_functions(request: ReadPatch, stage: Stage) -> Functions:
    """The functions of the patch, however deeply nested, and their branches; nothing of it is
    run.
    """
    path = request["patch"]
    with tokenize.open(path) as file:
        todo = [compile(file.read(), path, "exec")]
    by_function = {}
    while todo:
        for inner in todo.pop().co_consts:
            if isinstance(inner, CodeType):
                todo.append(inner)
                if not inner.co_name.startswith("<") and _own_lines(inner):
                    by_function[f"{inner.co_name}:{inner.co_firstlineno}"] = sorted(
                        _own_lines(inner)
                    )
    return {"functions": by_function, "outcomes": outcomes(path)}


def replacements(changes: Changes, path: str) -> dict[str, list[int]]:
    """Changed name -> lines of its replacement, for functions written in the patch.

    Also inside torch's wrappers: a registry of lowerings holds a wrapper around the function that
    was registered.
    """
    by_name = {}
    for name, (_, now) in changes.items():
        functions = with_wrapped(getattr(now, "__func__", now))
        codes = [item.__code__ for item in functions if isinstance(item, FunctionType)]
        lines = [
            _own_lines(code) or {code.co_firstlineno} for code in codes if code.co_filename == path
        ]
        if lines:
            by_name[name] = sorted(set().union(*lines))
    return by_name
