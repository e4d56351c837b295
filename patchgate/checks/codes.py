"""Every verdict code there is: those of the checks, and those of lint's rules."""

from __future__ import annotations

from patchgate.checks.registry import catalogue
from patchgate.lint import rules
from patchgate.model.records import Code


def every_code() -> dict[str, Code]:
    """By code, in order."""
    return dict(sorted({**catalogue(), **{code.code: code for code in rules.CODES}}.items()))
