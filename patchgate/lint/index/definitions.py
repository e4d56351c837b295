"""Definitions in a module's text: which of several of one name counts, where it stands and how it is written."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from patchgate.lint.index.read_function import calls_in
from patchgate.lint.index.records import CallSite

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
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


def flat(body: list[ast.stmt], certain: bool = True) -> Iterator[tuple[ast.stmt, bool]]:
    """Statements of a body and of the blocks in it, and whether each runs whatever the conditions.

    What stands below `if TYPE_CHECKING` never runs; its imports count as those inside functions do.
    """
    for node in body:
        yield node, certain
        if isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
            if not (isinstance(node, ast.If) and ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING"):
                yield from flat(node.body, False)
            yield from flat(getattr(node, "orelse", []), False)
            for handler in getattr(node, "handlers", []):
                yield from flat(handler.body, False)
            yield from flat(getattr(node, "finalbody", []), False)


def is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Typing overloads, and the setter and deleter of a property: the name is defined elsewhere."""
    names = [ast.unparse(each).rpartition(".")[2] for each in node.decorator_list]
    return any(name in ("overload", "setter", "deleter") for name in names)
