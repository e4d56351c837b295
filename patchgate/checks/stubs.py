"""Which names does the patch use of modules that are not installed?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby, zip_longest

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
    Verdict,
    Verdicts,
    display_path,
    read_codes,
    verdict_of,
)
from patchgate.checks.framework.find_checks import installing

FAMILY = "gate"
CODES = read_codes("""
PG230 used what a stand-in stands for
    The patch used names of a module that is not installed, or cannot be imported here, on import or
    during a compile. A stand-in is false in a test, and raises where its value would decide
    anything else.
    Why: Code that depends on these names was not judged.
    Fix: Install the module in the environments (`requires` or `install` in the project's table), or
    read the line and check that nothing in torch depends on it.
PG231 stand-ins were not used by the patch
    Some modules have stand-ins, and the patch itself used none of their names.
    Why: Uses in other files of the project do not affect the patch.
    Fix: Nothing to do.
""")
verdict = partial(verdict_of, FAMILY)


@Check(believes=SIMULATED)
def ask_stubs(context: CheckContext, at: Instance) -> Verdicts:
    torch = at.case.torch
    answers = [context.apply(torch)]
    answers += [
        {"stubbed": context.observations(case)[1].stubbed} for case in context.observed_cases(torch)
    ]
    return judge_stubs(at.case, context.patch, answers)


def judge_stubs(case: Case, patch: Patch, answers: Sequence[Answer]) -> list[Verdict]:
    """PG230 for each project whose stand-ins the patch used, with the names that it used; PG231 if
    there are stand-ins and the patch used none.

    Raises NothingToJudge if there are no stand-ins.
    """
    uses = {use["name"]: use for answer in answers for use in answer["stubbed"]}
    own = {name: use["where"] for name, use in sorted(uses.items()) if use["by_patch"]}
    if not uses and not patch.stubs:
        raise NothingToJudge("everything that it imports is installed")
    verdicts = []
    for project, group in groupby(own, key=lambda name: name.partition(".")[0]):
        names = list(group)
        last = [
            name for name, after in zip_longest(names, names[1:]) if not str(after).startswith(name)
        ]
        actual = f"a stand-in{_reasons(patch, project)}; the patch uses {', '.join(last)}"
        file, _, line = own[names[0]].rpartition(":")
        place = f"{display_path(file)}:{line}"
        found = verdict("PG230", Kind.ASSUMED, case, "", "a module", actual, place, item=project)
        # If modules of this project cannot be imported here, no package would help.
        own_project = any(name.partition(".")[0] == project for name in patch.stand_ins)
        verdicts.append(found if own_project else replace(found, commands=installing([project])))
    others = f"{len(uses)} names used by other files" if uses else "no name used"
    item = ", ".join(dict.fromkeys(name.partition(".")[0] for name in (*patch.stubs, *uses)))
    actual = others + _reasons(patch, "")
    return verdicts or [
        verdict("PG231", Kind.PASS, case, "", "not used by the patch", actual, item=item)
    ]


def _reasons(patch: Patch, project: str) -> str:
    """The modules that cannot be imported here, with the reasons: those of `project`, or of all
    projects if it is empty.
    """
    found = [
        f"{name}: {why}"
        for name, why in patch.stand_ins.items()
        if project in ("", name.partition(".")[0])
    ]
    return f" ({'; '.join(found)})" if found else ""
