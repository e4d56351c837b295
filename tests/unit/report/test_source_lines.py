"""Reports quote lines of this repository's sources, and nothing else."""

import pytest

from patchgate.report.source_lines import lines_at


@pytest.fixture(autouse=True)
def source(folder):
    (folder / "pyproject.toml").write_text("")
    (folder / "mine.py").write_text("a\nb\nc\nd\n")
    (folder / ".env.py").write_text("secret\n")
    (folder / "mine.bin").write_text("a\n")


def test_a_line_is_quoted_with_its_neighbours():
    assert lines_at("mine.py:2") == [(2, "b")]
    assert lines_at("mine.py:1", around=1) == [(1, "a"), (2, "b")]
    assert lines_at("mine.py:4", around=2) == [(2, "b"), (3, "c"), (4, "d")]


@pytest.mark.parametrize(
    "place",
    ["mine.py", "mine.py:9", "mine.py:x", ".env.py:1", "mine.bin:1", "no.py:1", "/etc/a.py:1"],
)
def test_other_places_have_no_line(place):
    assert lines_at(place) == []
