"""Does anything in torch still refer to the original, and can the replacement be called at all?"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from patchgate.checks.framework import (
    SIMULATED,
    Answer,
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    NothingToJudge,
    Patch,
    Verdicts,
    claimed_names,
    display_path,
    read_codes,
    verdict_of,
)
from patchgate.inputs.patch_source import Unreadable, nodes_in, parse

FAMILY = "reach"
CODES = read_codes("""
PG801 the original is still referenced elsewhere
    With the patch applied, other modules, classes or registries of torch still refer to the
    original. It is red if a line of torch called the original while a workload was compiled, if no
    line of torch can call the replacement, if a public name keeps the original, and for a table.
    Otherwise it is a note, since the patch may leave them the original on purpose. It is also a
    note if `targets` does not name it and everything that is named here is loaded after a patch
    that is imported first, and so gets the replacement, as it does in the workloads of a gate.
    Why: Users run torch's own code wherever it is called from there: the patch covers only some of
    its callers.
    Fix: Also assign the replacement in the places that are named, or patch where the callers look
    it up.
PG802 the target can never be called
    The replaced method is abstract, and every concrete class overrides it. The result is red if
    the target is claimed.
    Why: Users believe that they have the patch, and it does nothing.
    Fix: Patch the classes that implement it.
PG806 the replacements are called
    Everything that referred to the originals refers to the replacements, and they are called.
    Why: A patch that is never called fixes nothing.
    Fix: Nothing to do.
""")
verdict = partial(verdict_of, FAMILY)
# The most holders that are named.
_SHOWN = 6


@Check(believes=SIMULATED, seconds=0.1)
def ask_holders(context: CheckContext, at: Instance) -> Verdicts:
    torch = at.case.torch
    answer = context.apply(torch)
    if "failure" in answer:
        raise NothingToJudge("does not run: judged by the check of its versions")
    callers: dict[str, str] = {}
    for case in context.observed_cases(torch) if context.held(torch) else ():
        callers |= context.observations(case)[1].callers
    asks = {*callers, *answer["bypassed"]} - claimed_names(context.patch, answer)
    later = context.apply_anew(torch).get("later", ()) if asks else ()
    return judge_holders(at.case, context.patch, answer, callers, later)


def judge_holders(
    case: Case,
    patch: Patch,
    answer: Answer,
    callers: Mapping[str, str],
    later: Collection[str] = (),
) -> Verdicts:
    """PG801 for originals that the live process still holds, PG802 for uncallable replacements.

    `callers` maps the name of an original to the line that called it. `later` names the holders in
    modules that a new interpreter loads only after the patch.
    """
    say = partial(verdict, item="holders")
    claimed = claimed_names(patch, answer)
    for name, holders in answer["holders"].items():
        more = f" and {len(holders) - _SHOWN} more" if len(holders) > _SHOWN else ""
        actual, place = f"{', '.join(holders[:_SHOWN])}{more}", assignment_place(patch, name)
        is_first = name not in claimed and all(holder in later for holder in holders)
        called = f"{callers[name]} called the original" if name in callers else ""
        why = called or answer["bypassed"].get(name, "")
        is_note = not why or is_first
        kind = Kind.WARNING if is_note else Kind.REGRESSED
        told = (actual, why) if why else (actual,)
        yield say("PG801", kind, case, f"of {name}", "none hold the original", told, place)
    for name in answer["unreachable"]:
        kind = Kind.REGRESSED if name in (patch.claims.targets or ()) else Kind.WARNING
        actual = "abstract, and overridden by every class that can be made"
        place = assignment_place(patch, name)
        yield verdict("PG802", kind, case, "", "can be called", actual, place, item=name)
    if not answer["holders"] and not answer["unreachable"]:
        actual = ", ".join(answer["changed"]) or "nothing replaced"
        yield say("PG806", Kind.PASS, case, "", "none hold the original", actual)


def assignment_place(patch: Patch, *names: str) -> str:
    """The line of the patch that assigns the first of `names` that the patch contains; if it
    contains none of them, the line that first changes torch.
    """
    lines = (_assignment_line(patch.source, name) for name in names)
    line = next(filter(None, lines), 0)
    return f"{display_path(patch.path)}:{line}" if line else patch.place


def _assignment_line(source: str, name: str) -> int:
    """The last line that assigns the last part of `name`, or else mentions it; 0 if none does."""
    last = name.partition("[")[0].rpartition(".")[2]
    lines = source.splitlines()
    for text in (f".{last} = ", f'"{last}"', f"'{last}'", last):
        numbers = [number for number, line in enumerate(lines, 1) if text in line]
        if numbers:
            return numbers[-1]
    return 0


def condition_place(patch: Patch) -> str:
    """The place, such as ` at patch.py:41`, of the innermost `if` around the replacement of a
    claimed target; empty if there is no such `if`.
    """
    lines = [_assignment_line(patch.source, name) for name in patch.claims.targets or ()]
    try:
        nodes = [*nodes_in(parse(patch.source), ast.If)]
    except (Unreadable, RecursionError):
        return ""
    around = [
        node.lineno
        for node in nodes
        for line in lines
        if node.lineno <= line <= (node.end_lineno or 0)
    ]
    return f" at {Path(patch.path).name}:{max(around)}" if around else ""
