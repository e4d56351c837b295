"""PG140: whatever Python refuses to read is one finding."""

from __future__ import annotations

import pytest
from toytorch import TORCHES

from patchgate.lint.run import lint_source


# So many signs are too many for every Python; five thousand are read by 3.10 and 3.13.
@pytest.mark.parametrize("source", ["def f(:\n", "x = '\0'\n", "(" * 2000, f"x = {'-' * 100_000}1", "\ufeff\ufeffx"])
def test_what_is_not_python_is_one_finding(source: str) -> None:
    findings, _ = lint_source(source, "patch.py", TORCHES)
    assert [each.code for each in findings] == ["PG140"]
