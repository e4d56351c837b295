"""A cell of a corpus.toml -> the verdicts of that check: `effects`, `kernels pointwise.cpu`,
`cache silu`.
"""

from __future__ import annotations

from dataclasses import replace

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Instance, all_checks
from patchgate.checks.framework.instances import asked_verdicts
from patchgate.model.records import Case, Verdict

# Reads the patch once for all releases, and is no check of a release.
LINT = "lint"


def cell_names() -> list[str]:
    """Return the names with which a cell may begin."""
    return [LINT, *all_checks()]


def needs_workload(name: str) -> bool:
    """True if a cell of that name is judged on one workload, which stands behind the name."""
    check = all_checks().get(name)
    return check is not None and check.cases is None and "workload" in check.axes


def judge_cell(cell: str, torch: str, context: CheckContext) -> list[Verdict]:
    """The verdicts of one cell on one release; none where the cell is judged without a torch.

    Behind the name stand the case, as `workload.device` or a workload alone, and a size; or several
    cases, for a check that has no axis but the release.
    """
    name, *words = cell.split()
    if name == LINT:
        return []
    check = all_checks()[name]
    if check.cases:
        (case,) = check.cases(context.patch, torch) or [context.case(torch)]
        return asked_verdicts(check, Instance(case=case), context)
    if "workload" not in check.axes:
        context.only = tuple(_case(context, torch, word, "") for word in words)
        return asked_verdicts(check, Instance(case=context.case(torch)), context)
    case = _case(context, torch, words[0], check.devices(context.run)[0])
    return asked_verdicts(check, Instance(case=case, size=words[1] if words[1:] else ""), context)


def _case(context: CheckContext, torch: str, word: str, device: str) -> Case:
    workload, _, named = word.partition(".")
    return replace(context.case(torch), workload=workload, device=named or device)
