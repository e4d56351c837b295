"""The state of the interpreter at one point of a patch, and its two functions: `read` and `execute`.

They choose by the type of the syntax node: expressions, calls, branches and statements register the kinds that they
know. What is not registered is read part by part.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch

from patchgate.lint.index.release import Release
from patchgate.lint.interpret.references import Reachability, Span, Usage
from patchgate.lint.interpret.values import (
    PRESENCE,
    UNKNOWN,
    VERSION,
    Known,
    LocalClass,
    LocalFunction,
    Scope,
    Value,
)

_STRENGTH = {Reachability.REACHABLE: 2, Reachability.GATED: 1, Reachability.GUARDED: 0}


@dataclass(eq=False)
class Attempt:
    """A `try` (or `suppress`) that catches what a missing name raises. `failed`: one was missing."""

    failed: bool = False


@dataclass(eq=False)
class PendingFunction:
    """A function whose body is still to be walked, and the strongest reference to it so far (None: no reference)."""

    function: LocalFunction
    reachability: Reachability | None = None
    gates: tuple[Span, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class State:
    """One point of the walk. It is handed along and never changed: another point has another state.

    All points share `usage` and `pending`, which are filled; all points of one block share `scope`.
    """

    release: Release
    usage: Usage = field(default_factory=Usage)
    scope: Scope = field(default_factory=Scope)
    reachability: Reachability = Reachability.REACHABLE
    #: Version gates around this point, outermost first.
    gates: tuple[Span, ...] = ()
    #: The innermost `try` around this point.
    attempt: Attempt | None = None
    #: As Reference has it.
    path: tuple[int, ...] = (0,)
    pending: dict[ast.AST, PendingFunction] = field(default_factory=dict)
    #: How many calls deep in functions of the patch that are read for their value; `returned` is filled with it.
    inlined: int = 0
    returned: list[Value] = field(default_factory=list)

    @property
    def reachable(self) -> bool:
        return self.reachability is Reachability.REACHABLE

    def at(self, reachability: Reachability) -> State:
        return self if reachability is self.reachability else replace(self, reachability=reachability)

    def excluded_by(self, test: Value) -> Reachability:
        """What becomes of code here that `test` keeps from running."""
        if not self.reachable:
            return self.reachability
        gated = isinstance(test, Known) and VERSION in test.because and PRESENCE not in test.because
        return Reachability.GATED if gated else Reachability.GUARDED

    def define(self, function: LocalFunction) -> None:
        """Put the body of `function` on the list of what is still to be walked."""
        if not self.inlined:
            self.pending.setdefault(function.node, PendingFunction(function))

    def use(self, value: Value) -> None:
        """The patch uses a function or class of its own here: its bodies run at least as often as this line."""
        if isinstance(value, LocalClass):
            for member in value.members.values():
                if isinstance(member, LocalFunction):
                    self.use(member)
        if not isinstance(value, LocalFunction) or self.inlined:
            return
        pending = self.pending.get(value.node)
        if pending is None:
            return
        if pending.reachability is None or _STRENGTH[self.reachability] > _STRENGTH[pending.reachability]:
            pending.reachability, pending.gates = self.reachability, self.gates


@dataclass(frozen=True)
class End:
    """Nothing after this statement runs; `rest` is what becomes of what follows it."""

    rest: Reachability


@singledispatch
def read(node: ast.AST | None, state: State) -> Value:
    """The value of an expression; every name of torch in it is noted."""
    if node is not None:
        for child in ast.iter_child_nodes(node):
            read(child, state)
    return UNKNOWN


@singledispatch
def execute(node: ast.stmt, state: State) -> End | None:
    """Walk one statement; tells whether it ends its block."""
    read(node, state)
    return None


def execute_block(statements: Sequence[ast.stmt], state: State) -> End | None:
    """Walk statements one after the other; tells what ended them first."""
    ended, here = None, state
    for statement in statements:
        end = execute(statement, here)
        if end is not None and ended is None:
            ended = end
            here = state.at(end.rest if state.reachable else state.reachability)
    return ended
