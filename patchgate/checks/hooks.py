"""Are the user's hooks into the compiler still called, and do the options given to torch.compile
still apply?
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

from patchgate.checks.framework import (
    Answer,
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    Patch,
    Verdicts,
    failure_of,
    judge_failed,
    read_codes,
    verdict_of,
)

FAMILY = "reach"
CODES = read_codes("""
PG804 a hook or an option of the user is lost
    A custom pass that a user has installed runs only without the patch. Or a mode or an option that
    a call of torch.compile sets applies only without the patch; with it, another value applies, or
    the call fails. The result is a note if the patch sets that option itself, which is the
    documented way to add a pass. Or the patch's own pass calls the user's, and its key for torch's
    caches stays the same when the user edits that pass.
    Why: The user's pass or option is disabled without any message. Or the next version of the
    user's pass gets the code that this one has left in the cache.
    Fix: Call what you replace, including a pass that the option holds already, and pass on all
    arguments. Let `uuid` contain the `uuid` of a pass that you call, and return None if it has
    none.
PG808 does not compile with hooks of the user set
    With custom passes set in Inductor's config, a small graph compiles without the patch and fails
    with it.
    Why: Users who have a custom pass cannot install the patch.
    Fix: Read the failure. Pass on the arguments that you are given, and expect that an option may
    be set already.
""")
verdict = partial(verdict_of, FAMILY)
_Options = Mapping[str, str]
_Lost = tuple[str, _Options, _Options]
#: An edit of the user's passes: "a key" or "no key", as they have, and then for each hook the key
#: of the patch's pass before the edit and after it.
_Edit = tuple[str, Mapping[str, str], Mapping[str, str]]


@Check(believes="cpu", unchanged="none")
def ask_hooks(context: CheckContext, at: Instance) -> Verdicts:
    context.require_compiles(at.case)
    unpatched, patched = (
        context.ask_once(at.case.torch, "hooks", "cpu", patch=patch)
        for patch in (None, context.patch)
    )
    effects = context.apply(at.case.torch).get("effects", ())
    own = {effect["name"].rpartition(".")[2] for effect in effects if effect["kind"] == "config"}
    yield from judge_hooks(at.case, context.patch, unpatched, patched, own)
    yield from judge_keys(at.case, context.patch, _edits(context, at.case, patched))


def _edits(context: CheckContext, case: Case, patched: Answer) -> Iterator[_Edit]:
    """The keys before and after an edit of the user's passes, if a pass of the patch calls them.
    The user's passes have no key of their own, then one.
    """
    keys = patched.get("keys")
    if not keys:
        return
    ask = partial(context.ask_once, case.torch, "hooks", "cpu", patch=context.patch)
    if any(keys.values()):
        yield "no key", keys, ask(edited=True).get("keys", {})
    before, after = (ask(keyed=True, edited=edited).get("keys", {}) for edited in (False, True))
    yield "a key", before, after


def judge_keys(case: Case, patch: Patch, edits: Iterable[_Edit]) -> Verdicts:
    """PG804 for each hook where the key of the patch's pass stays the same after an edit of the
    user's pass that it calls.
    """
    stays: dict[str, str] = {}
    for has, before, after in edits:
        for name, key in before.items():
            if key and key == after.get(name):
                stays.setdefault(name, f"the same after an edit of the user's pass with {has}")
    for name, actual in sorted(stays.items()):
        expected = "changes with the user's pass"
        yield verdict(
            "PG804", Kind.REGRESSED, case, name, expected, actual, patch.place, item="key of"
        )


def judge_hooks(
    case: Case,
    patch: Patch,
    unpatched: Answer,
    patched: Answer,
    own: Collection[str] = (),
) -> Verdicts:
    """PG804 for each hook that is called only without the patch, PG808 if only the patched side
    fails.

    `own` are the options that the patch sets itself.
    """
    sides = failure_of(unpatched), failure_of(patched)
    failed = judge_failed(FAMILY, ("PG808", "PG809"), case, sides, "an answer", item="hooks")
    if failed:
        yield failed
        return
    lost = sorted(set(unpatched["called"]) - set(patched["called"]))
    for name in lost:
        count = unpatched["called"][name]
        times = {1: "once", 2: "twice"}.get(count, f"{count} times")
        actual = f"called {times} without the patch, never with it"
        kind, place = Kind.REGRESSED, patch.place
        if name in own or name in patched["replaced"]:
            kind, actual = Kind.WARNING, f"{actual}: the patch sets a pass of its own in its place"
        yield verdict("PG804", kind, case, name, "called", actual, place, item="hook")
    changed = _lost_options(unpatched["asked"], patched["asked"])
    if changed:
        call, given, got = changed[0]
        is_own = all({*options} <= {*own} for _, options, _ in changed)
        kind, place = Kind.WARNING if is_own else Kind.REGRESSED, patch.place
        told: tuple[str, ...] = (_shown(got),)
        if len(changed) > 1:
            told += (f"other values in {len(changed) - 1} more ways to call it",)
        yield verdict("PG804", kind, case, call, _shown(given), told, place, item="torch.compile")
    if not lost and not changed:
        count = len(unpatched["called"])
        actual = (
            f"{count} hooks are called, and {len(unpatched['asked'])} ways to compile are alike, "
            "as without the patch"
        )
        yield verdict("PG806", Kind.PASS, case, "", "called", actual, item="hooks")


def _lost_options(
    unpatched: Mapping[str, _Options], patched: Mapping[str, _Options]
) -> list[_Lost]:
    """List the ways to call torch.compile that lose options, each with the given options that do
    not apply and the values that apply in their place.
    """
    lost: list[_Lost] = []
    for call, asked in unpatched.items():
        got = patched.get(call, {})
        differing = {name: value for name, value in asked.items() if got.get(name) != value}
        if differing and not asked.get("", "").startswith("raises"):
            instead = {name: got[name] for name in differing if name in got}
            lost.append((call, differing, instead or got))
    return lost


def _shown(options: _Options) -> str:
    return ", ".join(f"{name}={value}" if name else value for name, value in options.items())
