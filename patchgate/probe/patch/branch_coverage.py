"""Finds the conditions and loops of a patch, and which of their outcomes a run took.

Only those whose body has lines of its own: a run is known by its lines. Reads the patch's text and
runs nothing.
"""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from patchgate.probe.protocol import Outcome

#: From a line to the next one that ran in the same frame; to 0 where the frame ended.
Jump = tuple[int, int]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Kind -> outcome when the body runs, and when it does not.
_WORDS = {"if": ("true", "false"), "loop": ("entered", "left")}


@dataclass(frozen=True)
class Branch:
    """A condition: its lines, those of its body, and whether it is of an "if" or a "loop"."""

    first: int
    last: int
    body_first: int
    body_last: int
    kind: str

    def outcome(self, jump: Jump) -> Outcome | None:
        """How the condition came out; None when the jump does not show it."""
        source, to = jump
        if not self.first <= source <= self.last or self.first <= to <= self.last:
            return None
        is_in = self.body_first <= to <= self.body_last
        return self.first, _WORDS[self.kind][0 if is_in else 1]


def branches(path: str) -> dict[str, list[Branch]]:
    """Function, as `name:first line` -> its branches, by line."""
    with tokenize.open(path) as file:
        tree = ast.parse(file.read())
    by_function = {}
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            own = sorted(_branches_in(node), key=lambda branch: branch.first)
            if own:
                by_function[f"{node.name}:{first_line(node)}"] = own
    return by_function


def outcomes(path: str) -> dict[str, list[Outcome]]:
    """Function -> every way in which its branches can come out."""
    return {
        name: [(branch.first, word) for branch in own for word in _WORDS[branch.kind]]
        for name, own in branches(path).items()
    }


def taken(path: str, jumps: set[Jump]) -> list[Outcome]:
    """The outcomes that the jumps show."""
    every = [branch for own in branches(path).values() for branch in own]
    return sorted(
        {outcome for branch in every for jump in jumps if (outcome := branch.outcome(jump))}
    )


def _branches_in(function: ast.AST) -> Iterator[Branch]:
    for node in ast.iter_child_nodes(function):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, (ast.If, ast.While)) and not isinstance(node.test, ast.Constant):
            yield from _branch(node, node.test, "if" if isinstance(node, ast.If) else "loop")
        if isinstance(node, ast.For):
            yield from _branch(node, node.iter, "loop")
        yield from _branches_in(node)


def _branch(node: ast.If | ast.While | ast.For, test: ast.expr, kind: str) -> Iterator[Branch]:
    last, body = test.end_lineno or test.lineno, first_line(node.body[0])
    if body > last:
        end = node.body[-1].end_lineno or body
        yield Branch(node.lineno, last, body, end, kind)


def first_line(node: ast.stmt | ast.excepthandler) -> int:
    """The line on which a statement begins to run: that of its first decorator."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def header_lines(node: ast.stmt | ast.excepthandler) -> range:
    """The lines of a statement without those of the statements in it."""
    inner = [
        each.lineno for each in ast.walk(node) if each is not node and isinstance(each, ast.stmt)
    ]
    return range(
        first_line(node),
        max(node.lineno, min(inner, default=(node.end_lineno or node.lineno) + 1) - 1) + 1,
    )


def lines_that_can_run(tree: ast.Module, ran: Collection[int]) -> set[int]:
    """The lines of a patch that ran while it was installed, and those that can still run because of
    them.

    A function can run where a line that ran, or one of a function that can, names it: as a name, an
    attribute or in a text. What stands behind the gate of another release is left out.
    """
    ran_first = [
        node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno in ran
    ]
    live = {line for node in ran_first for line in header_lines(node)}
    definitions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    ]
    while True:
        named = {
            name
            for node in ast.walk(tree)
            for name in _named(node)
            if getattr(node, "lineno", 0) in live
        }
        bodies = {
            line
            for node in definitions
            if node.name in named or (node.name.startswith("__") and node.lineno in live)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        if bodies <= live:
            return live
        live |= bodies


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
