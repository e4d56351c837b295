"""Budgets: how far a metric may move under a patch, how that is written, and whether a measured change is within."""

from __future__ import annotations

import math
import re

from patchgate.model.records import Budget, Kind

# What holds where a manifest says nothing. A budget has two sides: a gain that is
# not recorded is shown as a loss is, because it would hide the next loss.
DEFAULTS = {
    "compile_calls": Budget(low=-0.001, high=0.001),
    # Wider than what paired timing resolves in one look (docs/latency.md), so that equal code is within it.
    "latency": Budget(low=-0.005, high=0.005),
    # Beside other work even equal code comes out further apart than on a GPU (docs/latency.md).
    "cpu_latency": Budget(low=-0.05, high=0.05),
    # A model repeats exactly; a smaller change is not worth a note.
    "modelled_time": Budget(low=-0.005, high=0.005),
    "peak_memory": Budget(low=0.0, high=0.0),
}
#: A modelled change beyond this had the sign of what an H200 measured in 15 of 16 cases (docs/modelled-time.md).
MODEL_TELLS = 0.1
_PERCENT = r"([+-]?\d+(?:\.\d+)?)\s*%"
_FORM = re.compile(rf"\s*{_PERCENT}(?:\s*\.\.\s*{_PERCENT})?\s*")


def parse_budget(text: str) -> Budget:
    """The budget that `0.1 %` (as much either way) or `-2 % .. 0.1 %` describes. Raises ValueError."""
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


def show_budget(budget: Budget) -> str:
    """The text that `parse_budget` reads back."""
    if budget.low == -budget.high:
        return f"{budget.high * 100:g} %"
    return f"{budget.low * 100:g} % .. {budget.high * 100:g} %"


def budget_for(low: float, high: float) -> str:
    """A manifest's text, in whole percents, for a budget that a change between `low` and `high` is within."""
    return f"{min(0, math.floor(low * 100))} % .. {max(0, math.ceil(high * 100))} %"


def judge_change(budget: Budget, low: float, high: float) -> Kind:
    """Where a change lies that was measured to be between `low` and `high` (equal, when it is exact).

    OVER and UNDER only when the whole interval lies outside; AMBIGUOUS when it straddles an end.
    """
    if not low <= high:
        return Kind.UNMEASURED  # NaN included
    if low > budget.high:
        return Kind.OVER
    if high < budget.low:
        return Kind.UNDER
    return Kind.PASS if budget.low <= low and high <= budget.high else Kind.AMBIGUOUS
