"""Are the user's hooks into the compiler still called?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
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
    A custom pass that a user has installed runs without the patch, but not with it. It is a note where the patch sets
    the option of that hook to a pass of its own, which is the documented way to add one.
    Why: The user's pass is disabled without any message.
    Fix: Call what you replace, also a pass that the option holds already.
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
    effects = context.apply(at.case.torch).get("effects", ())
    own = {effect["name"].rpartition(".")[2] for effect in effects if effect["kind"] == "config"}
    return judge_hooks(at.case, context.patch, unpatched, patched, own)


def judge_hooks(
    case: Case,
    patch: Patch,
    unpatched: Mapping[str, Any],
    patched: Mapping[str, Any],
    own: Collection[str] = (),
) -> Iterator[Verdict]:
    """PG804 for each hook that is called without the patch and not with it, PG808 where only the patched side fails.

    `own` are the options that the patch sets itself.
    """
    sides = failure_of(unpatched), failure_of(patched)
    failed = judge_failed(FAMILY, ("PG808", "PG809"), case, sides, "an answer", item="hooks")
    if failed:
        yield failed
        return
    lost = sorted(set(unpatched["called"]) - set(patched["called"]))
    for name in lost:
        actual = f"called {unpatched['called'][name]} times without the patch, never with it"
        kind, place = Kind.REGRESSED, f"{display_path(patch.path)}:1"
        if name in own:
            kind, actual = Kind.WARNING, f"{actual}: the patch sets a pass of its own in its place"
        yield verdict("PG804", kind, case, name, "called", actual, place, item="hook")
    if not lost:
        actual = f"{len(unpatched['called'])} hooks are called, as without the patch"
        yield verdict("PG806", Kind.PASS, case, "", "called", actual, item="hooks")
