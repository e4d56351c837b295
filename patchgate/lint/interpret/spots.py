"""Syntax nodes -> places in the source. Decides what a caret points at; columns count bytes until shown."""

from __future__ import annotations

import ast

from patchgate.lint.interpret.references import Spot


def spot_of(node: ast.expr | ast.stmt | ast.alias) -> Spot:
    end = node.end_col_offset if node.end_lineno == node.lineno else None
    return Spot(line=node.lineno, column=node.col_offset + 1, width=max(1, (end or 0) - node.col_offset))


def attribute_spot(node: ast.Attribute) -> Spot:
    """The attribute's own name, not the whole chain."""
    end = node.end_col_offset or len(node.attr)
    return Spot(line=node.end_lineno or node.lineno, column=end - len(node.attr) + 1, width=len(node.attr))


def name_spot(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Spot:
    """The name after `def`."""
    before = len("async def " if isinstance(node, ast.AsyncFunctionDef) else "def ")
    return Spot(line=node.lineno, column=node.col_offset + before + 1, width=len(node.name.encode()))
