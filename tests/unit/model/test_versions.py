"""Ranges of releases: their text, what lies in them, and sets of releases as masks."""

import pytest
from hypothesis import strategies as st

from patchgate.model.versions import (
    ReleaseRange,
    ReleaseSets,
    in_order,
    parse_range,
    range_text,
)

RELEASES = ["2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0"]
values = st.dictionaries(st.sampled_from(RELEASES), st.integers(0, 2))


@pytest.mark.parametrize("text", ["2.11.0", "2.11.0..2.13.0"])
def test_a_range_is_written_as_it_is_read(text):
    assert str(parse_range(text)) == text


@pytest.mark.parametrize("text", ["", "2.13.0..2.11.0", "..2.11.0", "two", "2.11.0...2.13.0"])
def test_a_text_that_is_no_range_is_refused(text):
    with pytest.raises(ValueError):
        parse_range(text)


@pytest.mark.parametrize(
    ("torch", "inside"),
    [
        ("2.10.9", False),
        ("2.11.0", True),
        ("2.11.0+cu130", True),
        ("2.12.1", True),
        ("2.13.0", True),
        ("2.13.0.post1", False),
        ("2.13.1", False),
    ],
)
def test_both_ends_belong_to_a_range(torch, inside):
    assert (torch in ReleaseRange(first="2.11.0", last="2.13.0")) is inside


def test_releases_are_ordered_as_versions_and_once():
    assert in_order(["2.10.0", "2.9.1", "2.10.0"]) == ["2.9.1", "2.10.0"]


def test_sets_of_releases_as_masks_and_text():
    sets = ReleaseSets(["2.6.0", "2.7.0", "2.8.0", "2.9.0"])
    assert all(sets.mask(sets.text(mask)) == mask for mask in range(1, 16))
    assert [sets.text(mask) for mask in (1, 3, 14, 13)] == [
        "2.6.0",
        "2.6.0..2.7.0",
        "2.7.0..",
        "2.6.0,2.8.0..",
    ]
    with pytest.raises(KeyError):
        sets.mask("2.6.1")


def test_a_range_without_an_end_reaches_the_newest():
    assert str(parse_range("2.11.0..", newest="2.15.0")) == "2.11.0..2.15.0"
    assert str(parse_range("2.11.0", newest="2.15.0")) == "2.11.0"


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ((), "no release"),
        (("2.9.0",), "2.9.0"),
        (("2.10.0", "2.9.0", "2.9.1"), "2.9.0 to 2.10.0"),
        (("2.8.0", "2.9.1"), "2.8.0, 2.9.1"),
        (("2.9.1", "2.10.0", "2.10.3"), "2.9.1 to 2.10.3"),
        (("2.10.0", "2.12.0"), "2.10.0, 2.12.0"),
        (("2.10.0", "3.0.0"), "2.10.0 to 3.0.0"),
        (("2.10.0", "3.1.0"), "2.10.0, 3.1.0"),
    ],
)
def test_a_range_in_words_bridges_unknown_patch_releases_and_nothing_else(members, text):
    assert range_text(members, ("2.9.0", "2.9.1", "2.10.0")) == text
