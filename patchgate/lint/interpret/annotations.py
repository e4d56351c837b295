"""Annotations -> what they promise: instances of classes of torch, or collections of them.

Decides the grammar of annotations. Refuses to know where a name in one comes from.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache

from patchgate.lint.interpret.values import UNKNOWN, Container, Instance, Symbol, Value, either

_WRAPPERS = frozenset({"Optional", "Union", "Annotated", "Final", "ClassVar", "Required"})


_COLLECTIONS = frozenset(
    [
        "list",
        "List",
        "Sequence",
        "Iterable",
        "Iterator",
        "Collection",
        "set",
        "Set",
        "frozenset",
        "FrozenSet",
        "tuple",
        "Tuple",
        "deque",
        "OrderedSet",
        "Generator",
        "AbstractSet",
    ]
)


_MAPPINGS = frozenset(["dict", "Dict", "Mapping", "MutableMapping", "defaultdict", "DefaultDict", "OrderedDict"])


Resolve = Callable[[str], Value]


def annotated(text: str, resolve: Resolve) -> Value:
    """The value that an annotation, given as source, promises."""
    tree = _parsed(text)
    return UNKNOWN if tree is None else promised(tree, resolve)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def promised(node: ast.expr, resolve: Resolve) -> Value:
    """The value that an annotation promises: instances of classes, or collections of them."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            return annotated(node.value, resolve)
        return UNKNOWN
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _one_of([node.left, node.right], resolve)
    if isinstance(node, ast.Subscript):
        return _generic(node, resolve)
    if isinstance(node, (ast.Name, ast.Attribute)):
        value = resolve(ast.unparse(node))
        if isinstance(value, Symbol) and value.kind == "class":
            return Instance(classes=(value.dotted,))
    return UNKNOWN


def _one_of(nodes: list[ast.expr], resolve: Resolve) -> Value:
    some = [node for node in nodes if not (isinstance(node, ast.Constant) and node.value is None)]
    values = [promised(node, resolve) for node in some]
    return values[0] if len(values) == 1 else either(values)


def _generic(node: ast.Subscript, resolve: Resolve) -> Value:
    outer = ast.unparse(node.value).rpartition(".")[2]
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if outer in _WRAPPERS:
        return _one_of(inner if outer == "Union" else inner[:1], resolve)
    if outer in _COLLECTIONS and inner:
        if outer in ("tuple", "Tuple") and not (
            len(inner) == 2 and isinstance(inner[1], ast.Constant) and inner[1].value is Ellipsis
        ):
            return UNKNOWN
        return Container(element=promised(inner[0], resolve))
    if outer in _MAPPINGS and len(inner) == 2:
        return Container(element=promised(inner[1], resolve))
    return UNKNOWN
