"""Which names does the patch use of modules that are replaced by stubs?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from patchgate.checks.framework.context import SIMULATED, CheckContext
from patchgate.checks.framework.find_checks import Check, Instance, verdict_of
from patchgate.inputs.manifest import Patch
from patchgate.model.paths import display_path
from patchgate.model.records import Case, Kind, Verdict, read_codes

FAMILY = "gate"
CODES = read_codes("""
PG230 used a name of a stub
    The patch used a name of a module that is replaced by a stub, on import or during a compile.
    Why: A stub has no behaviour, so code that depends on that name was not judged.
    Fix: Install the module in the environments (`requires` or `install` in the project's table), or read the line and
    check that nothing in torch depends on it.
PG231 stubs were not used by the patch
    Some modules are stubs, and the patch itself used no name of them.
    Why: Uses in other files of the project do not affect the patch.
    Fix: Nothing to do.
""")
verdict = partial(verdict_of, FAMILY)


@Check(believes=SIMULATED, wanted=lambda run, patch: bool(patch.claims.stubs))
def ask_stubs(context: CheckContext, at: Instance) -> Iterable[Verdict]:
    torch = at.case.torch
    answers = [context.apply(torch)]
    answers += [{"stubbed": context.observations(case)[1].stubbed} for case in context.observed_cases(torch)]
    return judge_stubs(at.case, context.patch, answers)


def judge_stubs(case: Case, patch: Patch, answers: Sequence[Mapping[str, Any]]) -> list[Verdict]:
    """PG230 for each name that the patch used of a stub; PG231 where it used none."""
    uses = {use["name"]: use for answer in answers for use in answer["stubbed"]}
    own = {name: use["where"] for name, use in sorted(uses.items()) if use["by_patch"]}
    verdicts = [
        verdict("PG230", Kind.ASSUMED, case, "", "a module that is installed", "a stub", shown_place(where), item=name)
        for name, where in own.items()
    ]
    others = f"{len(uses)} names used by other files" if uses else "no name used"
    item = ", ".join(patch.claims.stubs)
    return verdicts or [verdict("PG231", Kind.PASS, case, "", "not used by the patch", others, item=item)]


def shown_place(where: str) -> str:
    """file:line as the user would type it."""
    file, _, line = where.rpartition(":")
    return f"{display_path(file)}:{line}"
