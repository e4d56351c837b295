"""Budgets: how they are written, and where a measured change lies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgate.model.budgets import budget_for, judge_change, parse_budget, show_budget
from patchgate.model.policy import Kind
from patchgate.model.records import Budget

NAN = float("nan")


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("0.1 %", -0.001, 0.001),
        ("0%", 0, 0),
        ("-2 % .. 0.1 %", -0.02, 0.001),
        (" -2%..-1% ", -0.02, -0.01),
        ("+1 % .. +3 %", 0.01, 0.03),
    ],
)
def test_a_budget_is_a_range(text, low, high):
    assert parse_budget(text) == Budget(low=low, high=high)


@pytest.mark.parametrize(
    "text",
    [
        *("", "0.1", "1", "-1 %", "+1 %", "1 % .. -1 %", "5 ms", "1 % .. 2", "1 % 2 %", "nan %"),
        *("inf %", f"{'9' * 400} %", f"0 % .. {'9' * 5000} %"),
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError):
        parse_budget(text)


@given(st.integers(-500, 500), st.integers(0, 500))
def test_what_is_shown_can_be_read_back(low, width):
    budget = parse_budget(f"{low / 10} % .. {(low + width) / 10} %")
    again = parse_budget(show_budget(budget))
    assert (again.low, again.high) == pytest.approx((budget.low, budget.high), abs=1e-9)


@pytest.mark.parametrize(
    ("low", "high", "kind"),
    [
        (0, 0, Kind.PASS),
        (-0.02, 0.01, Kind.PASS),
        (0.011, 0.011, Kind.OVER),
        (0.011, 0.5, Kind.OVER),
        (0.01, 0.011, Kind.AMBIGUOUS),
        (-0.03, -0.021, Kind.UNDER),
        (-0.03, -0.02, Kind.AMBIGUOUS),
        (-0.03, 0.02, Kind.AMBIGUOUS),
        (NAN, 0, Kind.UNMEASURED),
        (0, NAN, Kind.UNMEASURED),
        (NAN, NAN, Kind.UNMEASURED),
        (0.2, 0.1, Kind.UNMEASURED),
    ],
)
def test_a_change_is_outside_only_when_all_of_it_is(low, high, kind):
    assert judge_change(Budget(low=-0.02, high=0.01), low, high, stated=False) is kind
    stated = Kind.OVER if kind is Kind.UNDER else kind
    assert judge_change(Budget(low=-0.02, high=0.01), low, high, stated=True) is stated


@given(st.floats(-0.99, 5), st.floats(0, 1))
def test_the_budget_that_is_advised_admits_the_change_and_none_at_all(low, width):
    budget = parse_budget(budget_for(low, low + width))
    judged = [judge_change(budget, *change, stated=True) for change in ((low, low + width), (0, 0))]
    assert judged == [Kind.PASS, Kind.PASS]
