"""The state of one walk: one file, one torch release, where the walk is and what has been noted.

Decides which functions of the patch run, and under which gate. Refuses to know syntax.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from patchgate.lint.index.release import Release
from patchgate.lint.interpret.references import Live, Spot, Usage
from patchgate.lint.interpret.values import LocalClass, LocalFunction, Scope, Value

MAX_INLINED = 3


@dataclass(eq=False)
class Pending:
    """A function whose body is still to be walked, and the strongest reference to it so far."""

    function: LocalFunction
    live: Live | None = None
    gates: tuple[Spot, ...] = ()


@dataclass(eq=False)
class Walk(ABC):
    release: Release
    usage: Usage = field(default_factory=Usage)
    scope: Scope = field(default_factory=Scope)
    live: Live = Live.LIVE
    gates: tuple[Spot, ...] = ()
    # One entry per enclosing `try` that catches what a missing name raises; True once one was missing.
    attempts: list[bool] = field(default_factory=list)
    pending: dict[ast.AST, Pending] = field(default_factory=dict)
    inlined: int = 0
    # Which function is walked, counted (0 is the module itself), then the branches of it that may not run.
    path: tuple[int, ...] = (0,)
    results: list[Value] = field(default_factory=list)

    @abstractmethod
    def read(self, node: ast.expr | None) -> Value: ...

    @abstractmethod
    def bind(self, target: ast.expr, value: Value) -> None: ...

    @abstractmethod
    def narrow(self, test: ast.expr, way: bool) -> None: ...

    @abstractmethod
    def inline(self, function: LocalFunction, call: ast.Call, arguments: list[Value]) -> Value: ...

    def define(self, function: LocalFunction) -> None:
        """Put the body of `function` on the list of what is still to be walked."""
        if not self.inlined:
            self.pending.setdefault(function.node, Pending(function=function))

    def refer(self, function: LocalFunction) -> None:
        """The patch uses `function` here: its body runs at least as often as this line."""
        pending = self.pending.get(function.node)
        if pending is None or self.inlined:
            return
        if pending.live is None or _STRENGTH[self.live] > _STRENGTH[pending.live]:
            pending.live, pending.gates = self.live, self.gates

    def refer_members(self, local: LocalClass) -> None:
        for member in local.members.values():
            if isinstance(member, LocalFunction):
                self.refer(member)


_STRENGTH = {Live.LIVE: 2, Live.GATED: 1, Live.QUIET: 0}
