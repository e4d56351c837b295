"""Statements of a patch, walked once for one torch release: version gates are evaluated, not guessed.

Decides which statements run and with what names; functions are walked after all that may refer to them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from patchgate.surface.definitions import Definer
from patchgate.surface.index import Release
from patchgate.surface.reading import element_of
from patchgate.surface.spots import attribute_spot, spot_of
from patchgate.surface.usage import Gate, Live, Usage
from patchgate.surface.values import UNKNOWN, VERSION, Known, LocalFunction, Scope, Value
from patchgate.surface.walk import MAX_INLINED

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
_MAX_INLINED_NODES = 120


@dataclass(frozen=True)
class End:
    """Nothing after this statement runs; `rest` is the state of what follows it."""

    rest: Live


class Walker(Definer):
    """Walks statements."""

    def block(self, statements: Sequence[ast.stmt]) -> End | None:
        """Walk one list of statements."""
        live, ended = self.live, None
        for statement in statements:
            end = self.statement(statement)
            if end is not None and ended is None:
                ended = end
                self.live = end.rest if live is Live.LIVE else live
        self.live = live
        return ended

    def statement(self, node: ast.stmt) -> End | None:
        method = getattr(self, f"walk_{type(node).__name__}", None)
        if method is not None:
            result: End | None = method(node)
            return result
        self._read_parts(node)
        return None

    def walk_Return(self, node: ast.Return) -> End:
        value = self.read(node.value)
        if self.inlined and self.live is Live.LIVE:
            self.results.append(value)
        return End(Live.QUIET)

    def walk_Raise(self, node: ast.Raise) -> End:
        self._read_parts(node)
        return End(Live.QUIET)

    def walk_Continue(self, node: ast.Continue | ast.Break) -> End:
        return End(Live.QUIET)

    walk_Break = walk_Continue

    def walk_Assign(self, node: ast.Assign) -> None:
        value = self.read(node.value)
        for target in node.targets:
            self.bind(target, value, node.value)

    def walk_AnnAssign(self, node: ast.AnnAssign) -> None:
        value = self.read(node.value)
        self.read(node.annotation)
        promised = self.promised_by(node.annotation)
        if node.value is not None or isinstance(node.target, ast.Name):
            self.bind(node.target, value if promised is UNKNOWN else promised, node.value)

    def walk_AugAssign(self, node: ast.AugAssign) -> None:
        self.read(node.value)
        if isinstance(node.target, ast.Name):
            self.scope.assign(node.target.id, UNKNOWN)
        else:
            self.read(node.target)

    def bind(self, target: ast.expr, value: Value, source: ast.expr | None = None) -> None:
        """`target = value`."""
        if isinstance(target, ast.Name):
            self.scope.assign(target.id, value)
        elif isinstance(target, ast.Attribute):
            owner = self.read(target.value)
            key = ast.unparse(target)
            for stale in [each for each in self.scope.narrowed if each == key or each.startswith(f"{key}.")]:
                del self.scope.narrowed[stale]
            self.rebind(owner, target.attr, value, source, attribute_spot(target))
        elif isinstance(target, (ast.Tuple, ast.List)):
            nodes = source.elts if isinstance(source, (ast.Tuple, ast.List)) else []
            paired = len(nodes) == len(target.elts) and not any(
                isinstance(n, ast.Starred) for n in target.elts
            )
            for at, each in enumerate(target.elts):
                part = self.value_only(nodes[at]) if paired else element_of(value)
                self.bind(each, part, nodes[at] if paired else None)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, UNKNOWN)
        else:
            self.read(target)

    def walk_If(self, node: ast.If) -> End | None:
        test = self.read(node.test)
        truth = test.truth if isinstance(test, Known) else None
        if isinstance(test, Known) and VERSION in test.because:
            self.note_gate(node.test, truth)
        if chain_end(node.test) == "TYPE_CHECKING":
            self._type_checking(node)
            return None
        before, live, gates = self.scope.snapshot(), self.live, self.gates
        outcomes = []
        for branch, way in ((node.body, True), (node.orelse, False)):
            self.scope.restore(before)
            if truth is not None and truth is not way:
                self.live = self.dead(test)
            if isinstance(test, Known) and VERSION in test.because:
                self.gates = (*gates, spot_of(node.test))
            self.narrow(node.test, way)
            end = self.block(branch)
            outcomes.append((end, self.scope.snapshot()))
            self.live, self.gates = live, gates
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

    def walk_Assert(self, node: ast.Assert) -> None:
        self.read(node.test)
        self.read(node.msg)
        self.narrow(node.test, True)

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

    def walk_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.scope.assign(target.id, UNKNOWN)

    def walk_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:
            self.scope.assign(name, UNKNOWN)

    walk_Nonlocal = walk_Global

    def inline(self, function: LocalFunction, call: ast.Call, arguments: list[Value]) -> Value:
        """What a small function of the patch returns, when only the torch version decides it."""
        node = function.node
        if self.inlined >= MAX_INLINED or isinstance(node, (ast.Lambda, ast.AsyncFunctionDef)):
            return UNKNOWN
        if sum(1 for _ in ast.walk(node)) > _MAX_INLINED_NODES or len(arguments) > len(node.args.args):
            return UNKNOWN
        saved = self.scope, self.usage, self.results, self.live, self.attempts
        self.scope, self.usage, self.results = Scope(parent=function.scope), Usage(), []
        self.live, self.attempts = Live.LIVE, []
        self.inlined += 1
        try:
            for parameter, value in zip(node.args.args, arguments, strict=False):
                self.scope.assign(parameter.arg, value)
            self.block(node.body)
            results = self.results
        finally:
            self.inlined -= 1
            self.scope, self.usage, self.results, self.live, self.attempts = saved
        same = results and all(result == results[0] for result in results)
        return results[0] if same else UNKNOWN


Snapshot = tuple[dict[str, Value], dict[str, Value], frozenset[str]]


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


def walk(tree: ast.Module, release: Release) -> Usage:
    """What the file does in one release."""
    walker = Walker(release=release)
    walker.block(tree.body)
    walker.walk_functions()
    return walker.usage
