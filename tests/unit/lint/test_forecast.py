"""When a finding hurts, by the releases on which it is true."""

from __future__ import annotations

import pytest

from patchgate.lint.findings import When, first_after, newer, when

ADMITTED = ["2.9.0", "2.10.0", "2.11.0", "2.12.0"]


@pytest.mark.parametrize(
    ("releases", "installed", "expected"),
    [
        (["2.12.0"], "", When.NOW),
        (ADMITTED, "", When.NOW),
        ([], "", When.NOW),  # of the file itself
        (["2.9.0"], "", When.LOWER_BOUND),
        (["2.9.0", "2.10.0"], "", When.LOWER_BOUND),
        (["2.9.0", "2.10.0"], "2.10.0", When.NOW),
        (["2.10.0"], "", When.OLDER),
        (["2.9.0", "2.11.0"], "", When.OLDER),
    ],
)
def test_when(releases: list[str], installed: str, expected: When) -> None:
    assert when(releases, ADMITTED, installed) is expected


def test_what_comes_after() -> None:
    assert first_after(["2.10.0", "2.9.0"], ADMITTED) == "2.11.0"
    assert newer([*ADMITTED, "2.13.0"], ADMITTED) == ["2.13.0"]
    assert newer(ADMITTED, ADMITTED) == []
