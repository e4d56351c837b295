"""Changes over the last runs: transitions, flaky subjects, and failures grouped by their cause.

Failures are compared by signature, not by name. A result that the machine prevented is no baseline.
A failure counts as closed after two runs without it, not after one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise

from patchgate.model.results import (
    FailureGroup,
    Regressions,
    RunVerdicts,
    Transition,
    VerdictKey,
    VerdictSummary,
)

_ABSENT = VerdictSummary("green", "", "")
# The number of runs without a failure after which it counts as closed, and the number of colour
# changes after which a subject counts as flaky.
_SILENT, _TURNS = 2, 3
_BUCKETS = ("new", "still", "newly silent", "closed")
# WORKLOAD.DEVICE, not a name of torch, which has more parts or begins with `torch.`.
_CASE = re.compile(r"(?!torch\.)\w+\.\w+")
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?")

Signature = tuple[str, str]
Check = tuple[str, str, str]
# A check and a case; the case "" stands for all cases of the check.
CaseOfCheck = tuple[str, str, str, str]


def regressions_in(runs: Sequence[RunVerdicts]) -> Regressions:
    """All changes over these runs, which are given in order of time."""
    return Regressions(
        runs=tuple(runs),
        transitions=tuple(transitions(runs[-2], runs[-1])) if len(runs) > 1 else None,
        groups=tuple(failure_groups(runs)),
        flaky=tuple(flaky(runs)),
    )


def transitions(before: RunVerdicts, after: RunVerdicts) -> Iterator[Transition]:
    """Yield every subject that changed colour, or is red for another reason than before.

    If a subject exists only while it fails, it counts as green in a run that judged its case and
    does not list the subject.
    """
    changed = [
        key
        for key in {**before, **after}
        if before.get(key, _ABSENT)[:2] != after.get(key, _ABSENT)[:2]
    ]
    checks = {key[:3] for key in changed}
    runs = [(run, _judged_cases(run, checks)) for run in (before, after)]
    for key in sorted(changed):
        old, new = before.get(key, _ABSENT), after.get(key, _ABSENT)
        if (old.colour, new.colour) != ("green", "green") and all(
            _was_judged(key, *run) for run in runs
        ):
            yield Transition(key=key, before=old, after=new)


def flaky(runs: Sequence[RunVerdicts]) -> list[VerdictKey]:
    """Subjects that changed colour several times over these runs of unchanged content."""
    red = {key for run in runs for key, verdict in run.items() if verdict.colour == "red"}
    colours = {
        key: [run[key].colour for run in runs if key in run and run[key].colour != "grey"]
        for key in red
    }
    return sorted(
        key
        for key, seen in colours.items()
        if sum(one != other for one, other in pairwise(seen)) >= _TURNS
    )


def failure_groups(runs: Sequence[RunVerdicts]) -> list[FailureGroup]:
    """Group the failures of `runs` (oldest first) by signature: new groups first, closed last."""
    failures = [_failures_by_signature(run) for run in runs]
    now, earlier = (failures[-1], failures[:-1]) if failures else ({}, [])
    groups = [
        _group("still" if any(signature in run for run in earlier) else "new", signature, keys)
        for signature, keys in now.items()
    ]
    gone = {
        signature: keys
        for run in earlier
        for signature, keys in run.items()
        if signature not in now
    }
    checks = {key[:3] for keys in gone.values() for key in keys}
    judged = [(run, _judged_cases(run, checks)) for run in runs]
    for signature, keys in gone.items():
        last = max(number for number, run in enumerate(failures) if signature in run)
        # Count only runs that judged all these subjects again: a machine's failure shows nothing.
        silent = sum(all(_was_judged(key, *run) for key in keys) for run in judged[last + 1 :])
        groups.append(_group(_BUCKETS[1 + min(silent, _SILENT)], signature, keys))
    return sorted(
        groups, key=lambda g: (_BUCKETS.index(g.bucket), -len(g.keys), g.code, g.signature)
    )


def _was_judged(key: VerdictKey, run: RunVerdicts, cases: Mapping[CaseOfCheck, bool]) -> bool:
    """True if a run judged a subject. If the run does not list the subject, its case decides, since
    it may exist only while it fails.
    """
    return (
        run[key].colour != "grey"
        if key in run
        else cases.get((*key[:3], _case_in(key.item)), False)
    )


def _judged_cases(run: RunVerdicts, checks: Collection[Check]) -> dict[CaseOfCheck, bool]:
    """Return, for each case of the checks, True if all of its subjects were judged. The case ""
    stands for a whole check.
    """
    judged: dict[CaseOfCheck, bool] = {}
    for key, verdict in run.items():
        check = key[:3]
        if check in checks:
            for case in {"", _case_in(key.item)}:
                place = (*check, case)
                judged[place] = judged.get(place, True) and verdict.colour != "grey"
    return judged


@cache
def _case_in(item: str) -> str:
    """The item if it is a case, `stack.h200`; "" if it is about no single case."""
    return item if _CASE.fullmatch(item) else ""


def _failures_by_signature(run: RunVerdicts) -> dict[Signature, list[VerdictKey]]:
    failures: dict[Signature, list[VerdictKey]] = {}
    for key, verdict in run.items():
        if verdict.colour == "red":
            # Failures with one cause share the code, and the wording without figures and addresses.
            wording = _NUMBERS.sub("N", verdict.actual.splitlines()[0] if verdict.actual else "")
            failures.setdefault((verdict.code, wording), []).append(key)
    return failures


def _group(bucket: str, signature: Signature, keys: Sequence[VerdictKey]) -> FailureGroup:
    return FailureGroup(
        bucket=bucket, code=signature[0], signature=signature[1], keys=tuple(sorted(keys))
    )
