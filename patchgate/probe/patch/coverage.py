"""Records which lines of one file run, the jumps between them within a frame, and the outcomes of
conditions and loops that the jumps show.

A condition or loop counts only if its body starts on a line below its test, because only lines
show what ran.
"""

from __future__ import annotations

import ast
import sys
import tokenize
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType
from typing import Any
from unittest import mock

from patchgate.probe.patch.original_calls import (
    OriginalCalls,
    callers_of,
    find_originals,
    inlined_by,
)
from patchgate.probe.protocol import (
    Coverage,
    Function,
    Functions,
    Outcome,
    ReadPatch,
    Request,
    Stage,
)

#: A line, and the next line that ran in the same frame; 0 stands for the end of the frame.
Jump = tuple[int, int]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Kind -> outcome when the body runs, and when it does not.
_WORDS = {"if": ("true", "false"), "loop": ("entered", "left")}


@dataclass
class LinesRun:
    """Lines of the patch that ran, the jumps from one to the next within a frame, and the calls of
    functions that the patch has replaced.
    """

    lines: set[int] = field(default_factory=set)
    jumps: set[Jump] = field(default_factory=set)
    calls: OriginalCalls = field(default_factory=OriginalCalls)


def line_events(path: str, ran: LinesRun) -> AbstractContextManager[None]:
    """Add each line of the file that runs to `ran`, until the context ends."""
    return _monitored(path, ran) if sys.version_info >= (3, 12) else traced(path, ran)


