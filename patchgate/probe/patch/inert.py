"""Shows that running a patch does nothing: each statement that runs only imports, defines, compares or reads a version.

What is not known to be harmless counts as an effect. The file is run up to the first such statement, which does not
run: nothing that a patch could use against the judge has run when the answer is there.
"""

from __future__ import annotations

import ast
import tokenize
import types
from collections.abc import Callable
from typing import Any, NoReturn

from patchgate.probe.patch.branch_coverage import header_lines
from patchgate.probe.patch.harmless import Names


def tracer(statements: Statements, stop: Callable[[str], NoReturn]) -> Callable[..., Any]:
    """For `sys.settrace`: calls `stop` before the first statement in doubt runs."""

    def trace_line(frame: types.FrameType, event: str, argument: Any) -> Any:
        doubt = statements.doubts.get(frame.f_lineno)
        if doubt:
            stop(doubt)
        return trace_line

    def trace_call(frame: types.FrameType, event: str, argument: Any) -> Any:
        return trace_line if frame.f_code.co_filename == statements.path else None

    return trace_call


class Statements:
    """The statements of a file, and why one of them may have an effect."""

    def __init__(self, path: str) -> None:
        self.path = path
        with tokenize.open(path) as file:
            tree = ast.parse(file.read())
        #: Line -> why it may have an effect, as `line 12: ...`; known before a line runs.
        self.doubts: dict[int, str] = {}
        names = Names(tree)
        for statement in ast.walk(tree):
            if isinstance(statement, (ast.stmt, ast.excepthandler)):
                what = next(names.doubts(statement), "")
                for line in header_lines(statement) if what else ():
                    self.doubts.setdefault(line, f"line {statement.lineno}: {what}")
