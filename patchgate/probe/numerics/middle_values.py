"""Small programs whose middle values have further readers: a pass that joins the operators of a
chain must see what else reads the values between them.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from patchgate.probe.numerics.pass_programs import Program, function_of

# A program with one of these parts is left out, because the part runs code several times or later.
_NO_CHAIN = (ast.AugAssign, ast.For, ast.With, ast.ClassDef, ast.Lambda, ast.comprehension)
_VALUES = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Subscript)


def with_readers(programs: Iterable[Program]) -> Iterator[Program]:
    """Yield the programs that have middle values, changed to return these too: alternately one
    program with the values themselves and one with their negatives.
    """
    ways = itertools.cycle(("{}", "-{}"))
    for text, inputs in programs:
        tree = ast.parse(text)
        if any(isinstance(node, _NO_CHAIN) or _writes(node) for node in ast.walk(tree)):
            continue
        names = _middle_values(text, inputs)
        if names:
            way = next(ways)
            results = [ast.parse(way.format(name), mode="eval").body for name in names]
            yield _Named(names, results).text(text), inputs


def _writes(node: ast.AST) -> bool:
    """True for `x[0] = y` and for `x.add_(y)`."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Store)
    return isinstance(node, ast.Attribute) and node.attr.endswith("_")


def _middle_values(text: str, inputs: tuple[torch.Tensor, ...]) -> list[str]:
    """The names of new tensors of float32 that a program makes and does not return, after each
    value within an expression was given a name.
    """
    every = _Named(None, [ast.Call(ast.Name("locals", ast.Load()), [], [])]).text(text)
    with torch.no_grad():
        given = [each.detach().clone() for each in inputs]
        *results, made = function_of(every)(*given)
    known = {id(each) for each in (*given, *pytree.tree_leaves(results))}
    found: dict[str, Any] = {}
    for name, value in made.items():
        is_new = isinstance(value, torch.Tensor) and id(value) not in known
        if is_new and value.dtype is torch.float32 and value.numel() and not value._is_view():
            found[name] = value
            known.add(id(value))
    return [*found]


class _Named(ast.NodeTransformer):
    """Changes a program to name values within its expressions and to return further results. It
    names only the values in `names`, or all values if `names` is None.
    """

    def __init__(self, names: list[str] | None, results: list[ast.expr]) -> None:
        self._names, self._results = names, results
        self._numbers = itertools.count()

    def text(self, program: str) -> str:
        return ast.unparse(ast.fix_missing_locations(self.visit(ast.parse(program)))) + "\n"

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        node.value = self._within(node.value)
        return node

    def visit_Return(self, node: ast.Return) -> ast.Return:
        assert node.value is not None
        value = self._within(node.value)
        values = value.elts if isinstance(value, ast.Tuple) else [value]
        node.value = ast.Tuple([*values, *self._results], ast.Load())
        return node

    def _within(self, value: ast.expr) -> ast.expr:
        """The value with names for the values within it. The value itself needs no name: it is a
        result or has one.
        """
        if isinstance(value, ast.Tuple):
            value.elts = [self._within(each) for each in value.elts]
            return value
        within: ast.expr = self.generic_visit(value)  # type: ignore[assignment]
        return within

    def visit(self, node: ast.AST) -> Any:
        node = super().visit(node)
        if not isinstance(node, _VALUES):
            return node
        name = f"m{next(self._numbers)}"
        if self._names is not None and name not in self._names:
            return node
        return ast.NamedExpr(ast.Name(name, ast.Store()), node)
