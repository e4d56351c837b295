"""Sets of releases, and values that change from one to the next, as text and back."""

from __future__ import annotations

import pytest

from patchgate.lint.index.release_set import Spans


def test_ranges_of_releases() -> None:
    spans = Spans(["2.6.0", "2.7.0", "2.8.0", "2.9.0"])
    for mask in range(1, 16):
        assert spans.mask(spans.text(mask)) == mask
    assert [spans.text(mask) for mask in (1, 3, 14, 13)] == ["2.6.0", "2.6.0..2.7.0", "2.7.0..", "2.6.0,2.8.0.."]


@pytest.mark.parametrize(
    ("values", "life", "text"),
    [
        ("aaaa", 15, "#a"),
        ("aabb", 15, "#a 2.8.0#b"),
        (" aba", 15, "2.7.0#a 2.8.0#b 2.9.0#a"),
        ("aa a", 15, "#a 2.8.0- 2.9.0#a"),
        ("a  b", 9, "#a 2.9.0#b"),
        (" aa ", 14, "#a 2.9.0-"),
    ],
)
def test_steps_of_a_value(values: str, life: int, text: str) -> None:
    spans = Spans(["2.6.0", "2.7.0", "2.8.0", "2.9.0"])
    told = {1 << at: value for at, value in enumerate(values) if value != " "}
    assert spans.steps(told, life) == text
    read = {1 << at: value for mask, value in spans.stepped(text, life) for at in range(4) if mask >> at & 1}
    assert read == told
