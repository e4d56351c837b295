"""Do lowering, fusion and the generated kernels give the recorded facts?"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from patchgate.checks.context import CheckContext
from patchgate.checks.facts import fact_codes, fact_verdicts, judge_facts
from patchgate.checks.registry import Check, Instance
from patchgate.model.records import Verdict

FAMILY = "kernels"
CODES = fact_codes(FAMILY, noun="kernel")


@Check(axes=("torch", "device", "workload"))
def ask_kernels(context: CheckContext, at: Instance) -> Iterable[Verdict]:
    return fact_verdicts(context, FAMILY, at.case, partial(judge_facts, FAMILY))
