"""Does a model of the simulated device, which is no measurement, need more time for the kernels?"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Check, Instance, NothingToJudge, verdict_of
from patchgate.inputs.manifest import Patch
from patchgate.model.budgets import MODEL_TELLS, budget_for, judge_change, show_budget
from patchgate.model.records import Budget, Kind, Observation, Verdict, read_codes
from patchgate.runner.modelled_time import METRIC

FAMILY = "modelled"
# What holds where a manifest names no budget. A model repeats exactly; a smaller change is not worth a note.
_BUDGET = Budget(low=-0.005, high=0.005)
_TELLS = f"{MODEL_TELLS * 100:g} %"
# What to do about a change that the budget in the braces would admit.
_SLOWER = (
    "Compare the generated code of both sides, and time it on a real device (`--device cuda`). If the cost is meant,"
    ' say so in patch.toml: [budgets] modelled_time = "{}".'
)
_FASTER = 'Record it in patch.toml: [budgets] modelled_time = "{}".'
CODES = read_codes(f"""
PG621 slower by the model
    The time that a model of the simulated device needs for the kernels grows by more than the budget `modelled_time`
    allows (0.5 %, if the manifest names none). It is modelled, not measured. The verdict is red where the manifest
    names the budget and the change is beyond {_TELLS}, and a grey note elsewhere: about smaller changes the model is
    often wrong (docs/modelled-time.md).
    Why: More traffic or more launches cost time on every step; without a GPU this is the first sign of it.
    Fix: {_SLOWER.format("0 % .. 2 %")}
PG622 faster by the model
    The modelled time on the simulated device falls by more than the budget `modelled_time` expects. The verdict is red
    where the manifest names the budget and the change is beyond {_TELLS}, and a grey note elsewhere.
    Why: A gain that is not recorded can be lost again unnoticed.
    Fix: {_FASTER.format("-2 % .. 0 %")}
PG623 within budget by the model
    The modelled time on the simulated device stays within the budget `modelled_time`.
    Why: The kernels have no more to do than before. How fast they run is not measured.
    Fix: Nothing to do.
""")
verdict = partial(verdict_of, FAMILY)
# Where nobody has claimed a budget, or the model cannot tell faster from slower.
_NOTES = {Kind.OVER: Kind.ESTIMATE, Kind.UNDER: Kind.ESTIMATE}
_CODES = {Kind.OVER: "PG621", Kind.UNDER: "PG622", Kind.PASS: "PG623"}


@Check(
    axes=("torch", "device", "workload"),
    devices=lambda run: [device for device in run.devices if "speed" in run.profile(device)],
)
def ask_modelled(context: CheckContext, at: Instance) -> Iterable[Verdict]:
    if context.workload(at.case.workload).needs_device:
        raise NothingToJudge("needs a device: judged by the kernels check")
    sides = context.observations(at.case, measured=True)
    verdicts = judge_modelled(context.patch, *sides, context.manifest_location("budgets"))
    if not verdicts:
        raise NothingToJudge("did not compile: judged by the kernels check")
    return verdicts


def judge_modelled(patch: Patch, unpatched: Observation, patched: Observation, where: str) -> list[Verdict]:
    """One verdict; none where a side has no modelled time, because it did not compile."""
    before, after = unpatched.metrics.get(METRIC), patched.metrics.get(METRIC)
    if not before or after is None:
        return []
    budget = patch.claims.budgets.get(METRIC, _BUDGET)
    # The model is exact, so the change is taken as it is; sums of the same figures in another order differ in the
    # last bits.
    change = round(after / before - 1, 9)
    kind = judge_change(budget, change, change)
    expected = f"modelled, not measured: a change within {show_budget(budget)}"
    actual = f"modelled {before:.1f} -> {after:.1f} us ({change:+.2%})"
    code = _CODES[kind]
    if kind is Kind.PASS:
        return [verdict(code, kind, patched.case, "", expected, actual)]
    advice = (_SLOWER if kind is Kind.OVER else _FASTER).format(budget_for(change, change))
    if METRIC not in patch.claims.budgets or abs(change) <= MODEL_TELLS:
        kind = _NOTES.get(kind, kind)
    return [verdict(code, kind, patched.case, "", expected, actual, where, advice=advice)]
