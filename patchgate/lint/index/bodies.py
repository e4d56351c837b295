"""One function or one call in a module's text: where it stands, and how it is written.

Decides which of several definitions of a name counts: the one that the index has. Knows one text only.
"""

from __future__ import annotations

import ast
import warnings

from patchgate.lint.index.read_function import calls_in
from patchgate.lint.index.read_module import DEFINITIONS, flat, is_overload
from patchgate.lint.index.records import CallSite

Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def function_text(text: str, name: str) -> str | None:
    """The source of `f` or `Class.f`, decorators apart; None when the module defines no such function."""
    node = defined(text, name)
    if node is None or isinstance(node, ast.ClassDef):
        return None
    return "\n".join(text.split("\n")[node.lineno - 1 : node.end_lineno])


def call_line(text: str, callee: str, site: CallSite) -> int | None:
    """The line of the first such call in that function, or in the module itself."""
    node = defined(text, site.function) if site.function else parsed(text)
    for name, call, line in calls_in(node, site.module, site.function) if node is not None else ():
        if name == callee and call == site:
            return line
    return None


def defined(text: str, name: str) -> Node | None:
    """The definition of `f` or `Class.f` that counts."""
    tree = parsed(text)
    return inside(tree, name) if tree is not None else None


def inside(owner: ast.Module | ast.ClassDef, name: str) -> Node | None:
    """The same inside a module or class that has been read."""
    body, found = owner.body, None
    for part in name.split("."):
        found = None
        for node, certain in flat(body):
            if not isinstance(node, (*DEFINITIONS, ast.ClassDef)) or node.name != part:
                continue
            if (certain or found is None) and (isinstance(node, ast.ClassDef) or not is_overload(node)):
                found = node
        body = found.body if found is not None else []
    return found


def parsed(text: str) -> ast.Module | None:
    """The syntax tree of what this Python can read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError):
        return None
