"""The state of the interpreter at one point of a patch, and the functions `read` and `execute`.

Both functions dispatch on the type of the syntax node: each module registers the types that it
handles. For a node of any other type, its children are read.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import process_time
from typing import Any, Generic, TypeVar

from patchgate.lint.index.release import Release
from patchgate.lint.interpret.references import Reachability, Span, Usage
from patchgate.lint.interpret.values import (
    PRESENCE,
    UNKNOWN,
    VERSION,
    LocalClass,
    LocalFunction,
    OwnFiles,
    Scope,
    Value,
    because_of,
    unknown,
)

Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(eq=False)
class Attempt:
    """A `try` (or `suppress`) that catches the error of a missing name. `failed` is true if a name
    was missing.

    `any_call` is true if it also catches the TypeError of a call whose arguments do not fit.
    """

    any_call: bool = True
    failed: bool = False


@dataclass(eq=False)
class PendingFunction:
    """A function whose body is not walked yet, and the reachability of the strongest reference to
    it so far (None if there is no reference).
    """

    function: LocalFunction
    #: The reachability of the line that defines it.
    defined: Reachability
    reachability: Reachability | None = None
    gates: tuple[Span, ...] = ()
    #: True if each reference so far is a call in a `try` that catches the error of a missing name.
    attempted: bool = True
    #: Its number in the order of arrival, which decides between functions of the same rank.
    came: int | None = None

    @property
    def runs(self) -> Reachability:
        """The weaker reachability of the definition and of the strongest reference."""
        return min(self.defined, self.reachability or Reachability.REACHABLE)


@dataclass(frozen=True, eq=False, kw_only=True)
class State:
    """One point of the walk. A state is passed along and never changed: each point has its own.

    All points share `usage`, `pending` and `moved`, to which the walk adds; all points of one block
    share `scope`.
    """

    release: Release
    #: The other files of the project; None if only one file is read.
    own: OwnFiles | None = None
    usage: Usage = field(default_factory=Usage)
    scope: Scope = field(default_factory=Scope)
    reachability: Reachability = Reachability.REACHABLE
    #: Version gates around this point, outermost first.
    gates: tuple[Span, ...] = ()
    #: The version check of an earlier `return` that this release takes.
    left_by: Span | None = None
    #: The innermost `try` around this point.
    attempt: Attempt | None = None
    #: The way to this point, as in Reference.
    path: tuple[int, ...] = (0,)
    pending: dict[ast.AST, PendingFunction] = field(default_factory=dict)
    #: The functions that became pending or were used since the ranks were last computed.
    moved: list[PendingFunction] = field(default_factory=list)
    #: True after `from __future__ import annotations`: annotations are not evaluated.
    postponed: bool = False
    #: True if this line sets a value that is restored after some imports: only they see it.
    passing: bool = False
    #: True if the file is of a backend whose own code generators may run in place of torch's.
    own_backend: bool = False
    #: The depth of nested calls that are read for their values; `returned` has these values.
    inlined: int = 0
    returned: list[Value] = field(default_factory=list)

    @property
    def reachable(self) -> bool:
        return self.reachability is Reachability.REACHABLE

    def having(self, **changes: Any) -> State:
        """A copy with changes. `dataclasses.replace` takes several times as long, and there are
        many points.
        """
        other = object.__new__(State)
        other.__dict__.update(self.__dict__, **changes)
        return other

    @property
    def silent(self) -> State:
        """A copy with a usage of its own, so that nothing is noted in the real usage."""
        return self.having(usage=Usage())

    def at(self, reachability: Reachability) -> State:
        return self if reachability is self.reachability else self.having(reachability=reachability)

    def excluded_by(self, test: Value) -> Reachability:
        """The reachability of code here that the outcome of `test` excludes."""
        if not self.reachable:
            return self.reachability
        because = because_of(test)
        return (
            Reachability.GATED
            if because >= VERSION and not because >= PRESENCE
            else Reachability.GUARDED
        )

    def undecided(self) -> Reachability:
        """The reachability of code here behind a check of torch with an unknown outcome."""
        return Reachability.UNDECIDED if self.reachable else self.reachability

    def define(self, function: LocalFunction) -> None:
        """Put the body of `function` on the list of bodies to walk."""
        if not self.inlined and function.node not in self.pending:
            pending = PendingFunction(function, self.reachability, gates=self.gates)
            self.pending[function.node] = pending
            self.moved.append(pending)

    def use(self, value: Value, *, called: bool = False) -> None:
        """Record that the patch uses one of its own functions or classes here. The bodies count as
        at least as reachable as this line, unless their definition is less reachable.
        """
        if isinstance(value, LocalClass):
            for name, member in value.members.items():
                # The caller of a private method is in the class.
                private = name.startswith("_") and not name.startswith("__")
                if isinstance(member, LocalFunction) and not (private and self.reachable):
                    self.use(member)
        if not isinstance(value, LocalFunction) or self.inlined:
            return
        pending = self.pending.get(value.node)
        if pending is None:
            return
        attempted = called and self.attempt is not None and pending.attempted
        if pending.reachability is None or self.reachability > pending.reachability:
            pending.reachability, pending.gates = self.reachability, self.gates or pending.gates
            self.moved.append(pending)
        pending.attempted = attempted


@dataclass(frozen=True)
class End:
    """The end of a block; `rest` is the reachability of the code after the statement that ends it.

    `test` is the version check that ends the block, if a version check does.
    """

    rest: Reachability
    test: Span | None = None

    @property
    def open(self) -> bool:
        """True if the code after the end may still run, because the check that ends the block is
        undecided.
        """
        return self.rest is Reachability.UNDECIDED


class ByType(Generic[Result]):
    """A function that dispatches by the exact type of a node.

    `functools.singledispatch` looks at bases too, and takes three times as long.
    """

    def __init__(self, otherwise: Callable[[Any, State], Result]) -> None:
        self._otherwise = otherwise
        self._functions: dict[type, Callable[[Any, State], Result]] = {}

    def __call__(self, node: ast.AST | None, state: State) -> Result:
        return self._functions.get(node.__class__, self._otherwise)(node, state)

    def register(self, kind: type[ast.AST]) -> Callable[[Function], Function]:
        def registered(function: Function) -> Function:
            self._functions[kind] = function
            return function

        return registered


@ByType
def read(node: ast.AST | None, state: State) -> Value:
    """Return the value of an expression, and note every name of torch in it."""
    return (
        UNKNOWN
        if node is None
        else unknown(*[read(child, state) for child in ast.iter_child_nodes(node)])
    )


@ByType
def execute(node: ast.stmt, state: State) -> End | None:
    """Walk one statement; return an End if it ends its block."""
    read(node, state)
    return None


def execute_block(statements: Sequence[ast.stmt], state: State) -> End | None:
    """Walk statements in order; return the first End."""
    ended, here = None, state
    for at, statement in enumerate(statements):
        check_time()
        if here.reachable and not here.inlined:
            here.usage.reached.add(statement.lineno)
        end = execute(
            statement,
            here.having(passing=True)
            if isinstance(statement, ast.Assign) and _only_for_imports(statements, at)
            else here,
        )
        if end is not None and ended is None:
            ended = end
            here = state.at(end.rest if state.reachable else state.reachability)
            if end.test is not None and state.reachable:
                here = here.having(left_by=end.test)
    return ended


def _only_for_imports(statements: Sequence[ast.stmt], at: int) -> bool:
    """True for `owner.name = other`, if `owner.name = saved` follows after nothing but imports and
    plain assignments. Then no caller of torch sees `other`.
    """
    target = _attribute_set(statements[at])
    for later in statements[at + 1 :] if target else ():
        if isinstance(later, (ast.Import, ast.ImportFrom)):
            continue
        if not isinstance(later, ast.Assign) or not isinstance(later.value, ast.Name):
            return False
        if _attribute_set(later) == target:
            return any(
                isinstance(each, ast.Assign)
                and ast.unparse(each.value) == target
                and ast.unparse(each.targets[0]) == later.value.id
                for each in statements[:at]
            )
    return False


def _attribute_set(statement: ast.stmt) -> str:
    """The text of the one attribute that an assignment sets; empty for any other statement."""
    if not isinstance(statement, ast.Assign) or not isinstance(
        target := statement.targets[-1], ast.Attribute
    ):
        return ""
    return ast.unparse(target)


# A usual file takes a hundredth of this time, and 14,000 generated lines take a tenth.
SECONDS = 30.0


_until = math.inf


class OutOfTime(Exception):
    """Reading the file takes too long."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Let `check_time` raise after this many more seconds of the process's CPU time."""
    global _until
    before, _until = _until, process_time() + seconds
    try:
        yield
    finally:
        _until = before


def check_time() -> None:
    """Raise OutOfTime if the limit of `time_limit` has passed."""
    if process_time() > _until:
        raise OutOfTime
