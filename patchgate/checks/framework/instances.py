"""The instances of each check in a run (the combinations of its axes), and the verdicts of one
instance.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import partial

from patchgate.checks.framework.context import UNCHANGED, CheckContext
from patchgate.checks.framework.find_checks import Check, Instance, NothingToJudge
from patchgate.checks.machine import preconditions
from patchgate.model.records import Case, Verdict
from patchgate.runner.request_costs import note_cost


def instances_of(check: Check, context: CheckContext) -> list[Instance]:
    """The instances of one check; none if one of its axes is empty or the check is not wanted."""
    if not check.first and not context.run.asks(check.name, check.family):
        return []
    if not check.wanted(context.run, context.patch):
        return []
    return [
        Instance(case=case, size=size)
        for torch in context.run.rows
        for case in _cases(check, context, torch)
        for size in (_sizes(case, context) if "size" in check.axes else [""])
    ]


def cell_name(check: Check, at: Instance) -> str:
    """The name of an instance for the display of progress and for the journal, such as
    `kernels-2.11.0-h200-pointwise`.
    """
    return f"{check.name}-{at.id}"


def _cases(check: Check, context: CheckContext, torch: str) -> Iterator[Case]:
    if check.cases:
        yield from check.cases(context.patch, torch)
        return
    if check.workload and context.run.workloads and check.workload not in context.run.workloads:
        return
    for device in check.devices(context.run) if "device" in check.axes else [""]:
        for workload in (
            context.chosen_workloads(check.workloads)
            if "workload" in check.axes
            else [check.workload]
        ):
            yield replace(context.case(torch), device=device, workload=workload)


def _sizes(case: Case, context: CheckContext) -> list[str]:
    """The sizes at which a workload is timed, as its `build` takes them. On the CPU, a workload is
    timed only in the default mode.
    """
    workload = context.workloads[case.workload]
    if case.device == "cpu":
        return ["small"] if workload.mode == "default" else []
    return [str(tokens) for tokens in workload.tokens] or ["full"]


def verdicts_of(check: Check, at: Instance, context: CheckContext) -> list[Verdict]:
    """The verdicts of one instance or, if preconditions fail, those on the preconditions.

    Raises NothingToJudge.
    """
    return [
        replace(verdict, strict=context.run.strict) for verdict in _verdicts(check, at, context)
    ]


def _verdicts(check: Check, at: Instance, context: CheckContext) -> list[Verdict]:
    doubts = partial(preconditions, context, at.case.torch, check.believes or at.case.device)
    if check.ahead:
        with ThreadPoolExecutor(1) as beside:
            asked = beside.submit(copy_context().run, asked_verdicts, check, at, context)
            return doubts() or asked.result()
    in_doubt = [] if check.first else doubts()
    if not in_doubt and _is_left_out(check, at.case, context):
        note_cost(context.runner.costs, torch=at.case.torch, do=check.name, unasked=UNCHANGED)
        raise NothingToJudge(UNCHANGED)
    if not in_doubt and at.case.device and not (check.eager or check.first):
        context.require_compiles(at.case)
    return in_doubt or asked_verdicts(check, at, context)


def _is_left_out(check: Check, case: Case, context: CheckContext) -> bool:
    """True if a case is not measured because the patch changed nothing."""
    if check.unchanged == "all" or not context.is_unchanged(case.torch):
        return False
    return check.unchanged == "none" or case.workload not in context.few_workloads(check.workloads)


def asked_verdicts(check: Check, at: Instance, context: CheckContext) -> list[Verdict]:
    """The verdicts of one instance whose preconditions hold."""
    return list(check.ask(context, at))
