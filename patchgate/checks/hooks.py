"""Are the user's hooks into the compiler still called?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Check, Instance, judge_failed, verdict_of
from patchgate.inputs.manifest import Patch
from patchgate.model.paths import display_path
from patchgate.model.records import Case, Kind, Verdict, read_codes
from patchgate.model.serialization import failure_of

FAMILY = "reach"
CODES = read_codes("""
PG804 a hook of the user is no longer called
    A custom pass that a user has installed runs without the patch, but not with it.
    Why: The user's pass is disabled without any message.
    Fix: Call what you replace, or apply the patch only where no hook is set.
PG808 does not compile with hooks of the user set
    With custom passes set in Inductor's config, a small graph compiles without the patch and fails with it.
    Why: Users who have a custom pass cannot install the patch.
    Fix: Read the failure. Pass on the arguments that you are given, and expect that an option may be set already.
""")
verdict = partial(verdict_of, FAMILY)


@Check(believes="cpu", unchanged="PG806")
def ask_hooks(context: CheckContext, at: Instance) -> Iterable[Verdict]:
    unpatched, patched = (
        context.ask_once(at.case.torch, "hooks", "cpu", patch=patch) for patch in (None, context.patch)
    )
    return judge_hooks(at.case, context.patch, unpatched, patched)


def judge_hooks(
    case: Case, patch: Patch, unpatched: Mapping[str, Any], patched: Mapping[str, Any]
) -> Iterator[Verdict]:
    """PG804 for each hook that is called without the patch and not with it, PG808 where only the patched side fails."""
    sides = failure_of(unpatched), failure_of(patched)
    failed = judge_failed(FAMILY, ("PG808", "PG809"), case, sides, "an answer", item="hooks")
    if failed:
        yield failed
        return
    lost = sorted(set(unpatched["called"]) - set(patched["called"]))
    for name in lost:
        actual = f"called {unpatched['called'][name]} times without the patch, never with it"
        yield verdict(
            "PG804", Kind.REGRESSED, case, name, "called", actual, f"{display_path(patch.path)}:1", item="hook"
        )
    if not lost:
        actual = f"{len(unpatched['called'])} hooks are called, as without the patch"
        yield verdict("PG806", Kind.PASS, case, "", "called", actual, item="hooks")
