"""The sentinel's facts -> PG90x: whether this environment counts at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from patchgate.checks.codes import verdict_of
from patchgate.model.records import Kind, Verdict
from patchgate.model.serialization import failure_of

_verdict = partial(verdict_of, "machine")


def judge_row(torch: str, problem: str) -> Verdict:
    """PG901: the row has no environment."""
    return _verdict("PG901", Kind.INFRA, torch, "environment", "a working torch", problem)


def judge_undeviced(check: str, torch: str, subject: str, reason: str, needed: str = "a real device") -> Verdict:
    """PG906: what this needs is not here, and nothing is guessed."""
    found = _verdict("PG906", Kind.NOTE, torch, subject, needed, reason)
    return replace(found, check=check)


def judge_sentinel(torch: str, device: str, answer: Mapping[str, Any]) -> Verdict:
    """PG903 when every known fact came out exactly, PG902 otherwise."""
    subject = f"sentinel.{device}"
    failure = failure_of(dict(answer))
    if failure:
        return _verdict("PG902", Kind.INFRA, torch, subject, "known facts", failure.signature)
    facts = answer["facts"]
    wrong = [f"{k} = {facts.get(k)}, not {v}" for k, v in answer["expected"].items() if facts.get(k) != v]
    if wrong:
        return _verdict("PG902", Kind.INFRA, torch, subject, "known facts", "; ".join(wrong))
    return _verdict("PG903", Kind.PASS, torch, subject, "known facts", f"{len(answer['expected'])} as known")
