"""Which lines of a patch ran while a workload was compiled, and which lines belong to which function.

Decides by Python's own trace events; a function that Dynamo reads instead of
calling counts as run. Refuses to know what should have run.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any
from unittest import mock

from torch._dynamo.symbolic_convert import InstructionTranslatorBase


@contextlib.contextmanager
def traced(path: str | None, ran: set[int]) -> Iterator[None]:
    """Add the lines of the file `path` that run in this thread to `ran`; nothing without a path."""
    if path is None:
        yield
        return
    begin = InstructionTranslatorBase.__init__

    def in_patch(frame: types.FrameType, event: str, argument: Any) -> Any:
        ran.add(frame.f_lineno)
        return in_patch

    def calls(frame: types.FrameType, event: str, argument: Any) -> Any:
        return in_patch if frame.f_code.co_filename == path else None

    def reading(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        if self.f_code.co_filename == path:
            ran.update(own_lines(self.f_code))

    before = sys.gettrace()
    with mock.patch.object(InstructionTranslatorBase, "__init__", reading):
        sys.settrace(calls)
        try:
            yield
        finally:
            sys.settrace(before)


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
    """Changed name -> lines of its replacement, for those that are functions written in the patch."""
    found = {}
    for name, (_, now) in changes.items():
        code = getattr(getattr(now, "__func__", now), "__code__", None)
        if code is not None and code.co_filename == path:
            found[name] = sorted(own_lines(code) or {code.co_firstlineno})
    return found
