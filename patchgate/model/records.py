"""The records that all of patchgate uses: workload, case, observation, expectation and verdict.

They need the standard library only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from textwrap import dedent
from typing import TYPE_CHECKING, Any, TypeVar

from patchgate.model.policy import POLICY, Colour, Kind, Meaning

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    Class = TypeVar("Class")

    @dataclass_transform(frozen_default=True, kw_only_default=True)
    def record(kind: type[Class]) -> type[Class]:
        """Make a frozen dataclass whose fields are passed by name."""

else:
    record = dataclass(frozen=True, kw_only=True)


class Numerics(Enum):
    """The greatest change of the numbers that a patch claims."""

    BIT_IDENTICAL = "bit-identical"
    ROUNDING = "rounding"
    CHANGES = "changes"


class Cause(Enum):
    """The way in which the child process of a case failed."""

    RAISED = "raised"
    HUNG = "hung"
    EXITED = "exited"
    CRASHED = "crashed"
    OUT_OF_MEMORY = "out-of-memory"
    TAMPERED = "tampered"  #: the reply of the child, or a file of it, is invalid
    MISSING = "missing"  #: the patch needs something that is not installed
    MACHINE = "machine"


@dataclass(frozen=True, kw_only=True, eq=False)
class Unmeasured:
    """A fact that the probe could not take. It is never 0, and never equal to another fact."""

    reason: str

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return id(self)


FactValue = int | str | tuple[int, ...] | Unmeasured
Facts = dict[str, FactValue]


@record
class Budget:
    """The allowed change of a metric, as fractions of its unpatched value: -0.02 and 0.001 for `-2
    % .. 0.1 %`.
    """

    low: float
    high: float


@record
class Workload:
    """A small model with inputs, compiled in one way, and the `checks` that run it. With
    `premerge`, these checks run before a merge too.

    `dynamic_dim` is the only dynamic dimension of the first input. `reads` are the values that
    `.item()` returns, call by call. `needs_device` is the reason why no simulation can take the
    facts; `tokens` are the sizes with which the workload is timed. `asks` is the question that the
    probe answers with facts. `model` is the content of the file of a public model; `count` is how
    often the compiled part occurs in the published network.
    """

    name: str
    path: str
    dtype: str
    dynamic: bool = False
    dynamic_dim: int | None = None
    training: bool = False
    mode: str = "default"
    reads: tuple[float, ...] = ()
    checks: tuple[str, ...] = ()
    tokens: tuple[int, ...] = ()
    premerge: bool = True
    needs_device: str = ""
    asks: str = "observe"
    model: dict[str, Any] = field(default_factory=dict)
    count: int = 1


@record
class Case:
    """(torch, device, workload, patch or none): the one key of golden files, stores and reports."""

    torch: str  #: the release, as its environment is labelled
    device: str = ""  #: the name of a profile; empty where nothing is compiled
    workload: str = ""
    patch: str | None = None  #: the patch's id; None: unpatched

    @property
    def id(self) -> str:
        return ".".join((self.workload, self.device, self.torch, self.patch or "unpatched"))

    @property
    def name(self) -> str:
        """`residual_stack.h200`: the case as one torch release sees it."""
        return f"{self.workload}.{self.device}"


# Stages of a failure before the first step of the answer.
_BEFORE_ANY_STEP = ("start", "server")


@record
class Failure:
    """The reason why there are no facts."""

    cause: Cause
    stage: str  #: the compiler stage or step
    signature: (
        str  #: the exception and its text, or how the process ended; the same for the same failure
    )
    detail: str = ""
    #: file:line of the innermost line of the patch that took part; the patch if there is none
    where: str | None = None
    raised_at: str | None = None  #: file:line where it was raised, when that is not `where`
    #: packages that are not installed, or a name that torch lacks, such as `torch.npu`
    missing: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """`TypeError: 'int' object is not callable, during `lowering`, raised at
        torch/_inductor/graph.py:77`. If the process exited, the last line that it printed follows.
        """
        is_outside = self.cause in (Cause.OUT_OF_MEMORY, Cause.MACHINE)
        cause = f"{self.cause.value}: " if is_outside else ""
        stage = f", during `{self.stage}`" if self.stage not in _BEFORE_ANY_STEP else ""
        place = f", raised at {self.raised_at}" if self.raised_at else ""
        printed = self.detail.strip().splitlines() if self.cause is Cause.EXITED else []
        # The patch may have printed anything, such as control codes for the terminal.
        shown = "".join(filter(str.isprintable, printed[-1][:200])) if printed else ""
        last = f"; it printed: {shown}" if shown else ""
        return f"{cause}{self.signature}{stage}{place}{last}"


@record
class Observation:
    """The measurements of one case: `facts` are compared exactly.

    `environment` is shown; observations of different environments are not compared. `artifacts` are
    paths that nothing compares. `ran` are the lines of the patch that ran, `took` the outcomes of
    its conditions, `stubbed` the names of stubs that were used (`StubUse`), and `callers` the lines
    of torch that called an original, by the name of the original.
    """

    case: Case
    failure: Failure | None = None
    facts: Facts = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    artifacts: dict[str, str] = field(default_factory=dict)
    ran: tuple[int, ...] = ()
    took: tuple[tuple[int, str], ...] = ()
    stubbed: tuple[dict[str, Any], ...] = ()
    callers: dict[str, str] = field(default_factory=dict)


@record
class Expectation:
    """The record of one case: its facts, and the signature of a known failure."""

    facts: Facts = field(default_factory=dict)
    known_failure: str | None = None
    recorded: bool = True


@record
class Command:
    """A command of patchgate that a reader may type next."""

    name: str  #: the subcommand: `gate`
    arguments: tuple[str, ...] = ()  #: the arguments as typed, quoted for a shell
    when: str = ""  #: the condition under which to type it: `if the change is meant`
    is_again: bool = False  #: True for the command that was typed before

    def __str__(self) -> str:
        return " ".join(("patchgate", self.name, *self.arguments))


#: The item of a verdict that says why a patch was not run.
PATCH_RUN = "run"


@record
class Verdict:
    """One judgement of one check on one case."""

    code: str  #: stable: `PG301`
    kind: Kind  #: the result of the comparison; decides the colour
    check: str  #: the check that judged, as reports list it
    case: Case  #: workload and device are empty if the verdict is not about a compile
    #: the line of a report's matrix: the case's name, or what was looked at (`versions`, `calls`)
    item: str
    fact: str = ""  #: the aspect of the item: a fact's name, `bits`, `latency`
    expected: str = ""  #: one phrase
    actual: str = ""  #: one phrase
    brief: str = ""  #: a short form of `actual`, for a list
    share: float = 0.0  #: the size of the difference as a share: of elements, or of growth
    #: the probability that one sampled token changes, and the ends of its interval
    chance: tuple[float, float, float] | None = None
    is_rounding: bool = False  #: outputs differ, by no more than another rounding explains
    applies: bool = True  #: running the patch does something on this torch
    before: str | None = None  #: the fact's value without the patch, if the verdict is on a fact
    after: str | None = None  #: the fact's value with the patch
    recorded: str | None = None  #: the value that golden holds for the patched case
    where: str | None = None  #: file:line, or a file of the results
    why: str = ""  #: why this matters
    advice: str = ""  #: the next step, in words
    commands: tuple[Command, ...] = ()  #: the commands to type, in this order
    strict: bool = False  #: True if notes are red

    @property
    def colour(self) -> Colour:
        """Red, green, or grey, by the policy."""
        meaning = POLICY[self.kind]
        if meaning is Meaning.RED or (self.strict and meaning is Meaning.NOTE):
            return Colour.RED
        return Colour.GREEN if meaning is Meaning.GREEN else Colour.GREY

    @property
    def is_judged(self) -> bool:
        """True if the question was answered: neither the machine nor a missing figure prevented an
        answer.
        """
        return POLICY[self.kind] is not Meaning.NOT_JUDGED

    @property
    def headline(self) -> str:
        """The result in few words, for a list."""
        return self.brief or self.actual

    @property
    def torch(self) -> str:
        return self.case.torch

    @property
    def subject(self) -> str:
        return f"{self.item} {self.fact}".rstrip()


@record
class Code:
    """A stable verdict code, and its text for `patchgate explain`."""

    code: str  #: `PG301`
    title: str  #: a few words, as a heading
    what: str  #: the event
    why: str  #: why it matters
    fix: str  #: the fix, in words
    commands: tuple[Command, ...] = ()  #: the commands to type, in this order
    paste: str = ""  #: lines to paste into the patch


def read_codes(text: str) -> tuple[Code, ...]:
    """Read codes from a text. Each code has a line `PG101 title` and, indented below it, the event,
    `Why: ...`, `Fix: ...`, and possibly `Paste:` with lines of a patch.
    """
    codes = []
    for block in re.split(r"\n(?=PG\d)", text.strip()):
        heading, _, body = block.partition("\n")
        code, _, title = heading.partition(" ")
        body, _, paste = body.partition("    Paste:\n")
        what, why, fix = re.split(r" (?:Why|Fix): ", " ".join(body.split()))
        lines = dedent(paste).rstrip()
        codes.append(Code(code=code, title=title, what=what, why=why, fix=fix, paste=lines))
    return tuple(codes)
