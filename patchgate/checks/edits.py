"""A patch's text with an edit that does nothing: what its next version will look like to a cache.

Decides what is edited: the body of every function, so that a digest of the
file, of a function's source or of its bytecode all see it.
"""

from __future__ import annotations

import ast

_EDIT = "patchgate_edit = 0"


def edited(source: str) -> str:
    """`source` with an assignment that nothing reads in every function. Raises SyntaxError."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body.insert(1 if ast.get_docstring(node) else 0, ast.parse(_EDIT).body[0])
    return ast.unparse(tree) + "\n"
