"""Statements with more than one way through: `if`, `try`, loops, `with`, `match`.

Decides which way runs in this release and what is known afterwards. Refuses to know simple statements.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from patchgate.lint.interpret.definitions import Definer
from patchgate.lint.interpret.reading import element_of
from patchgate.lint.interpret.references import Gate, Live
from patchgate.lint.interpret.spots import spot_of
from patchgate.lint.interpret.values import UNKNOWN, VERSION, Known, Value

_CATCHERS = frozenset(
    [
        "ImportError",
        "ModuleNotFoundError",
        "AttributeError",
        "NameError",
        "TypeError",
        "Exception",
        "BaseException",
    ]
)


@dataclass(frozen=True)
class End:
    """Nothing after this statement runs; `rest` is the state of what follows it."""

    rest: Live


Snapshot = tuple[dict[str, Value], dict[str, Value], frozenset[str]]


class Brancher(Definer):
    """Walks compound statements."""

    @abstractmethod
    def block(self, statements: Sequence[ast.stmt]) -> End | None: ...

    @abstractmethod
    def statement(self, node: ast.stmt) -> End | None: ...

    def walk_If(self, node: ast.If) -> End | None:
        test = self.read(node.test)
        truth = test.truth if isinstance(test, Known) else None
        if isinstance(test, Known) and VERSION in test.because:
            self.note_gate(node.test, truth)
        if chain_end(node.test) == "TYPE_CHECKING":
            self._type_checking(node)
            return None
        before, live, gates, path = self.scope.snapshot(), self.live, self.gates, self.path
        outcomes = []
        for branch, way in ((node.body, True), (node.orelse, False)):
            self.scope.restore(before)
            if truth is not None and truth is not way:
                self.live = self.dead(test)
            if truth is None:
                self.path = (*path, node.lineno, way)
            if isinstance(test, Known) and VERSION in test.because:
                self.gates = (*gates, spot_of(node.test))
            self.narrow(node.test, way)
            end = self.block(branch)
            outcomes.append((end, self.scope.snapshot()))
            self.live, self.gates, self.path = live, gates, path
        return self._after_if(test, truth, outcomes[0], outcomes[1])

    def _after_if(
        self,
        test: Value,
        truth: bool | None,
        yes: tuple[End | None, Snapshot],
        no: tuple[End | None, Snapshot],
    ) -> End | None:
        if truth is not None:
            end, scope = yes if truth else no
            self.scope.restore(scope)
            if end is None:
                return None
            return End(self.dead(test) if self.live is Live.LIVE else self.live)
        going_on = [scope for end, scope in (yes, no) if end is None]
        if not going_on:
            self.scope.restore(no[1])
            return End(Live.QUIET)
        self.scope.restore(going_on[0])
        for other in going_on[1:]:
            self.scope.merge(other)
        return None

    def _type_checking(self, node: ast.If) -> None:
        live, self.live = self.live, Live.QUIET
        self.block(node.body)
        self.live = live
        self.block(node.orelse)

    def note_gate(self, test: ast.expr, truth: bool | None) -> None:
        self.usage.gates.append(Gate(spot=spot_of(test), text=ast.unparse(test), holds=truth, live=self.live))

    def walk_While(self, node: ast.While) -> None:
        self._forget_stored(node)
        self.read(node.test)
        before = self.scope.snapshot()
        self.narrow(node.test, True)
        self.block(node.body)
        self.scope.merge(before)
        self.block(node.orelse)

    def walk_For(self, node: ast.For | ast.AsyncFor) -> None:
        element = element_of(self.read(node.iter))
        self._forget_stored(node)
        before = self.scope.snapshot()
        self.bind(node.target, element)
        self.block(node.body)
        self.scope.merge(before)
        self.block(node.orelse)

    walk_AsyncFor = walk_For

    def _forget_stored(self, loop: ast.AST) -> None:
        """A name that a loop assigns may hold anything from its second turn on."""
        for each in ast.walk(loop):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                self.scope.assign(each.id, UNKNOWN)

    def walk_With(self, node: ast.With | ast.AsyncWith) -> End | None:
        for item in node.items:
            self.read(item.context_expr)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, UNKNOWN)
        suppresses = any("suppress" in ast.unparse(item.context_expr) for item in node.items)
        if not suppresses:
            return self.block(node.body)
        self.attempts.append(False)
        self.block(node.body)
        self.attempts.pop()
        return None

    walk_AsyncWith = walk_With

    def walk_Try(self, node: ast.Try) -> End | None:
        catches = any(_catches_missing(handler) for handler in node.handlers)
        before = self.scope.snapshot()
        if catches:
            self.attempts.append(False)
        end = self._attempt(node.body)
        failed = self.attempts.pop() if catches else None
        live = self.live
        for handler in node.handlers:
            after = self.scope.snapshot()
            if failed:
                self.scope.restore(before)
            elif catches and _only_missing(handler):
                self.live = Live.QUIET
            if handler.name:
                self.scope.assign(handler.name, UNKNOWN)
            handled = self.block(handler.body)
            self.live = live
            if not failed:
                self.scope.restore(after)
                if not (catches and _only_missing(handler)) and handled is None:
                    end = None
        if not failed:
            end = self.block(node.orelse) or end
        return self.block(node.finalbody) or (None if failed or node.handlers else end)

    walk_TryStar = walk_Try

    def _attempt(self, statements: Sequence[ast.stmt]) -> End | None:
        """A try body: what follows a missing name in it does not run."""
        live, end = self.live, None
        for statement in statements:
            end = end or self.statement(statement)
            if self.attempts and self.attempts[-1] and self.live is Live.LIVE:
                self.live = Live.QUIET
        self.live = live
        return end

    def walk_Match(self, node: ast.Match) -> None:
        self.read(node.subject)
        self._forget_stored(node)
        before = self.scope.snapshot()
        for case in node.cases:
            self._read_parts(case.pattern)
            for each in ast.walk(case.pattern):
                name = getattr(each, "name", None) or getattr(each, "rest", None)
                if isinstance(name, str):
                    self.scope.assign(name, UNKNOWN)
            self.read(case.guard)
            self.block(case.body)
            self.scope.merge(before)


def chain_end(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _catches_missing(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or bool(_CATCHERS.intersection(_names(handler.type)))


def _only_missing(handler: ast.ExceptHandler) -> bool:
    """It can run for no other reason than a missing module or name."""
    return handler.type is not None and not _names(handler.type) - {
        "ImportError",
        "ModuleNotFoundError",
        "AttributeError",
        "NameError",
    }


def _names(node: ast.expr) -> set[str]:
    nodes = node.elts if isinstance(node, ast.Tuple) else [node]
    return {chain_end(each) for each in nodes}
