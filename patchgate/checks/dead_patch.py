"""Does the patch change anything at all on the releases that it is judged on?"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from patchgate.checks import registry
from patchgate.checks.application import is_claimed
from patchgate.checks.context import SIMULATED, CheckContext
from patchgate.checks.registry import Instance, NothingToJudge, check
from patchgate.model.paths import shown
from patchgate.model.records import Case, Code, Kind, Patch, Verdict

FAMILY = "gate"
CODES = (
    Code(
        code="PG221",
        title="changes nothing on any release",
        what="On every release that was judged, running the patch replaced no name of torch and had no effect.",
        why="A patch that does nothing passes every other check, and whoever installs it believes to be cured.",
        fix='Call the function that installs it at import, or name it in the manifest: `apply = "install"`;'
        " if the patch is meant for other releases, claim them in `applies_to`.",
    ),
)
verdict = partial(registry.verdict, FAMILY, item="changes")


# What a scope puts in place may show in a compile only, as a handler does.
@check(believes=SIMULATED, wanted=lambda run, patch: not patch.claims.scope)
def ask_dead_patch(context: CheckContext, at: Instance) -> Iterable[Verdict]:
    """Asked once a run, of all its releases."""
    first, *_ = context.run.rows
    if at.case.torch != first:
        raise NothingToJudge(f"judged with torch {first}, for all releases of the run")
    answers = {torch: context.apply(torch, version=torch) for torch in context.run.rows}
    ran = {torch: answer for torch, answer in answers.items() if "failure" not in answer}
    if not ran:
        raise NothingToJudge("does not run: judged by the check of its versions")
    inert = [torch for torch in ran if context.is_inert(torch)]
    return [judge_changes(at.case, context.patch, ran, inert)]


def judge_changes(
    case: Case, patch: Patch, answers: Mapping[str, Mapping[str, Any]], inert: Sequence[str] = ()
) -> Verdict:
    """PG221 where none of the answers, by release, tells of a change; PG211 otherwise.

    On the releases `inert` it is proved that there is none.
    """
    expected = "a change of torch, of its settings or of the process"
    changing = [torch for torch, answer in answers.items() if answer["changed"] or answer["effects"]]
    if changing:
        actual = f"on {', '.join(changing)}"
        if inert:
            actual += f"; nothing on {', '.join(inert)}, so workloads are compiled there without the patch only"
        return verdict("PG211", Kind.PASS, case, "", expected, actual)
    if patch.claims.applies_to is not None and not any(is_claimed(patch, torch) for torch in answers):
        actual = f"gated out on {', '.join(answers)}, as {patch.claims.applies_to} claims"
        return verdict("PG211", Kind.PASS, case, "", expected, actual)
    line, uncalled = _uncalled_function(patch.source)
    actual = f"nothing on {', '.join(answers)}"
    if uncalled:
        actual += f"; nothing in the file calls its function `{uncalled}`"
    return verdict("PG221", Kind.REGRESSED, case, "", expected, actual, f"{shown(patch.path)}:{line}")


def _uncalled_function(source: str) -> tuple[int, str]:
    """Line and name of the last function at module level that nothing in the file names; (1, "") without one."""
    tree = ast.parse(source)
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name not in named]
    return (found[-1].lineno, found[-1].name) if found else (1, "")
