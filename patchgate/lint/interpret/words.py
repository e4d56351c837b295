"""The names in each function of a file, found in one walk."""

from __future__ import annotations

import ast
from functools import lru_cache

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@lru_cache(maxsize=1)
def words_by_function(tree: ast.Module) -> dict[ast.AST, set[str]]:
    """Each function of a file -> the names in it, and the private names that are looked up there."""
    found: dict[ast.AST, set[str]] = {}
    _gather(tree, found)
    return found


def _gather(top: ast.AST, found: dict[ast.AST, set[str]]) -> set[str]:
    words: set[str] = set()
    todo = [top]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name):
            words.add(node.id)
            continue
        if isinstance(node, ast.Constant):
            continue
        if node is not top and isinstance(node, _FUNCTIONS):
            words |= _gather(node, found)
            continue
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            words.add(node.attr)
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                todo += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and field != "ctx":
                todo.append(value)
    found[top] = words
    return words
