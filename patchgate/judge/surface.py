"""What the probe found of a patch's targets, imports, signatures and attributes -> PG10x verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from patchgate.codes import CODES
from patchgate.model import Kind, Patch, Verdict
from patchgate.project import shown


def judge_surface(torch: str, patch: Patch, answer: Mapping[str, Any], where: str | None) -> Iterator[Verdict]:
    """One verdict a name: PG105 where it holds, else the code that the probe gave. `where` is the claim's place."""
    for found in answer["findings"]:
        code = CODES[found["code"]]
        holds = code.code == "PG105"
        line = found["line"]
        yield Verdict(
            code=code.code,
            kind=Kind.PASS if holds else Kind.REGRESSED,
            check="surface",
            torch=torch,
            subject=found["subject"],
            expected=found["expected"],
            actual=found["actual"],
            where=f"{shown(patch.path)}:{line}" if line else where,
            why=code.why,
            next=code.fix,
        )
