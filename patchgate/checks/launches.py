"""Does the code for a simulated GPU compute the same in the blocks and grids that Inductor chooses?
By Triton's interpreter; nightly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from patchgate.checks.framework import (
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
)
from patchgate.checks.generated_kernels import (
    interpreted_sides,
    is_same_code,
    judge_memory,
    modules_of,
    simulated_devices,
)
from patchgate.checks.parity import judge_numbers
from patchgate.checks.samples import changed_code

FAMILY = "parity"
# Modules that a generated kernel needs when it is launched: they choose its blocks and its grid.
_LAUNCHING = "torch._inductor.runtime."
# The number of compiles: one each for the batch, for one row and for no rows.
_COMPILES = 3


@Check(
    axes=("torch", "device", "workload"),
    workloads="parity",
    devices=lambda run: simulated_devices(run) if run.nightly else [],
    seconds=3,
    unchanged="none",
)
def ask_launches(context: CheckContext, at: Instance) -> Verdicts:
    case = at.case
    if is_same_code(*modules_of(context, case)) and not _changes_launches(context, case.torch):
        raise NothingToJudge("the same code is generated, and nothing that launches it is changed")
    workload = context.workload(case.workload)

    def ask(patch: Patch | None, path: str) -> Answer:
        return context.ask_building(
            case.torch,
            "run",
            case.device,
            workload=workload,
            patch=patch,
            compiles=_COMPILES * (2 if workload.training else 1),
            outputs=path,
            seeds=[0],
            small=True,
            own_blocks=True,
        )

    metrics = interpreted_sides(context, case, ask, "differ")
    if isinstance(metrics, Verdict):
        return [_of_launches(metrics, "")]
    return judge_launches(case, context.patch, metrics)


def _changes_launches(context: CheckContext, torch: str) -> bool:
    applied = context.apply(torch)
    return any(name.startswith(_LAUNCHING) for name in changed_code(applied))


def judge_launches(case: Case, patch: Patch, metrics: Answer) -> Verdicts:
    """The verdicts on numbers and memory, with the first launch that differs with the patch."""
    verdicts = [*judge_numbers(case, patch, metrics), *judge_memory(case, metrics["memory"])]
    return [_of_launches(each, _first_change(metrics["launches"])) for each in verdicts]


def _of_launches(verdict: Verdict, change: str) -> Verdict:
    actual = f"{verdict.actual}; {change}"
    verdict = replace(verdict, fact=f"{verdict.fact or 'runs'} in Inductor's blocks")
    red = change and verdict.kind is Kind.REGRESSED
    return replace(verdict, actual=actual) if red else verdict


def _first_change(launches: Mapping[str, Sequence[str]]) -> str:
    return next(
        (
            f"`{name}` is launched with {now} in place of {before}"
            for name, (before, now) in launches.items()
        ),
        "",
    )
