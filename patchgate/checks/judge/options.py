"""Options and modes of torch.compile against golden -> PG43x: a verdict for each that moved, one for all that did not.

Decides what is told one by one: hundreds of options that hold are one line, and so are those of a new release.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from patchgate.checks.judge.facts import judge_facts
from patchgate.model.records import Kind, Verdict

_TOGETHER = (Kind.PASS, Kind.NEW)


def judge_options(**held: Any) -> Iterator[Verdict]:
    """Verdicts of one release, `held` as for `judge_facts`."""
    told = list(judge_facts("options", **held))
    yield from (verdict for verdict in told if verdict.kind not in _TOGETHER)
    for kind in _TOGETHER:
        alike = [verdict for verdict in told if verdict.kind is kind]
        if alike:
            subject = alike[0].subject.partition(" ")[0]
            yield replace(alike[0], subject=subject, expected="as recorded", actual=f"{len(alike)} options and modes")
