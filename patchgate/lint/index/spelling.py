"""One spelling for annotations: `Optional[List["X"]]` and `list[X] | None` say the same.

Decides how an annotation is written in the index. Refuses to know what the names in it are.
"""

from __future__ import annotations

import ast
from functools import lru_cache

_BUILTIN = {name.title(): name for name in ("list", "dict", "tuple", "set", "type")} | {"FrozenSet": "frozenset"}
_MODULES = ("typing", "typing_extensions", "collections.abc")


def spelled(node: ast.expr) -> str:
    """The annotation as today's Python writes it: builtin generics, `|`, no quotes."""
    return _spelled(ast.unparse(node))


@lru_cache(maxsize=8192)
def _spelled(text: str) -> str:
    try:
        tree = ast.parse(text, mode="eval")
        return ast.unparse(ast.fix_missing_locations(_Modern().visit(tree)))
    except (SyntaxError, ValueError, RecursionError):
        return text


class _Modern(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """A forward reference becomes the expression that it quotes."""
        if not isinstance(node.value, str):
            return node
        quoted: ast.expr = self.visit(ast.parse(node.value, mode="eval").body)
        return quoted

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self.visit_Name(ast.Name(id=node.attr)) if ast.unparse(node.value) in _MODULES else node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(id=_BUILTIN.get(node.id, node.id))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        owner = self.visit(node.value)
        name = owner.id if isinstance(owner, ast.Name) else ""
        if name in ("Literal", "Annotated"):
            return node
        inner = self.visit(node.slice)
        if name not in ("Optional", "Union"):
            return ast.Subscript(value=owner, slice=inner)
        some = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        return _either([*some, ast.Constant(value=None)] if name == "Optional" else some)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        return _either([self.visit(node.left), self.visit(node.right)]) if isinstance(node.op, ast.BitOr) else node


def _either(parts: list[ast.expr]) -> ast.expr:
    """`A | B | None`, None last, as people write it."""
    flat: list[ast.expr] = []
    for each in parts:
        flat += _alternatives(each)
    nones = [each for each in flat if isinstance(each, ast.Constant) and each.value is None]
    rest = [each for each in flat if each not in nones] + nones[:1]
    found = rest[0]
    for each in rest[1:]:
        found = ast.BinOp(left=found, op=ast.BitOr(), right=each)
    return found


def _alternatives(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    return [node]
