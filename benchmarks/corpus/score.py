"""Score a case: caught for the right reason, missed, or a false alarm.

The shares of lint and of the gate, by class, have Wilson's 95 % interval.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from benchmarks.corpus.cases import (
    FAULT,
    GATE,
    HOSTILE,
    SOUND,
    UNCHANGED,
    CorpusCase,
    Expected,
    tool_of,
)
from benchmarks.corpus.checks import LINT
from patchgate.model.results import Example
from patchgate.model.statistics import share_interval


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """The results of one case."""

    #: release -> red code -> the places that its verdicts name
    red: Mapping[str, Mapping[str, tuple[str, ...]]]
    #: release -> red code -> `check item fact` of its verdicts
    about: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  #: codes of the notes, and of what cannot be run here
    reasons: tuple[str, ...] = ()  #: their texts
    grey: tuple[str, ...] = ()  #: why a cell could not be judged
    seconds: float = 0.0  #: how long it took
    judged: int = 0  #: how many cells gave a verdict
    examples: tuple[Example, ...] = ()  #: the first verdict or finding of each red code


@dataclass(frozen=True, kw_only=True)
class Score:
    """One line of the scoreboard."""

    case: CorpusCase
    expected: tuple[str, ...]  #: codes, of all releases
    found: tuple[str, ...]
    #: Tool -> whether all that it must see was seen; without a tool that must see nothing on these
    #: rows.
    met: Mapping[str, bool] = field(default_factory=dict)
    faults: tuple[str, ...] = ()  #: what did not come out as expected
    seconds: float = 0.0  #: as in `CaseResult`
    judged: int = 0
    examples: tuple[Example, ...] = ()  #: as in `CaseResult`, of the codes that it must get
    notes: tuple[str, ...] = ()  #: as in `CaseResult`
    reasons: tuple[str, ...] = ()  #: as in `CaseResult`
    #: "caught", "caught, and more", "quiet", "ANOTHER REASON", "MISSED", "FALSE ALARM", "LOST",
    #: "not all judged", "not on these rows" or "needs ..."
    outcome: str = ""

    @property
    def right(self) -> bool:
        return not self.faults

    @property
    def settled(self) -> bool:
        """Right, or wrong as its corpus.toml says."""
        return self.right or (bool(self.case.known) and self.outcome != LOST)

    def alarms(self, tool: str) -> bool:
        """True if the tool was red."""
        return any(tool_of(code) == tool for code in self.found)


def score(case: CorpusCase, result: CaseResult, rows: Iterable[str]) -> Score:
    """`rows` are the releases that were run; what lint must see is expected on every release that
    it knows.
    """
    if case.needs:
        return Score(case=case, expected=_codes(case), found=(), outcome=f"needs {case.needs}")
    faults, ran = list(result.grey), set(rows)
    met: dict[str, bool] = {}
    for torch, red in result.red.items():
        wanted = [e for e in case.expected if e.covers(torch) and (torch in ran or e.tool == LINT)]
        for expected in wanted:
            fault = _fault(expected, red, result.about.get(torch, {}))
            met[expected.tool] = met.get(expected.tool, True) and not fault
            faults += [f"{torch}: {fault}"] if fault else []
        for code in sorted(red.keys() - {code for expected in wanted for code in expected.codes}):
            text = next(
                (f": {example.text}" for example in result.examples if example.code == code), ""
            )
            faults.append(f"{torch}: {code} unexpected at {', '.join(sorted(red[code]))}{text}")
    return Score(
        case=case,
        expected=_codes(case),
        found=tuple(sorted({code for red in result.red.values() for code in red})),
        met=met,
        faults=tuple(faults),
        seconds=result.seconds,
        judged=result.judged,
        examples=tuple(example for example in result.examples if example.code in _codes(case)),
        notes=result.notes,
        reasons=result.reasons,
        outcome=_outcome(
            case, met, bool(faults), {code for red in result.red.values() for code in red}
        ),
    )


def lost(case: CorpusCase, reason: str) -> Score:
    """The line of a case that ended without a result: a fault of ours. It counts nowhere."""
    # The last line of a traceback says what was raised.
    return Score(
        case=case,
        expected=_codes(case),
        found=(),
        faults=(reason.rpartition("\n")[2],),
        outcome=LOST,
    )


def _fault(
    expected: Expected, red: Mapping[str, tuple[str, ...]], about: Mapping[str, tuple[str, ...]]
) -> str:
    """The difference between the red verdicts of a release and what is expected there; empty when
    there is none.
    """
    places = {code: red[code] for code in expected.codes if code in red}
    if not places:
        return f"{' or '.join(expected.codes)} missing"
    if expected.place and not any(expected.place in at for at in places.values()):
        at = ", ".join(sorted({place for at in places.values() for place in at}))
        return f"{', '.join(places)} at {at}, not {expected.place}"
    if expected.about and not any(
        expected.about in subject for code in places for subject in about.get(code, ())
    ):
        return f"{', '.join(places)} not about {expected.about}"
    return ""


def _codes(case: CorpusCase) -> tuple[str, ...]:
    return tuple(sorted({code for expected in case.expected for code in expected.codes}))


def _outcome(case: CorpusCase, met: Mapping[str, bool], faulty: bool, red: Collection[str]) -> str:
    if case.sound and faulty:
        return "FALSE ALARM" if red else "not all judged"
    if case.sound:
        return "quiet"
    if met and all(met.values()):
        return "caught, and more" if faulty else "caught"
    if met and faulty:
        return "ANOTHER REASON" if any(tool_of(code) == GATE for code in red) else "MISSED"
    return "quiet" if case.kind == HOSTILE and not case.expected else "not on these rows"


@dataclass(frozen=True, kw_only=True)
class Share:
    """`hits` of `total`, with its interval."""

    hits: int
    total: int

    def __str__(self) -> str:
        if not self.total:
            return "-"
        low, high = share_interval(self.hits, self.total)
        return f"{self.hits} of {self.total} ({low:.0%} to {high:.0%})"


@dataclass(frozen=True, kw_only=True)
class ClassShares:
    """One class: its broken patches that were caught, and their sound forms that were red."""

    kind: str
    caught: Share  #: by whoever must see it
    by: Mapping[str, Share]  #: tool -> caught, of those that it must see
    alarms: Mapping[str, Share]  #: tool -> red, of the sound ones that it judged


def by_class(scores: Iterable[Score]) -> list[ClassShares]:
    """A line for each class, then one for all.

    A sound patch is counted with the broken one that it corrects.
    """
    counted = [score for score in scores if score.outcome in _COUNTED]
    kinds = {score.case.id: score.case.kind for score in counted if score.case.kind not in _APART}
    groups: dict[str, list[Score]] = {}
    for score in counted:
        if score.case.kind == SOUND:
            groups.setdefault(
                kinds.get(score.case.id.removesuffix("-fixed"), "no broken form"), []
            ).append(score)
        elif score.case.id in kinds:
            groups.setdefault(score.case.kind, []).append(score)
    rows = [_class_shares(kind, groups[kind]) for kind in sorted(groups)]
    return [*rows, _class_shares("all", [score for group in groups.values() for score in group])]


LOST = "LOST"
_COUNTED = ("caught", "caught, and more", "ANOTHER REASON", "MISSED", "quiet", "FALSE ALARM")
_APART = (SOUND, HOSTILE, FAULT, UNCHANGED)


def _class_shares(kind: str, scores: list[Score]) -> ClassShares:
    broken = [score for score in scores if score.case.kind != SOUND]
    sound = [score for score in scores if score.case.kind == SOUND]
    judges = {
        tool: [score for score in sound if tool in _judges(score.case)] for tool in (LINT, GATE)
    }
    by = {tool: [score.met[tool] for score in broken if tool in score.met] for tool in (LINT, GATE)}
    return ClassShares(
        kind=kind,
        caught=Share(
            hits=sum(score.outcome.startswith("caught") for score in broken), total=len(broken)
        ),
        by={tool: Share(hits=sum(met), total=len(met)) for tool, met in by.items()},
        alarms={
            tool: Share(hits=sum(s.alarms(tool) for s in of), total=len(of))
            for tool, of in judges.items()
        },
    )


def _judges(case: CorpusCase) -> set[str]:
    return {LINT if cell == LINT else GATE for cell in case.cells}


@dataclass(frozen=True, kw_only=True)
class CodeCounts:
    """In how many cases a code of the gate was red, or a note."""

    code: str
    expected: int = 0  #: broken ones that name it as theirs
    others: int = 0  #: broken ones that name another
    sound: int = 0  #: false alarms
    notes: int = 0  #: sound ones that it is a note on


def by_code(scores: Iterable[Score]) -> list[CodeCounts]:
    """A line for each code of the gate that any public patch got."""
    counted = [
        score
        for score in scores
        if score.outcome in _COUNTED and score.case.kind not in (HOSTILE, FAULT)
    ]
    codes = sorted(
        {
            code
            for score in counted
            for code in (*score.found, *score.notes)
            if tool_of(code) == GATE
        }
    )
    return [
        CodeCounts(
            code=code,
            expected=sum(code in score.found and code in score.expected for score in counted),
            others=sum(
                code in s.found and code not in s.expected for s in counted if not s.case.sound
            ),
            sound=sum(code in score.found for score in counted if score.case.sound),
            notes=sum(code in score.notes for score in counted if score.case.sound),
        )
        for code in codes
    ]


def shares(scores: Iterable[Score]) -> dict[str, Share]:
    """Count cases that are no public patch: hostile ones, seeded faults, and cells in which nothing
    was changed.
    """
    counted = [score for score in scores if score.outcome in _COUNTED]
    of = {
        kind: [score for score in counted if score.case.kind == kind]
        for kind in (HOSTILE, FAULT, UNCHANGED)
    }
    return {
        "hostile patches with their own verdict": _right(of[HOSTILE]),
        "seeded faults detected": _right(of[FAULT]),
        "false alarms in unchanged cells": Share(
            hits=sum(len(score.faults) for score in of[UNCHANGED]),
            total=sum(score.judged for score in of[UNCHANGED]),
        ),
    }


def _right(scores: list[Score]) -> Share:
    return Share(hits=sum(score.right for score in scores), total=len(scores))
