"""Statements of a patch, walked once for one torch release: version gates are evaluated, not guessed.

Decides which statements run and with what names; functions are walked after all that may refer to them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from patchgate.lint.index.release import Release
from patchgate.lint.interpret.branching import Brancher, End
from patchgate.lint.interpret.reading import element_of
from patchgate.lint.interpret.references import Live, Usage
from patchgate.lint.interpret.spots import attribute_spot
from patchgate.lint.interpret.values import UNKNOWN, LocalFunction, Scope, Value
from patchgate.lint.interpret.walk import MAX_INLINED

_MAX_INLINED_NODES = 120


class Walker(Brancher):
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
            paired = len(nodes) == len(target.elts) and not any(isinstance(n, ast.Starred) for n in target.elts)
            for at, each in enumerate(target.elts):
                part = self.value_only(nodes[at]) if paired else element_of(value)
                self.bind(each, part, nodes[at] if paired else None)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, UNKNOWN)
        else:
            self.read(target)

    def walk_Assert(self, node: ast.Assert) -> None:
        self.read(node.test)
        self.read(node.msg)
        self.narrow(node.test, True)

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


def walk(tree: ast.Module, release: Release) -> Usage:
    """What the file does in one release."""
    walker = Walker(release=release)
    walker.block(tree.body)
    walker.walk_functions()
    return walker.usage
