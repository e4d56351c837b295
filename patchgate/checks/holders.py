"""Does anything in torch still refer to the original, and can the replacement be called at all?"""

from __future__ import annotations

import ast
from collections.abc import Collection
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
    display_path,
    read_codes,
    verdict_of,
)
from patchgate.inputs.patch_source import Unreadable, nodes_in, parse

FAMILY = "reach"
CODES = read_codes("""
PG801 the original is still referenced elsewhere
    With the patch applied, other modules, classes or registries of torch still refer to the
    original. It is a note if one entry of a table was replaced and only other tables have the
    original; if `targets` does not name it and another object of torch has its place; and if a
    class overrides it whose siblings still inherit it. It is also a note if `targets` does not name
    it and everything that is named here is loaded after a patch that is imported first, and so gets
    the replacement.
    Why: Users run torch's own code wherever it is called from there: the patch covers only some of
    its callers.
    Fix: Also assign the replacement in the places that are named, or patch where the callers look
    it up.
PG802 the target can never be called
    The replaced method is abstract, and every concrete class overrides it. It is red for a claimed
    target.
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
    answer = context.apply(at.case.torch)
    if "failure" in answer:
        raise NothingToJudge("does not run: judged by the check of its versions")
    asks = any(name not in _claimed(context.patch, answer) for name in answer["holders"])
    later = context.apply_anew(at.case.torch).get("later", ()) if asks else ()
    return judge_holders(at.case, context.patch, answer, later)


def judge_holders(
    case: Case, patch: Patch, answer: Answer, later: Collection[str] = ()
) -> Verdicts:
    """PG801 and PG802 from the live process with the patch. `later` names the holders in modules
    that a new interpreter loads only after the patch.
    """
    say = partial(verdict, item="holders")
    claimed = _claimed(patch, answer)
    for name, holders in answer["holders"].items():
        more = f" and {len(holders) - _SHOWN} more" if len(holders) > _SHOWN else ""
        actual, place = f"{', '.join(holders[:_SHOWN])}{more}", assignment_place(patch, name)
        # Each part of torch has a table of its own, and a patch chooses the table that it changes.
        own_table = name.endswith("]") and all(holder.endswith("]") for holder in holders)
        # Torch also replaces its own names, such as `torch.Storage` with the default dtype.
        is_torchs = name in answer["torchs"] and name not in claimed
        # An override is for its class; the patch may leave sibling classes unchanged on purpose.
        is_first = name not in claimed and all(holder in later for holder in holders)
        is_note = own_table or is_torchs or is_first or name in answer["overrides"]
        kind = Kind.WARNING if is_note else Kind.REGRESSED
        yield say("PG801", kind, case, f"of {name}", "none hold the original", actual, place)
    for name in answer["unreachable"]:
        kind = Kind.REGRESSED if name in (patch.claims.targets or ()) else Kind.WARNING
        actual = "abstract, and overridden by every class that can be made"
        place = assignment_place(patch, name)
        yield verdict("PG802", kind, case, "", "can be called", actual, place, item=name)
    if not answer["holders"] and not answer["unreachable"]:
        actual = ", ".join(answer["changed"]) or "nothing replaced"
        yield say("PG806", Kind.PASS, case, "", "none hold the original", actual)


def _claimed(patch: Patch, answer: Answer) -> set[str]:
    """The targets, and the names that they mean."""
    return {*(patch.claims.targets or ())}.union(*answer["claimed"].values())


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
    """` at patch.py:41`: the innermost `if` around the replacement of a claimed target; "" if there
    is no such `if`.
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
