"""What the probe found of a patch's targets, imports, signatures and attributes -> PG10x verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from patchgate.checks.codes import verdict_of
from patchgate.model.paths import shown
from patchgate.model.records import Kind, Patch, Verdict


def judge_surface(torch: str, patch: Patch, answer: Mapping[str, Any], where: str | None) -> Iterator[Verdict]:
    """One verdict a name: PG105 where it holds, else the code that the probe gave. `where` is the claim's place."""
    for found in answer["findings"]:
        code, line = found["code"], found["line"]
        kind = Kind.PASS if code == "PG105" else Kind.REGRESSED
        place = f"{shown(patch.path)}:{line}" if line else where
        yield verdict_of("surface", code, kind, torch, found["subject"], found["expected"], found["actual"], place)
