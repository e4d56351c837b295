"""Does Dynamo capture the recorded graphs?

The texts of the codes PG400 to PG409 are in `framework/golden_verdicts.py`, one for each kind.
"""

from __future__ import annotations

from functools import partial

from patchgate.checks.framework import Check, CheckContext, Instance, NothingToJudge, Verdicts
from patchgate.checks.framework.golden_verdicts import fact_codes, fact_verdicts, judge_facts

FAMILY = "graph"
CODES = fact_codes(FAMILY, noun="graph")


@Check(axes=("torch", "device", "workload"), unchanged="few", seconds=0.1)
def ask_graph(context: CheckContext, at: Instance) -> Verdicts:
    """Raise NothingToJudge if the case did not compile: the kernels check reports that."""
    verdicts = list(fact_verdicts(context, FAMILY, at.case, partial(judge_facts, FAMILY)))
    if not verdicts:
        raise NothingToJudge("did not compile: judged by the kernels check")
    return verdicts
