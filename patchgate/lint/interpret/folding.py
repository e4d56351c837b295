"""Comparisons, `and`, `or`, `not`, indexing: folded to a value once per spelling of the release.

Decides what a version check is worth and notes its traps. Refuses to know where a version comes from.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from patchgate.lint.interpret.calling import CallReader
from patchgate.lint.interpret.gates import NotKnown, attempt, traps_in
from patchgate.lint.interpret.references import Comparison, Live
from patchgate.lint.interpret.spots import spot_of
from patchgate.lint.interpret.values import PRESENCE, UNKNOWN, VERSION, Container, Known, Value
from patchgate.model.predicates import ORDER

_OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


class Folder(CallReader):
    """Folds what is known."""

    def _each(self, function: Callable[..., Any], *operands: Known, fallback: Value = UNKNOWN) -> Value:
        """`function` in each spelling of the release."""
        try:
            values = tuple(attempt(function, *row) for row in zip(*(known.values for known in operands), strict=True))
        except NotKnown:
            return fallback
        return Known(values=values, because=frozenset().union(*(known.because for known in operands)))

    def read_Compare(self, node: ast.Compare) -> Value:
        operands = [self.read(each) for each in (node.left, *node.comparators)]
        because: frozenset[str] = frozenset()
        total: tuple[Any, ...] | None = None
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            symbol = _OPERATORS.get(type(operator))
            if not isinstance(left, Known) or not isinstance(right, Known):
                return UNKNOWN
            result = self._each(_comparer(operator, symbol), left, right)
            if not isinstance(result, Known):
                return UNKNOWN
            because |= result.because
            if symbol and VERSION in result.because:
                self._note_traps(node, symbol, left, right, result)
            held = tuple(map(bool, result.values))
            total = held if total is None else tuple(a and b for a, b in zip(total, held, strict=True))
        return Known(values=total or (True,) * 4, because=because)

    def _note_traps(self, node: ast.Compare, symbol: str, left: Known, right: Known, result: Known) -> None:
        traps = traps_in(symbol, left.values, right.values, result.values)
        if traps:
            self.usage.comparisons.append(
                Comparison(spot=spot_of(node), text=ast.unparse(node), traps=traps, live=self.live)
            )

    def read_BoolOp(self, node: ast.BoolOp) -> Value:
        """`and` and `or`, later operands read with what the earlier ones have shown."""
        stops = isinstance(node.op, ast.Or)
        saved, live = self.scope.snapshot(), self.live
        known: list[Known] = []
        for operand in node.values:
            value = self.read(operand)
            if isinstance(value, Known):
                known.append(value)
                if value.truth is stops:
                    self.live = self.dead(value)
            self.narrow(operand, not stops)
        self.scope.restore(saved)
        self.live = live
        deciding = [value for value in known if value.truth is stops]
        if deciding:
            return Known(values=deciding[0].values, because=frozenset().union(*(v.because for v in deciding)))
        if len(known) == len(node.values):
            combine = any if stops else all
            values = tuple(combine(map(bool, row)) for row in zip(*(v.values for v in known), strict=True))
            return Known(values=values, because=frozenset().union(*(v.because for v in known)))
        return UNKNOWN

    def read_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self.read(node.operand)
        if isinstance(node.op, ast.Not) and isinstance(value, Known):
            return Known(values=tuple(not each for each in value.values), because=value.because)
        if isinstance(node.op, ast.USub) and isinstance(value, Known):
            return self._each(lambda each: -each, value)
        return UNKNOWN

    def read_IfExp(self, node: ast.IfExp) -> Value:
        test = self.read(node.test)
        truth = test.truth if isinstance(test, Known) else None
        saved, live = self.scope.snapshot(), self.live
        results = []
        for branch, way in ((node.body, True), (node.orelse, False)):
            if truth is not None and truth is not way:
                self.live = self.dead(test)
            self.narrow(node.test, way)
            results.append(self.read(branch))
            self.scope.restore(saved)
            self.live = live
        if truth is None:
            return results[0] if results[0] == results[1] else UNKNOWN
        return results[0 if truth else 1]

    def read_Tuple(self, node: ast.Tuple) -> Value:
        return self._sequence(node.elts, tuple)

    def read_List(self, node: ast.List) -> Value:
        return self._sequence(node.elts, list)

    def _sequence(self, nodes: list[ast.expr], make: Callable[[Any], Any]) -> Value:
        items = [self.read(item) for item in nodes]
        if all(isinstance(item, Known) for item in items):
            rows = [item.values for item in items if isinstance(item, Known)]
            because = frozenset().union(*(item.because for item in items if isinstance(item, Known)))
            return Known(values=tuple(make(row[i] for row in rows) for i in range(4)), because=because)
        return UNKNOWN

    def read_Subscript(self, node: ast.Subscript) -> Value:
        owner = self.read(node.value)
        if isinstance(node.slice, ast.Slice):
            parts = [node.slice.lower, node.slice.upper, node.slice.step]
            bounds = [Known(values=(None,) * 4) if part is None else self.read(part) for part in parts]
            if isinstance(owner, Known) and all(isinstance(bound, Known) for bound in bounds):
                known = [bound for bound in bounds if isinstance(bound, Known)]
                return self._each(lambda value, a, b, c: value[slice(a, b, c)], owner, *known)
            return owner if isinstance(owner, Container) else UNKNOWN
        index = self.read(node.slice)
        if isinstance(owner, Known) and isinstance(index, Known):
            return self._each(lambda value, at: value[at], owner, index)
        return owner.element if isinstance(owner, Container) else UNKNOWN

    def dead(self, test: Value) -> Live:
        """The state of code that `test` keeps from running."""
        if self.live is not Live.LIVE:
            return self.live
        gated = isinstance(test, Known) and VERSION in test.because and PRESENCE not in test.because
        return Live.GATED if gated else Live.QUIET


def _comparer(operator: ast.cmpop, symbol: str | None) -> Callable[[Any, Any], bool]:
    if symbol is not None:
        return ORDER[symbol]
    if isinstance(operator, ast.In):
        return lambda left, right: left in right
    if isinstance(operator, ast.NotIn):
        return lambda left, right: left not in right
    same = isinstance(operator, ast.Is)
    return lambda left, right: (left is right) is same
