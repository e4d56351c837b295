"""The records that rules read: how a patch uses and changes one torch release.

`Usage` holds them all. A `Span` is the place of a record; its `Reachability` says whether the line
runs in the release.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cached_property
from pathlib import Path

from patchgate.lint.index.read_module import FunctionDefinition
from patchgate.lint.index.records import Arguments, Function
from patchgate.lint.index.resolve import Found, Modules, member
from patchgate.model.records import record

FunctionNode = FunctionDefinition | ast.Lambda


class Reachability(IntEnum):
    """How certainly a line runs in this release; the least certain comes first."""

    #: It cannot run, or fails without harm (`hasattr`, `try`).
    GUARDED = 1
    #: A version check keeps it from running.
    GATED = 2
    #: It lies behind a check of the version, or of torch's names, whose outcome is not known.
    UNDECIDED = 3
    REACHABLE = 4


class Presence(Enum):
    """The presence of a name in a release. MAYBE means that a `__getattr__` or a subclass may
    provide the name.
    """

    PRESENT = "present"
    MAYBE = "maybe"
    MISSING = "missing"


@dataclass(frozen=True, kw_only=True, order=True)
class Span:
    """A piece of one source line. Lines and columns count from 1. Columns count UTF-8 bytes until
    the span is shown.
    """

    line: int
    column: int
    width: int = 1

    @classmethod
    def of(cls, node: ast.expr | ast.stmt | ast.alias) -> Span:
        end = node.end_col_offset if node.end_lineno == node.lineno else None
        return cls(
            line=node.lineno, column=node.col_offset + 1, width=max(1, (end or 0) - node.col_offset)
        )

    @classmethod
    def of_attribute(cls, node: ast.Attribute) -> Span:
        """The attribute's own name, not the whole chain."""
        end = node.end_col_offset or len(node.attr)
        return cls(
            line=node.end_lineno or node.lineno,
            column=end - len(node.attr) + 1,
            width=len(node.attr),
        )

    @classmethod
    def of_function_name(cls, node: FunctionDefinition) -> Span:
        """The name after `def`."""
        before = len("async def " if isinstance(node, ast.AsyncFunctionDef) else "def ")
        return cls(
            line=node.lineno, column=node.col_offset + before + 1, width=len(node.name.encode())
        )


@record
class Use:
    """One place of the patch that concerns torch.

    `gates` are the version checks around the place, outermost first.
    """

    span: Span
    reachability: Reachability
    gates: tuple[Span, ...] = ()

    @property
    def reachable(self) -> bool:
        return self.reachability is Reachability.REACHABLE

    @property
    def why_not(self) -> str:
        """The end of a message: the reason why the line may not run in this release."""
        texts = {
            Reachability.GATED: " (excluded by the version check)",
            Reachability.UNDECIDED: " (behind a condition that lint cannot decide)",
        }
        return texts.get(self.reachability, "")


@record
class Reference(Use):
    """A name of torch that the patch needs. `owner` is the object on which it was looked up.

    `kind`: "module", "name" (of a module), "attribute" (of a class or object), "config" (an
    option), or "option" (a key that a function of torch itself reads from its options). `path` is
    the way through the patch to this place: the number of the function (0 is the module itself),
    then line and outcome of each undecided test around it.
    """

    kind: str
    owner: str
    name: str
    presence: Presence
    path: tuple[int, ...] = (0,)

    @property
    def dotted(self) -> str:
        return f"{self.owner}.{self.name}" if self.owner else self.name


@record
class Definition:
    """A name that the patch itself sets on `owner`, when it has made `after` references. `path` has
    the same meaning as in Reference.

    The owner "" is an object of unknown type, "*" is any object. The name "*" is a computed name.
    """

    owner: str
    name: str
    after: int
    path: tuple[int, ...]


