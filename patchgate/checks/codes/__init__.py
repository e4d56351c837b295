"""The catalogue of verdict codes: PG1xx surface ... PG9xx machine.

Decides which codes exist and what `patchgate explain` says. Refuses to know
when a code is raised; a meta test sees to it that each one is.
"""

from __future__ import annotations

from patchgate.checks.codes import (
    cache,
    compilework,
    gate,
    graph,
    kernels,
    latency,
    lint,
    machine,
    modelled,
    options,
    parity,
    reach,
    recompiles,
    shapes,
    surface,
)
from patchgate.model.records import Code, Kind, Verdict

FAMILIES = (
    surface,
    lint,
    gate,
    kernels,
    graph,
    recompiles,
    shapes,
    options,
    parity,
    compilework,
    latency,
    modelled,
    cache,
    reach,
    machine,
)
CODES: dict[str, Code] = {code.code: code for family in FAMILIES for code in family.CODES}


def verdict_of(
    check: str,
    code: str,
    kind: Kind,
    torch: str,
    subject: str,
    expected: str,
    actual: str,
    where: str | None = None,
    next: str | None = None,
) -> Verdict:
    """A verdict whose why is that of its code, and so is its next step where nothing better is known."""
    told = CODES[code]
    return Verdict(
        code=code,
        kind=kind,
        check=check,
        torch=torch,
        subject=subject,
        expected=expected,
        actual=actual,
        where=where,
        why=told.why,
        next=told.fix if next is None else next,
    )
