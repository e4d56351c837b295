"""Ranges of releases as people say them; ignores; columns in characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toytorch import TORCHES, codes, found

from patchgate.lint.findings import show_releases
from patchgate.lint.run import lint_source

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


@given(st.lists(st.booleans(), min_size=8, max_size=8), st.lists(st.booleans(), min_size=8, max_size=8))
def test_different_sets_of_releases_read_differently(first: list[bool], second: list[bool]) -> None:
    one = [version for version, there in zip(KNOWN, first, strict=True) if there]
    two = [version for version, there in zip(KNOWN, second, strict=True) if there]
    assert (show_releases(one, KNOWN) == show_releases(two, KNOWN)) == (one == two)


def test_an_ignore_silences_its_line_and_its_code_only() -> None:
    source = "import torch._inductor.old  # patchgate: ignore[{}]\nimport torch._inductor.new\n"
    assert codes(source.format("PG110")) == ["PG110"]
    assert codes(source.format("PG110, PG111")) == ["PG141", "PG110"]
    assert found(source.format("PG111"))[-2:] == [
        "1: PG141 red ignore silences nothing: PG111 []",
        "2: PG110 red module `torch._inductor.new` missing [2.10 and before]",
    ]


def test_an_ignore_in_a_string_is_none_and_one_without_codes_is_refused() -> None:
    assert codes('x = "# patchgate: ignore[PG110]"\n') == []
    assert codes("x = 1  # patchgate: ignore\n") == ["PG141"]


def test_columns_count_characters() -> None:
    source = "from torch._inductor.ir import Box\nx = 'ä€𝄞'; Box.absent\n"
    findings, _ = lint_source(source, "patch.py", TORCHES)
    [span] = [each.span for each in findings]
    assert source.splitlines()[span.line - 1][span.column - 1 :][: span.width] == "absent"


@pytest.mark.parametrize("source", ["def f(:\n", "x = '\0'\n", "(" * 2000, "x = " + "-" * 5000 + "1", "\ufeff\ufeffx"])
def test_what_is_not_python_is_one_finding(source: str) -> None:
    findings, _ = lint_source(source, "patch.py", TORCHES)
    assert [each.code for each in findings] == ["PG140"]
