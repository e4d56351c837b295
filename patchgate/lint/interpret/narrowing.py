"""What a test tells about the values in it: `isinstance`, `hasattr`, `not`, `and`, `or`.

Decides only that; which branch runs is the walker's business.
"""

from __future__ import annotations

import ast

from patchgate.lint.interpret.values import UNKNOWN, Instance, LocalClass, Symbol, Value
from patchgate.lint.interpret.walk import Walk


class Narrower(Walk):
    """Adds to the scope what holds where `test` came out `way`."""

    def narrow(self, test: ast.expr, way: bool) -> None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.narrow(test.operand, not way)
        elif isinstance(test, ast.BoolOp):
            if isinstance(test.op, ast.And) is way:
                for operand in test.values:
                    self.narrow(operand, way)
        elif isinstance(test, ast.NamedExpr):
            self.narrow(test.value, way)
        elif isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and len(test.args) >= 2:
            self._narrow_by_call(test.func.id, test.args[0], test.args[1], way)
        elif isinstance(test, ast.Compare) and way and isinstance(test.ops[0], (ast.Is, ast.Eq)):
            self._narrow_by_type(test)

    def _narrow_by_call(self, function: str, subject: ast.expr, argument: ast.expr, way: bool) -> None:
        key = chain(subject.target if isinstance(subject, ast.NamedExpr) else subject)
        if not key:
            return
        if function == "isinstance":
            if way:
                self._set(key, self._instances(argument))
        elif function == "hasattr" and isinstance(argument, ast.Constant) and way:
            self.scope.guarded |= {f"{key}.{argument.value!s}"}
        elif function not in _HARMLESS and way:
            # A TypeGuard, or anything else that may say more of the subject than we know.
            self._set(key, UNKNOWN)

    def _narrow_by_type(self, test: ast.Compare) -> None:
        left = test.left
        if isinstance(left, ast.Call) and isinstance(left.func, ast.Name) and left.func.id == "type" and left.args:
            key = chain(left.args[0])
            if key:
                self._set(key, self._instances(test.comparators[0]))

    def _set(self, key: str, value: Value) -> None:
        for stale in [each for each in self.scope.narrowed if each.startswith(f"{key}.")]:
            del self.scope.narrowed[stale]
        self.scope.narrowed[key] = value

    def _instances(self, node: ast.expr) -> Value:
        nodes = [node]
        classes: list[str] = []
        while nodes:
            each = nodes.pop(0)
            if isinstance(each, (ast.Tuple, ast.List)):
                nodes = [*each.elts, *nodes]
            elif isinstance(each, ast.BinOp):
                nodes = [each.left, each.right, *nodes]
            else:
                value = self.read(each)
                if isinstance(value, LocalClass) or not isinstance(value, Symbol) or value.kind != "class":
                    return UNKNOWN
                classes.append(value.dotted)
        return Instance(classes=tuple(dict.fromkeys(classes))) if classes else UNKNOWN


_HARMLESS = frozenset({"len", "bool", "any", "all", "callable", "getattr", "print"})


def chain(node: ast.expr) -> str:
    """`a.b.c` as text when that is all the expression is, else ''."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = chain(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""
