"""Ranges of releases as people say them; columns in characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toytorch import TORCHES

from patchgate.lint.run import lint_source
from patchgate.model.versions import show_releases

KNOWN = ("2.8.0", "2.9.0", "2.9.1", "2.10.0", "2.11.0", "2.12.0", "2.12.1", "2.13.0")


@pytest.mark.parametrize(
    ("releases", "text"),
    [
        (KNOWN, "every release"),
        (KNOWN[:4], "2.10 and before"),
        (KNOWN[:1], "2.8 and before"),
        (KNOWN[5:], "from 2.12"),
        (KNOWN[6:], "from 2.12.1"),
        (KNOWN[7:], "from 2.13"),
        (KNOWN[4:7], "2.11 to 2.12"),
        (("2.9.0", "2.9.1"), "2.9"),
        (("2.9.1",), "2.9.1"),
        (("2.10.0",), "2.10"),
        (("2.8.0", "2.11.0", "2.13.0"), "2.8 and before, 2.11, from 2.13"),
        ((), "no release"),
    ],
)
def test_ranges(releases: tuple[str, ...], text: str) -> None:
    assert show_releases(releases, KNOWN) == text


@given(
    st.lists(st.booleans(), min_size=8, max_size=8), st.lists(st.booleans(), min_size=8, max_size=8)
)
def test_different_sets_of_releases_read_differently(first: list[bool], second: list[bool]) -> None:
    one = [version for version, there in zip(KNOWN, first, strict=True) if there]
    two = [version for version, there in zip(KNOWN, second, strict=True) if there]
    assert (show_releases(one, KNOWN) == show_releases(two, KNOWN)) == (one == two)


def test_columns_count_characters() -> None:
    source = "from torch._inductor.ir import Box\nx = 'ä€𝄞'; Box.absent\n"
    findings, _ = lint_source(source, "patch.py", TORCHES)
    [span] = [each.span for each in findings]
    assert source.splitlines()[span.line - 1][span.column - 1 :][: span.width] == "absent"
