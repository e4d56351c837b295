"""Budgets: how far a metric may move under a patch, how a manifest writes a budget, and if a change
stays within its budget.
"""

from __future__ import annotations

import math
import re
from typing import Any

from patchgate.model.facts import COSTS
from patchgate.model.policy import Kind
from patchgate.model.records import Budget
from patchgate.model.serialization import Invalid
from patchgate.model.text import nearest

# The metrics for which a manifest or a project can state a budget. The default is the limit in
# `COSTS`, or the limit of the check that takes the times.
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
    if math.isinf(budget.low) or math.isinf(budget.high):
        raise ValueError("a budget of infinitely many percent")
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


#: The reader and the example of a key that holds budgets.
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

    The answer is OVER or UNDER only if the whole interval lies outside the budget, and AMBIGUOUS if
    the interval straddles an end. A gain beyond a budget that a manifest or a project has `stated`
    contradicts the budget, so it is OVER as well.
    """
    if not low <= high:
        return Kind.UNMEASURED  # NaN included
    if low > budget.high:
        return Kind.OVER
    if high < budget.low:
        return Kind.OVER if stated else Kind.UNDER
    return Kind.PASS if budget.low <= low and high <= budget.high else Kind.AMBIGUOUS
