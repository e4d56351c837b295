"""PG140: whatever Python refuses to read is one finding."""

from __future__ import annotations

import pytest
from toytorch import TORCHES

from patchgate.lint.run import lint_source


@pytest.mark.parametrize("source", ["def f(:\n", "x = '\0'\n", "(" * 2000, "x = " + "-" * 5000 + "1", "\ufeff\ufeffx"])
def test_what_is_not_python_is_one_finding(source: str) -> None:
    findings, _ = lint_source(source, "patch.py", TORCHES)
    assert [each.code for each in findings] == ["PG140"]
