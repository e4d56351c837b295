"""What a case must get against what it got: caught for the right reason, missed, or a false alarm.

And how certain the shares are: an interval for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.corpus.cases import FAULT, HOSTILE, SOUND, UNCHANGED, CorpusCase
from patchgate.lint.rules import CODES
from patchgate.model.statistics import share_interval


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """What a case got."""

    red: Mapping[str, Mapping[str, tuple[str, ...]]]  #: release -> red code -> the places that its verdicts name
    grey: tuple[str, ...] = ()  #: why a cell could not be judged
    seconds: float = 0.0  #: how long it took
    judged: int = 0  #: how many cells gave a verdict


@dataclass(frozen=True, kw_only=True)
class Score:
    """One line of the scoreboard."""

    case: CorpusCase
    expected: tuple[str, ...]  #: codes, of all releases
    found: tuple[str, ...]
    faults: tuple[str, ...] = ()  #: what did not come out as expected
    seconds: float = 0.0  #: as in `CaseResult`
    judged: int = 0
    outcome: str = ""  #: "caught", "quiet", "MISSED", "FALSE ALARM", "not on these rows" or "needs ..."

    @property
    def right(self) -> bool:
        return not self.faults


def score(case: CorpusCase, result: CaseResult, rows: Iterable[str]) -> Score:
    """`rows` are the releases that were run; static codes are expected on every release that lint knows."""
    if case.needs:
        return Score(case=case, expected=_codes(case), found=(), outcome=f"needs {case.needs}")
    faults, ran = list(result.grey), set(rows)
    seen: set[str] = set()
    for torch, red in result.red.items():
        static_only = torch not in ran
        wanted = [e for e in case.expected if e.covers(torch) and not (static_only and not is_static(e.code))]
        seen |= {expected.code for expected in wanted}
        for expected in wanted:
            if expected.code not in red:
                faults.append(f"{torch}: {expected.code} missing")
            elif expected.place and expected.place not in red[expected.code]:
                faults.append(
                    f"{torch}: {expected.code} at {', '.join(sorted(red[expected.code]))}, not {expected.place}"
                )
        for code in sorted(red.keys() - {expected.code for expected in wanted}):
            faults.append(f"{torch}: {code} unexpected at {', '.join(sorted(red[code]))}")
    return Score(
        case=case,
        expected=_codes(case),
        found=tuple(sorted({code for red in result.red.values() for code in red})),
        faults=tuple(faults),
        seconds=result.seconds,
        judged=result.judged,
        outcome=_outcome(case, bool(seen), bool(faults)),
    )


def is_static(code: str) -> bool:
    """Whether lint finds it, on every release of the API index."""
    return code in {known.code for known in CODES}


def _codes(case: CorpusCase) -> tuple[str, ...]:
    return tuple(sorted({expected.code for expected in case.expected}))


def _outcome(case: CorpusCase, seen: bool, faulty: bool) -> str:
    if faulty:
        return "FALSE ALARM" if case.sound else "MISSED"
    if case.sound or (case.kind == HOSTILE and not case.expected):
        return "quiet"
    return "caught" if seen else "not on these rows"


@dataclass(frozen=True, kw_only=True)
class Share:
    """`hits` of `total`, with its interval."""

    what: str
    hits: int
    total: int

    def __str__(self) -> str:
        low, high = share_interval(self.hits, self.total) if self.total else (0.0, 1.0)
        share = self.hits / self.total if self.total else 0.0
        return f"{self.what}: {self.hits} of {self.total} ({share:.0%}, 95 % interval {low:.0%} to {high:.0%})"


def shares(scores: Iterable[Score]) -> list[Share]:
    """Recall by class and over all public cases; false alarms; hostile patches; seeded faults and A/A."""
    counted = [score for score in scores if score.outcome in ("caught", "MISSED", "quiet", "FALSE ALARM")]
    by_kind: dict[str, list[Score]] = {}
    for score in counted:
        by_kind.setdefault(score.case.kind, []).append(score)
    sound, hostile, faults, unchanged = (by_kind.pop(kind, []) for kind in (SOUND, HOSTILE, FAULT, UNCHANGED))
    public = [score for of_kind in by_kind.values() for score in of_kind]
    return [
        *(_recall(f"caught, {kind}", of_kind) for kind, of_kind in sorted(by_kind.items())),
        _recall("caught, all classes", public),
        Share(what="false alarms on sound patches", hits=sum(not score.right for score in sound), total=len(sound)),
        _recall("hostile patches with their own verdict", hostile),
        _recall("seeded faults detected", faults),
        Share(
            what="false alarms in unchanged cells",
            hits=sum(len(score.faults) for score in unchanged),
            total=sum(score.judged for score in unchanged),
        ),
    ]


def _recall(what: str, scores: list[Score]) -> Share:
    return Share(what=what, hits=sum(score.right for score in scores), total=len(scores))