@record
class Rebinding(Use):
    """An assignment to a name of torch; if `inherited`, a method of the patch that overrides one of
    torch.
    """

    #: The dotted name that is assigned.
    target: str
    on_class: bool
    presence: Presence
    #: The place where torch defines the replaced name; None if it has no such name.
    origin: str | None
    #: The replaced function; None if torch has no such function.
    original: Function | None
    #: The replacement, if it is a function of the patch.
    function: FunctionNode | None
    #: The last name of the assigned value (`c` in `torch.a = b.c`); empty if it has no name.
    called: str = ""
    #: How it is bound: "static", "class", "property", "cached-property"; None for a plain function.
    form: str | None = None
    inherited: bool = False
    #: True if a decorator may change the parameters of the replacement.
    wrapped: bool = False
    #: The version check of an earlier `return` that this release takes.
    left_by: Span | None = None
    #: True if the replacement is temporary, as in a test, and so not for all callers.
    mocked: bool = False
    #: True if the name is mocked, or assigned in a function of a file of tests.
    tested: bool = False

    @property
    def name(self) -> str:
        return self.target.rpartition(".")[2]

    def replaced_in(self, release: Modules) -> Found | None:
        """The replaced name in another release."""
        if not self.on_class:
            return release.resolve(self.target)
        return member(release, self.target.rpartition(".")[0], self.name)

    @property
    def short_target(self) -> str:
        """CLASS.METHOD or MODULE.FUNCTION, without the packages."""
        return ".".join(self.target.split(".")[-2:])


@record
class Hook(Use):
    """A function that the patch sets on an object of torch, such as `self.hook = f` in a replaced
    `__init__`.
    """

    #: The class of the object.
    owner: str
    name: str
    function: FunctionNode

    @property
    def dotted(self) -> str:
        return f"{self.owner}.{self.name}"


@record
class Call(Use):
    """A call of a function of torch from the patch."""

    dotted: str
    passed: Arguments
    #: True if the first parameter is already bound.
    bound: bool
    #: Why the function does not take the arguments; None if it takes them.
    problem: str | None


@record
class Traps:
    """The traps of one version comparison, judged by its values in the spellings of a release."""

    textual: bool = False
    numeric: bool = False
    misorders: bool = False
    local: bool = False
    nightly_below: bool = False
    nightly_above: bool = False
    #: True if it tells the first release of a minor version, written x.y, from the later ones.
    splits: bool = False

    def __bool__(self) -> bool:
        nightly = self.nightly_below or self.nightly_above
        return self.textual or self.numeric or self.local or nightly or self.splits


@record
class Comparison(Use):
    """A comparison of versions whose meaning differs from its text."""

    text: str
    traps: Traps


@record
class Gate(Use):
    """A test of the torch version. `holds` is its outcome in this release; None if the outcome
    depends on the build.
    """

    text: str
    holds: bool | None
    #: The test holds in some spelling of the release: final, local, nightly or candidate.
    holds_somewhere: bool
    #: The test holds in each spelling.
    holds_everywhere: bool = False


@record
class Import(Use):
    """An import of another file of the project."""

    file: Path


@dataclass(kw_only=True)
class Usage:
    """Everything that one file needs and changes of one torch release, in the order of the walk."""

    references: list[Reference] = field(default_factory=list)
    rebindings: list[Rebinding] = field(default_factory=list)
    overrides: list[Rebinding] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    gates: list[Gate] = field(default_factory=list)
    definitions: list[Definition] = field(default_factory=list)
    #: Missing names for which the patch asks with `hasattr`.
    tested: set[str] = field(default_factory=set)
    imports: list[Import] = field(default_factory=list)
    #: The first lines of the file's statements that run in the release.
    reached: set[int] = field(default_factory=set)
    #: The file imports a package of a vendor, which adds names to torch.
    extended_by_vendor: bool = False
    #: Another file of the project imports such a package, which adds public names.
    vendor_in_project: bool = False
    #: Names (`Owner.name`) that other files of the project replace in torch or add to it.
    set_elsewhere: frozenset[str] = frozenset()
    #: From this line on, importing the file may have loaded modules of torch it does not name.
    loads_from: int = 0

    @cached_property
    def uses(self) -> Counter[str]:
        """The number of references to each name of torch. Use it only after the whole walk."""
        return Counter(each.dotted for each in self.references)

    def is_set_elsewhere(self, dotted: str) -> bool:
        """True if another file sets the name on its owner, or on a package that re-exports it."""
        *owners, name = dotted.split(".")
        return any(f"{owner}.{name}" in self.set_elsewhere for owner in owners)

    def define(self, owner: str, name: str, path: tuple[int, ...]) -> None:
        self.definitions.append(
            Definition(owner=owner, name=name, after=len(self.references), path=path)
        )
