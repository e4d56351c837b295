"""Does torch.compile know the recorded options, and do its modes set them as recorded?"""

from __future__ import annotations

from dataclasses import replace

from patchgate.checks.framework import Case, Check, CheckContext, Instance, Kind, Patch, Verdicts
from patchgate.checks.framework.golden_verdicts import (
    Compared,
    fact_codes,
    fact_verdicts,
    judge_facts,
)

FAMILY = "options"
CODES = fact_codes(FAMILY, noun="option")


def _cases(patch: Patch, torch: str) -> list[Case]:
    return [Case(torch=torch, device="cpu", workload="options", patch=patch.id)]


@Check(cases=_cases)
def ask_options(context: CheckContext, at: Instance) -> Verdicts:
    return fact_verdicts(context, FAMILY, at.case, judge_options)


def judge_options(compared: Compared) -> Verdicts:
    """One verdict for each option or mode that changed, and one for all others together."""
    verdicts = list(judge_facts(FAMILY, compared))
    alike = [
        verdict for verdict in verdicts if verdict.kind is Kind.PASS
    ]  # hundreds of these become one line
    yield from (verdict for verdict in verdicts if verdict.kind is not Kind.PASS)
    if alike:
        actual = f"{len(alike)} options and modes"
        yield replace(
            alike[0],
            fact="",
            expected="as recorded",
            actual=actual,
            before=None,
            after=None,
            recorded=None,
        )
