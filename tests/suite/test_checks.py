"""pytest's one door: every check of `patchgate.checks`, for each combination of its axes."""

from __future__ import annotations

from collections.abc import Callable

from patchgate.checks.framework.find_checks import Check, Instance


def test_check(check: Check, instance: Instance, judge: Callable[[Check, Instance], None]) -> None:
    judge(check, instance)
