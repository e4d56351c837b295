"""Functions that a module gives away by value: to a decorator or call that registers them, or into a table.

Decides what counts as registering. Refuses to know where a name comes from.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from patchgate.lint.index.read_function import nodes_of

# Calls inside functions are many; of these only such that fill a table by their own name.
_FILLS = re.compile(r"register|fallback|layout_constraint|decomp|py_impl")


def given_away(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(who keeps it, local name) for each name that is handed over; not yet known to be a function's."""
    inside: set[int] = set()
    for node in nodes_of(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            inside.update(id(each) for part in _bodies(node) for each in nodes_of(part))
    top = {id(node) for node in tree.body}
    for node in nodes_of(tree):
        if isinstance(node, ast.Call):
            keeper = _last(node.func)
            if keeper and (id(node) not in inside or _FILLS.search(keeper)):
                given = [*node.args, *(each.value for each in node.keywords)]
                yield from ((keeper, each.id) for each in given if isinstance(each, ast.Name))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and id(node) in top:
            keepers = (_last(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list)
            yield from ((keeper, node.name) for keeper in keepers if _FILLS.search(keeper))
        elif isinstance(node, ast.Assign) and id(node) in top:
            yield from _tabled(node)


def _tabled(node: ast.Assign) -> Iterator[tuple[str, str]]:
    """`TABLE = {key: f}`, `TABLE[key] = f`."""
    value, target = node.value, node.targets[0]
    keeper = _last(target.value if isinstance(target, ast.Subscript) else target)
    parts: list[ast.expr | None] = []
    if isinstance(value, ast.Dict):
        parts = [*value.values]
    elif isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        parts = [*value.elts]
    elif isinstance(target, ast.Subscript):
        parts = [value]
    if keeper:
        yield from ((keeper, each.id) for each in parts if isinstance(each, ast.Name))


def _bodies(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.AST]:
    return [node.body] if isinstance(node, ast.Lambda) else [*node.body]


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
