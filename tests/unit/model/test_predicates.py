"""Predicates on one fact: grammar and truth."""

import pytest
from expecttest import assert_expected_inline
from hypothesis import given
from hypothesis import strategies as st

from patchgate.model.facts import parse_predicate
from patchgate.model.records import Unmeasured


@pytest.mark.parametrize(
    ("text", "true", "false"),
    [
        ("> 4", 5, 4),
        (">= 4", 4, 3),
        ("< 4", 3, 4),
        ("<= 4", 4, 5),
        ("== 13", 13, 12),
        ("!= 13", 12, 13),
        ("  >-1 ", 0, -1),
        ("contains 6", (2, 6), (2, 4)),
        ("> 0.5", 0.6, 0.5),
    ],
)
def test_a_predicate_tells_true_from_false(text, true, false):
    holds = parse_predicate(text)
    assert (holds(true), holds(false)) == (True, False)


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "==", "!=", "contains"])
@pytest.mark.parametrize("value", [Unmeasured(reason="no counter"), "a text"])
def test_what_is_not_a_number_satisfies_nothing(operator, value):
    assert not parse_predicate(f"{operator} 0")(value)


@pytest.mark.parametrize(("text", "value"), [("> 4", (5, 6)), ("contains 6", 6)])
def test_lists_and_numbers_are_not_mixed(text, value):
    assert not parse_predicate(text)(value)


@given(st.integers(), st.integers())
def test_each_comparison_is_the_opposite_of_its_counterpart(value, bound):
    for one, other in (("<", ">="), (">", "<="), ("==", "!=")):
        assert parse_predicate(f"{one} {bound}")(value) is not parse_predicate(f"{other} {bound}")(
            value
        )


@pytest.mark.parametrize("text", ["", "4", "> four", "=> 4", "> 4.", "> 4 or < 2", "contains"])
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError):
        parse_predicate(text)


def test_the_refusal_shows_the_grammar():
    with pytest.raises(ValueError) as refused:
        parse_predicate("=> 4")
    assert_expected_inline(
        str(refused.value),
        """not a predicate: '=> 4'; write one of < <= > >= == != contains and a number""",
    )
