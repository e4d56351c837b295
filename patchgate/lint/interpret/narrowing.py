"""The types of names that a test shows: `isinstance`, `hasattr`, `type(x) is C`, and guards of the patch's own.

Where the answer of a call is known for a release, as of `hasattr` on a module, `calls.py` gives it.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from patchgate.lint.interpret.references import Usage
from patchgate.lint.interpret.state import State, read
from patchgate.lint.interpret.values import UNKNOWN, Instance, Symbol, Value, chain

# Functions that say nothing of their first argument when they come out true.
_HARMLESS = frozenset({"len", "bool", "any", "all", "callable", "getattr", "print"})


def narrow(test: ast.expr, way: bool, state: State) -> None:
    """Add to the scope what holds where `test` came out `way`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        narrow(test.operand, not way, state)
    elif isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) is way:
            for operand in test.values:
                narrow(operand, way, state)
    elif isinstance(test, ast.NamedExpr):
        narrow(test.value, way, state)
    elif isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and len(test.args) >= 2 and way:
        _narrow_by_call(test.func.id, test.args[0], test.args[1], state)
    elif isinstance(test, ast.Compare) and way and isinstance(test.ops[0], (ast.Is, ast.Eq)):
        left = test.left
        if isinstance(left, ast.Call) and isinstance(left.func, ast.Name) and left.func.id == "type" and left.args:
            key = chain(left.args[0])
            if key:
                state.scope.narrow(key, _instances(test.comparators[0], state))


def _narrow_by_call(function: str, subject: ast.expr, argument: ast.expr, state: State) -> None:
    key = chain(subject.target if isinstance(subject, ast.NamedExpr) else subject)
    if not key:
        return
    if function == "isinstance":
        state.scope.narrow(key, _instances(argument, state))
    elif function == "hasattr" and isinstance(argument, ast.Constant):
        state.scope.guarded |= {f"{key}.{argument.value!s}"}
    elif function not in _HARMLESS and isinstance(read(subject, replace(state, usage=Usage())), Instance):
        # A TypeGuard, or anything else that may say more of the object than we know.
        state.scope.narrow(key, UNKNOWN)


def _instances(node: ast.expr, state: State) -> Value:
    """An object of the classes that the second argument of `isinstance` names."""
    nodes, classes = [node], []
    while nodes:
        first = nodes.pop(0)
        if isinstance(first, (ast.Tuple, ast.List)):
            nodes = [*first.elts, *nodes]
        elif isinstance(first, ast.BinOp):
            nodes = [first.left, first.right, *nodes]
        else:
            value = read(first, state)
            if not isinstance(value, Symbol) or value.kind != "class":
                return UNKNOWN
            classes.append(value.dotted)
    return Instance(classes=tuple(dict.fromkeys(classes))) if classes else UNKNOWN
