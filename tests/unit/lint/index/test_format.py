"""Values that change from one release to the next, as text and back."""

from __future__ import annotations

import pytest

from patchgate.lint.index.format import read_steps, write_steps
from patchgate.model.versions import ReleaseSets


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
    sets = ReleaseSets(["2.6.0", "2.7.0", "2.8.0", "2.9.0"])
    given = {1 << at: value for at, value in enumerate(values) if value != " "}
    assert write_steps(given, life, sets) == text
    read = {
        1 << at: value
        for mask, value in read_steps(text, life, sets)
        for at in range(4)
        if mask >> at & 1
    }
    assert read == given
