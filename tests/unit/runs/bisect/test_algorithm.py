"""Search: every claim of `patchgate.runs.bisect.algorithm` as a property, and each refusal seen."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchgate.model.results import Answer
from patchgate.runs.bisect.algorithm import (
    Unbracketed,
    bracket,
    first_bad,
    majority,
    minimise,
    turns_in,
)

GOOD, BAD, UNKNOWN = Answer


class Asked(list):
    """Answers by a function and keeps every question."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def __call__(self, item):
        self.append(item)
        return self.answer(item)


@st.composite
def histories(draw):
    """(length, index of the first bad item, indices that cannot be told)."""
    length = draw(st.integers(2, 200))
    turn = draw(st.integers(1, length - 1))
    return (
        length,
        turn,
        draw(st.sets(st.integers(1, length - 1).filter(lambda at: at != length - 1))),
    )


@given(histories())
def test_the_turn_lies_between_neighbours_that_were_asked_themselves(history):
    length, turn, untold = history
    ask = Asked(lambda at: UNKNOWN if at in untold else BAD if at >= turn else GOOD)
    found = first_bad(range(length), ask)
    assert {found.last_good, found.first_bad} <= set(ask)
    assert found.last_good < turn <= found.first_bad
    assert set(found.between) <= untold
    assert found.between == tuple(range(found.last_good + 1, found.first_bad))
    assert len(ask) == len(set(ask))


@given(st.integers(2, 5000), st.data())
def test_the_search_is_no_longer_than_a_binary_one(length, data):
    turn = data.draw(st.integers(1, length - 1))
    ask = Asked(lambda at: BAD if at >= turn else GOOD)
    assert first_bad(range(length), ask).first_bad == turn
    assert len(ask) <= 2 + math.ceil(math.log2(length - 1) if length > 2 else 0)


def test_sixty_four_items_take_eight_questions_at_most():
    for turn in range(1, 64):
        ask = Asked(lambda at, turn=turn: BAD if at >= turn else GOOD)
        assert (first_bad(range(64), ask).first_bad, len(ask) <= 8) == (turn, True)


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([BAD, BAD], "0 is bad, not good"),
        ([GOOD, GOOD], "1 is good, not bad"),
        ([UNKNOWN, BAD], "0 is cannot tell, not good"),
        ([GOOD, UNKNOWN], "1 is cannot tell, not bad"),
    ],
)
def test_an_end_that_is_not_as_needed_ends_the_search(answers, told):
    with pytest.raises(Unbracketed, match=told):
        first_bad(range(2), answers.__getitem__)


def test_one_item_has_no_turn():
    with pytest.raises(ValueError, match="two ends"):
        first_bad([1], lambda item: GOOD)


@given(st.sets(st.integers(0, 40), max_size=12), st.data())
def test_the_minimal_set_is_exactly_the_items_that_are_bad_together(more, data):
    items = sorted(more | {1, 2, 3})
    culprits = data.draw(st.sets(st.sampled_from(items), min_size=1, max_size=4))
    ask = Asked(lambda subset: BAD if culprits <= set(subset) else GOOD)
    assert set(minimise(items, ask).items) == culprits


@given(st.lists(st.integers(0, 9), unique=True, min_size=1), st.integers(0, 2**20))
def test_without_any_one_of_a_minimal_set_the_answer_is_another(items, seed):
    def ask(subset):
        if set(subset) in (set(), set(items)):
            return BAD if subset else GOOD
        return (GOOD, BAD, UNKNOWN)[hash((seed, tuple(sorted(subset)))) % 3]

    found = minimise(items, ask)
    assert ask(found.items) is BAD
    for item in found.items:
        rest = tuple(other for other in found.items if other != item)
        assert ask(rest) is (UNKNOWN if item in found.doubtful else GOOD)


@pytest.mark.parametrize("answer", [GOOD, BAD, UNKNOWN])
def test_items_that_do_nothing_or_are_bad_without_any_have_no_minimal_set(answer):
    with pytest.raises(Unbracketed):
        minimise([1, 2], lambda subset: answer)


def test_known_answers_leave_the_first_turn_to_search():
    known = {0: GOOD, 3: GOOD, 6: BAD, 8: GOOD}
    assert list(bracket(range(10), known)) == [3, 4, 5, 6]
    assert turns_in(range(10), known) == [(3, 6), (6, 8)]


@pytest.mark.parametrize(
    ("known", "left"),
    [
        ({}, range(5)),
        ({4: GOOD}, range(5)),
        ({2: GOOD}, range(2, 5)),
        ({0: BAD}, range(5)),
        ({2: BAD}, range(3)),
    ],
)
def test_without_a_known_turn_the_rest_is_searched(known, left):
    assert list(bracket(range(5), known)) == list(left)


@pytest.mark.parametrize(
    ("votes", "answer", "asked"),
    [
        ([BAD, BAD], BAD, 2),
        ([BAD, GOOD, BAD], BAD, 3),
        ([UNKNOWN, GOOD, GOOD], GOOD, 3),
        ([UNKNOWN, GOOD, BAD], UNKNOWN, 3),
    ],
)
def test_a_flaky_question_is_asked_until_enough_answers_agree(votes, answer, asked):
    left = iter(votes)
    ask = Asked(lambda item: next(left))
    assert (majority(ask, 2, 3)("x"), len(ask)) == (answer, asked)


@pytest.mark.parametrize(("needed", "times"), [(1, 3), (4, 3), (0, 0)])
def test_less_than_a_majority_is_refused(needed, times):
    with pytest.raises(ValueError, match="no majority"):
        majority(lambda item: GOOD, needed, times)
