"""Do lowering, fusion and the generated kernels give the recorded facts?

The texts of the codes PG300 to PG309 are in `framework/golden_verdicts.py`, one for each kind.
"""

from __future__ import annotations

from functools import partial

from patchgate.checks.framework import Check, CheckContext, Instance, Verdicts
from patchgate.checks.framework.golden_verdicts import fact_codes, fact_verdicts, judge_facts

FAMILY = "kernels"
CODES = fact_codes(FAMILY, noun="kernel")


@Check(axes=("torch", "device", "workload"), unchanged="few", seconds=0.1)
def ask_kernels(context: CheckContext, at: Instance) -> Verdicts:
    return fact_verdicts(context, FAMILY, at.case, partial(judge_facts, FAMILY))
