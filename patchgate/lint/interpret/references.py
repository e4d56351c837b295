"""What a patch touches of one torch release: the records that the rules read.

Decides the words (a touch, a rebinding, a call, a comparison, a test). Refuses to know how they are found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from patchgate.lint.index.records import Function
from patchgate.lint.interpret.gates import Traps
from patchgate.lint.interpret.values import LocalFunction, Value


class Live(Enum):
    """LIVE: runs in this release. GATED: a version gate keeps it out. QUIET: cannot run, or is guarded."""

    LIVE = "live"
    GATED = "gated"
    QUIET = "quiet"


class Presence(Enum):
    PRESENT = "present"
    MAYBE = "maybe"
    MISSING = "missing"


@dataclass(frozen=True, kw_only=True, order=True)
class Spot:
    """A piece of one source line; columns count from 1."""

    line: int
    column: int
    width: int = 1


@dataclass(frozen=True, kw_only=True)
class Touch:
    """A name of torch that the patch needs. `owner` is what it was looked up on, `path` as `Walk` has it."""

    spot: Spot
    kind: str
    owner: str
    name: str
    presence: Presence
    live: Live
    gates: tuple[Spot, ...] = ()
    path: tuple[int, ...] = (0,)

    @property
    def dotted(self) -> str:
        return f"{self.owner}.{self.name}" if self.owner else self.name


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A name that the patch itself puts on `owner`, after the first `after` touches of the walk."""

    owner: str
    name: str
    after: int
    path: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Rebinding:
    """An assignment that replaces a name of torch, or (`inherited`) a method of the patch's own that overrides one.

    `original` is None when torch has no such function.
    """

    spot: Spot
    target: str
    on_class: bool
    presence: Presence
    origin: str | None
    original: Function | None
    replacement: Value
    live: Live
    form: str | None = None
    gates: tuple[Spot, ...] = ()
    inherited: bool = False

    @property
    def name(self) -> str:
        return self.target.rpartition(".")[2]

    @property
    def function(self) -> LocalFunction | None:
        return self.replacement if isinstance(self.replacement, LocalFunction) else None


@dataclass(frozen=True, kw_only=True)
class Calling:
    """A call of a function of torch from the patch; `bound` calls leave out the first parameter."""

    spot: Spot
    dotted: str
    function: Function
    bound: bool
    positional: int
    keywords: tuple[str, ...]
    starred: bool
    live: Live


@dataclass(frozen=True, kw_only=True)
class Comparison:
    spot: Spot
    text: str
    traps: Traps
    live: Live


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A test on the torch version, and whether it holds in this release."""

    spot: Spot
    text: str
    holds: bool | None
    live: Live


@dataclass(kw_only=True)
class Usage:
    """All that one file does to and needs of one torch release."""

    touches: list[Touch] = field(default_factory=list)
    rebindings: list[Rebinding] = field(default_factory=list)
    overrides: list[Rebinding] = field(default_factory=list)
    callings: list[Calling] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    gates: list[Gate] = field(default_factory=list)
    defined: list[Definition] = field(default_factory=list)

    def define(self, owner: str, name: str, path: tuple[int, ...]) -> None:
        self.defined.append(Definition(owner=owner, name=name, after=len(self.touches), path=path))
