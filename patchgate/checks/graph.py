"""Does Dynamo capture the recorded graphs?"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from patchgate.checks.context import CheckContext
from patchgate.checks.facts import fact_codes, fact_verdicts, judge_facts
from patchgate.checks.registry import Check, Instance, NothingToJudge
from patchgate.model.records import Verdict

FAMILY = "graph"
CODES = fact_codes(FAMILY, noun="graph")


@Check(axes=("torch", "device", "workload"))
def ask_graph(context: CheckContext, at: Instance) -> Iterable[Verdict]:
    """Nothing where the case did not compile: the kernels check tells."""
    verdicts = list(fact_verdicts(context, FAMILY, at.case, partial(judge_facts, FAMILY)))
    if not verdicts:
        raise NothingToJudge("did not compile: judged by the kernels check")
    return verdicts