@contextmanager
def traced(path: str, ran: LinesRun) -> Iterator[None]:
    """Record trace events, for Python before 3.12. They double the time of everything that runs in
    this thread.
    """

    def trace_call(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code  # once, because reading it runs the audit hooks
        if id(code) in ran.calls.names:
            ran.calls.note(code, callers_of(frame))
        return _frame_tracer(ran) if code.co_filename == path else None

    before = sys.gettrace()
    sys.settrace(trace_call)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def untraced() -> Iterator[None]:
    """Pause trace events until the context ends; `sys.monitoring`, which costs little, goes on."""
    before = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(before)


def _frame_tracer(ran: LinesRun) -> Function:
    """The trace function of one frame."""
    last: int | None = None

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal last
        if event == "exception":
            last = None  # the next line is no outcome of a condition
            return trace
        ran.lines.add(frame.f_lineno)
        if last is not None and event in ("line", "return"):
            ran.jumps.add((last, frame.f_lineno if event == "line" else 0))
        last = frame.f_lineno if event == "line" else last
        return trace

    return trace


@contextmanager
def _monitored(path: str, ran: LinesRun) -> Iterator[None]:
    """Record events of `sys.monitoring`, which slow down only the code of the file."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]  # since Python 3.12
    events = monitoring.events
    inside = events.LINE | events.PY_RETURN | events.PY_YIELD
    last: dict[int, int] = {}  # last line of each frame

    def start(code: CodeType, offset: int) -> Any:
        if id(code) in ran.calls.names:
            ran.calls.note(code, callers_of(sys._getframe(1)))
            return None
        if code.co_filename != path:
            return monitoring.DISABLE
        last.pop(id(sys._getframe(1)), None)
        monitoring.set_local_events(tool, code, inside)
        return None

    def line(code: CodeType, number: int) -> None:
        frame = id(sys._getframe(1))
        ran.lines.add(number)
        if frame in last:
            ran.jumps.add((last[frame], number))
        last[frame] = number

    def leave(code: CodeType, offset: int, value: object) -> None:
        before = last.pop(id(sys._getframe(1)), None)
        if before is not None:
            ran.jumps.add((before, 0))

    def fail(code: CodeType, offset: int, error: BaseException) -> None:
        # The line after an exception is no outcome of a condition.
        if code.co_filename == path:
            last.pop(id(sys._getframe(1)), None)

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


@dataclass(frozen=True)
class Branch:
    """A condition: its own lines, the lines of its body, and its kind, "if" or "loop"."""

    lines: range
    body: range
    kind: str

    def outcome(self, jump: Jump) -> Outcome | None:
        """The outcome of the condition; None if the jump does not show it."""
        source, to = jump
        if source not in self.lines or to in self.lines:
            return None
        return self.lines[0], _WORDS[self.kind][to not in self.body]


def branches(path: str) -> dict[str, list[Branch]]:
    """Map each function, as `name:first line`, to its branches, sorted by line."""
    with tokenize.open(path) as file:
        tree = ast.parse(file.read())
    by_function = {}
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            own = sorted(_branches_in(node), key=lambda branch: branch.lines[0])
            if own:
                by_function[f"{node.name}:{first_line(node)}"] = own
    return by_function


def outcomes(path: str) -> dict[str, list[Outcome]]:
    """Function -> every possible outcome of its branches."""
    return {
        name: [(branch.lines[0], word) for branch in own for word in _WORDS[branch.kind]]
        for name, own in branches(path).items()
    }


def taken(path: str, jumps: set[Jump]) -> list[Outcome]:
    """The outcomes that the jumps show."""
    every = [branch for own in branches(path).values() for branch in own]
    shown = {branch.outcome(jump) for branch in every for jump in jumps}
    return sorted(outcome for outcome in shown if outcome)


def _branches_in(function: ast.AST) -> Iterator[Branch]:
    for node in ast.iter_child_nodes(function):
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, (ast.If, ast.While)) and not isinstance(node.test, ast.Constant):
            yield from _branch(node, node.test, "if" if isinstance(node, ast.If) else "loop")
        if isinstance(node, ast.For):
            yield from _branch(node, node.iter, "loop")
        yield from _branches_in(node)


def _branch(node: ast.If | ast.While | ast.For, test: ast.expr, kind: str) -> Iterator[Branch]:
    body = range(first_line(node.body[0]), _end(node.body[-1]) + 1)
    if body.start > _end(test):
        yield Branch(range(node.lineno, _end(test) + 1), body, kind)


def _end(node: ast.stmt | ast.expr) -> int:
    return node.end_lineno or node.lineno


def first_line(node: ast.stmt) -> int:
    """The line on which a statement begins to run: its first decorator, if it has any."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _header_lines(node: ast.stmt) -> range:
    """The lines of a statement without those of the statements in it."""
    inner = [
        each.lineno for each in ast.walk(node) if each is not node and isinstance(each, ast.stmt)
    ]
    last = min(inner) - 1 if inner else _end(node)
    return range(first_line(node), max(node.lineno, last) + 1)


def lines_that_can_run(tree: ast.Module, ran: Collection[int]) -> set[int]:
    """The lines of a patch that ran during its installation, and the lines that can run later
    because of these.

    A function can run if a line that ran, or a line of a function that can run, names it: as a
    name, an attribute or in a text. Lines under a test for another release are left out.
    """
    nodes = list(ast.walk(tree))
    first = [node for node in nodes if isinstance(node, ast.stmt) and node.lineno in ran]
    live = {line for node in first for line in _header_lines(node)}
    definitions = [node for node in nodes if isinstance(node, (*_FUNCTIONS, ast.ClassDef))]
    while True:
        named = {_named(node) for node in nodes if getattr(node, "lineno", 0) in live}
        bodies = {
            line
            for node in definitions
            if node.name in named or (node.name.startswith("__") and node.lineno in live)
            for line in range(node.lineno, _end(node) + 1)
        }
        if bodies <= live:
            return live
        live |= bodies


def _named(node: ast.AST) -> object:
    """The name, attribute or constant that a node contains."""
    return next((getattr(node, key) for key in ("id", "attr", "value") if hasattr(node, key)), None)


def covering(request: Request) -> AbstractContextManager[Coverage]:
    """Yield a record of what runs, as `tracing` does, if the request asks for it."""
    return tracing(request.get("patch") if request.get("cover") else None, request.get("held", {}))


@contextmanager
def tracing(path: str | None, held: Mapping[str, Collection[str]]) -> Iterator[Coverage]:
    """Yield a record of the lines of the file `path` that run in this thread, and of the callers of
    originals that are held under other names (`held`, as `holders` in `Applied`). The record is
    complete once the context ends, and stays empty without a path.

    Python reports only the functions that it calls. Dynamo inlines code without calling it, so
    Dynamo's instruction translator is watched too.
    """
    coverage: Coverage = {"ran": [], "took": [], "callers": {}}
    if path is None:
        yield coverage
        return
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase

    ran = LinesRun(calls=find_originals(path, held))
    starts_line = InstructionTranslatorBase.starts_line
    last: dict[int, int] = {}  # last line of each translator

    def recorded_line(self: Any, line: int) -> None:
        starts_line(self, line)
        if self.f_code.co_filename == path:
            ran.lines.add(line)
            ran.jumps.add((last.get(id(self), 0), line))
            last[id(self)] = line
        if id(self.f_code) in ran.calls.names:
            ran.calls.note(self.f_code, inlined_by(self))

    with (
        mock.patch.object(InstructionTranslatorBase, "starts_line", recorded_line),
        line_events(path, ran),
    ):
        try:
            yield coverage
        finally:
            coverage["ran"] = sorted(ran.lines)
            coverage["took"] = taken(path, ran.jumps)
            coverage["callers"] = ran.calls.lines


def read_functions(request: ReadPatch, stage: Stage) -> Functions:
    """The functions of the patch, however deeply nested, and their branches; nothing is run."""
    path = request["patch"]
    with tokenize.open(path) as file:
        todo = [compile(file.read(), path, "exec")]
    by_function = {}
    while todo:
        for inner in todo.pop().co_consts:
            if isinstance(inner, CodeType):
                todo.append(inner)
                lines = _own_lines(inner)
                if lines and not inner.co_name.startswith("<"):
                    by_function[f"{inner.co_name}:{inner.co_firstlineno}"] = sorted(lines)
    return {"functions": by_function, "outcomes": outcomes(path)}


def _own_lines(code: CodeType) -> set[int]:
    """The lines of a function's body, without its `def` line and without functions inside it."""
    return {line for _, _, line in code.co_lines() if line} - {code.co_firstlineno}


def replacements(changes: Mapping[str, tuple[Any, Any]], path: str) -> dict[str, list[int]]:
    """Changed name -> lines of its replacement, for functions written in the patch.

    Torch's wrappers are followed: a registry of lowerings holds a wrapper around the function that
    was registered.
    """
    from patchgate.probe.patch.snapshot import with_wrapped

    by_name = {}
    for name, (_, now) in changes.items():
        functions = with_wrapped(getattr(now, "__func__", now))
        codes = [item.__code__ for item in functions if isinstance(item, FunctionType)]
        own = [code for code in codes if code.co_filename == path]
        if own:
            lines = (_own_lines(code) or {code.co_firstlineno} for code in own)
            by_name[name] = sorted(set().union(*lines))
    return by_name
