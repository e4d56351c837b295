"""Budgets: how far a metric may move under a patch, how a manifest writes that, and if a change
stays within.
"""

from __future__ import annotations

import math
import re
from typing import Any

from patchgate.model.records import Budget, FactValue, Kind, record
from patchgate.model.serialization import Invalid
from patchgate.model.text import nearest


@record
class Cost:
    """A figure for which less is better: the facts that state it, and how far it may grow."""

    facts: tuple[str, ...]  #: names, or prefixes that end with a dot; a list counts by its sum
    noun: str  #: as a reader knows it
    #: the largest growth that is no finding, as a share; a manifest or a project may state another
    limit: float
    slack: int = 0  #: without a stated limit, so many more in one case are no finding


#: By the name of its budget, the most telling first. Every other fact tells what code is, and not
#: what it costs.
COSTS = {
    "kernels": Cost(facts=("kernels.called",), noun="kernels called", limit=0.3),
    "bytes": Cost(facts=("bytes.total",), noun="bytes moved", limit=0.1),
    "peak_memory": Cost(facts=("memory.peak",), noun="bytes of memory at the peak", limit=0.02),
    "loads": Cost(facts=("loads",), noun="loads in kernels", limit=0.1, slack=1),
    "spills": Cost(facts=("resources.spilled",), noun="bytes of spilled registers", limit=0.0),
    "options_left": Cost(
        facts=("left.",), noun="options of torch that a compile leaves changed", limit=0.0
    ),
    "graph_breaks": Cost(
        facts=("dynamo.graph_breaks", "shapes.breaks."), noun="graph breaks", limit=0.0
    ),
    "recompiles": Cost(
        facts=("shapes.compiled.", "shapes.eager.", "shapes.limit."), noun="compiles", limit=0.0
    ),
}


# The metrics that a manifest or a project can give a budget for. Each check defines its default.
METRICS = tuple(sorted({"compile_calls", "cpu_latency", "latency", *COSTS}))
_PERCENT = r"([+-]?\d+(?:\.\d+)?)\s*%"
_FORM = re.compile(rf"\s*{_PERCENT}(?:\s*\.\.\s*{_PERCENT})?\s*")


def parse_budget(text: str) -> Budget:
    """Parse `0.1 %` (as much either way) or `-2 % .. 0.1 %`. Raises ValueError."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError("not a budget: write 0.1 %, or a range as -2 % .. 0.1 %")
    first, second = match.groups()
    low, high = (first, second) if second is not None else (f"-{first}", first)
    if second is None and not first[0].isdigit():
        raise ValueError("a budget with a sign is a range: -2 % .. 0.1 %")
    budget = Budget(low=float(low) / 100, high=float(high) / 100)
    if budget.low > budget.high:
        raise ValueError("the range ends before it starts")
    return budget


def read_budgets(value: Any) -> dict[str, Budget]:
    """Read budgets by the name of their metric.

    Raises Invalid for an unknown metric, and for a text that is no budget.
    """
    if not isinstance(value, dict):
        raise Invalid("not a table")
    budgets = {}
    for name, text in value.items():
        if name not in METRICS:
            raise Invalid("unknown key", path=(name,), next=nearest(name, METRICS, "known keys"))
        try:
            budgets[name] = parse_budget(text if isinstance(text, str) else repr(text))
        except ValueError as error:
            raise Invalid(str(error), path=(name,)) from None
    return budgets


#: How budgets are written.
BUDGETS = {"read": read_budgets, "example": 'compile_calls = "0.1 %"   (or "-2 % .. 0.1 %")'}


def show_budget(budget: Budget) -> str:
    """The text that `parse_budget` reads back."""
    if budget.low == -budget.high:
        return f"{budget.high * 100:g} %"
    return f"{budget.low * 100:g} % .. {budget.high * 100:g} %"


def budget_for(low: float, high: float) -> str:
    """The budget in whole percents, as a manifest writes it, that admits a change between `low` and
    `high`.
    """
    return f"{min(0, math.floor(low * 100))} % .. {max(0, math.ceil(high * 100))} %"


def judge_change(budget: Budget, low: float, high: float, *, stated: bool) -> Kind:
    """Judge a change that was measured to be between `low` and `high` (equal if it is exact).

    OVER and UNDER only if the whole interval lies outside; AMBIGUOUS if it straddles an end. A gain
    beyond a budget that a manifest or a project has `stated` contradicts it, and is OVER as well.
    """
    if not low <= high:
        return Kind.UNMEASURED  # NaN included
    if low > budget.high:
        return Kind.OVER
    if high < budget.low:
        return Kind.OVER if stated else Kind.UNDER
    return Kind.PASS if budget.low <= low and high <= budget.high else Kind.AMBIGUOUS


def cost_of(fact: str) -> str:
    """The name of the cost that a fact measures; empty if it measures none."""
    for cost in COSTS:
        for name in COSTS[cost].facts:
            if fact == name or (name.endswith(".") and fact.startswith(name)):
                return cost
    return ""


def increase(before: FactValue | None, after: FactValue | None) -> int:
    """By how much a cost grows: 1 for 2 -> 3, negative where it shrinks."""
    return _amount(after) - _amount(before)


def growth(before: FactValue | None, after: FactValue | None) -> float:
    """The growth of a cost as a share: 0.5 for 2 -> 3, infinite for 0 -> 1, 0 if it does
    not grow.
    """
    old, new = _amount(before), _amount(after)
    if new <= old:
        return 0.0
    return new / old - 1 if old else math.inf


def _amount(value: FactValue | None) -> int:
    if isinstance(value, tuple):
        return sum(value)
    return value if isinstance(value, int) else int(isinstance(value, str))
