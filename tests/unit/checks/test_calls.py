"""Test if the code that a patch put in place is called, line by line and branch by branch: PG803,
PG805 to PG807, PG809.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from patchgate.checks import calls
from patchgate.checks.calls import judge_called
from patchgate.checks.framework.context import CheckContext, Functions
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Colour
from patchgate.model.records import Case, Cause, Failure, Observation, Verdict, Workload
from patchgate.runner.run_settings import Run

ALONE = Case(torch="2.11.0", patch="mine")
SOURCE = "import a\n\n\ndef f(x):\n    return x\n\n\na.b.f = f\n"
PATCH = Patch(id="mine", path="/p/patch.py", source=SOURCE, claims=Claims(title="Mine"))
CASE = Case(torch="2.11.0", device="cpu", workload="w", patch="mine")
APPLIED = {"replacements": {"torch.b.f": [5]}}
FAILED = Observation(
    case=CASE, failure=Failure(cause=Cause.RAISED, stage="compile", signature="boom")
)


def ran(*lines: int) -> Observation:
    return Observation(case=CASE, ran=lines)


def codes(verdicts: Iterable[Verdict]) -> list[str]:
    return [verdict.code for verdict in verdicts]


def called(
    *observed: Observation, applied: dict[str, Any] = APPLIED, functions: Functions | None = None
) -> list[Verdict]:
    return list(judge_called(ALONE, PATCH, applied, functions or Functions(), observed))


def test_a_replacement_that_ran_in_one_workload_is_called():
    assert codes(called(ran(), ran(5))) == ["PG806"]


def test_a_replacement_that_never_ran_is_a_note():
    (verdict,) = called(ran(), ran(1))
    assert (verdict.code, verdict.colour, verdict.actual) == (
        "PG803",
        Colour.GREY,
        "no line of it ran in 2 cases",
    )
    assert (verdict.subject, verdict.where) == ("calls of torch.b.f", "/p/patch.py:8")


def test_what_the_workloads_of_a_narrowed_run_do_not_call_is_grey_and_says_so():
    narrowed = "--workload pointwise"
    (verdict,) = judge_called(ALONE, PATCH, APPLIED, Functions(), [ran(1)], narrowed)
    assert (verdict.code, verdict.colour, verdict.is_judged) == ("PG803", Colour.GREY, True)
    assert verdict.actual.endswith(f"; the run was narrowed ({narrowed}): another case may call it")
    _, lines = judge_called(
        ALONE, PATCH, APPLIED, Functions(lines={"f:4": [5, 6]}), [ran(5)], narrowed
    )
    assert (
        lines.actual
        == f"lines 6 never ran in 1 workloads, as the run was narrowed ({narrowed}): add a workload"
    )


def test_the_line_in_which_a_compile_fails_has_run():
    failed = Failure(cause=Cause.RAISED, stage="compile", signature="boom", where="/p/patch.py:5")
    assert codes(called(ran(), Observation(case=CASE, failure=failed))) == ["PG806"]
    assert codes(called(ran(), FAILED)) == ["PG803"], (
        "a failure elsewhere says nothing of the replacement"
    )


def test_nothing_is_said_of_calls_where_nothing_compiled():
    (verdict,) = called(FAILED)
    assert (verdict.code, verdict.colour) == ("PG809", Colour.GREY)


def test_a_patch_without_functions_of_its_own_has_none_to_call():
    assert codes(called(ran(), applied={"replacements": {}})) == ["PG806"]


def test_lines_that_never_ran_are_listed_for_functions_that_did():
    told = called(
        ran(5, 11), functions=Functions(lines={"f:4": [5], "g:10": [11, 12, 14], "never:20": [21]})
    )
    assert codes(told) == ["PG806", "PG805"]
    assert told[1].subject == "lines of g"
    assert told[1].actual == "lines 12, 14 never ran in 1 workloads: add a workload"


def test_branches_that_came_out_one_way_only_are_listed():
    functions = Functions(
        lines={"f:4": [5, 6, 7], "never:20": [21]},
        outcomes={
            "f:4": [(5, "true"), (5, "false"), (6, "entered"), (6, "left")],
            "never:20": [(21, "true")],
        },
    )
    half = Observation(case=CASE, ran=(5, 6, 7), took=((5, "true"), (6, "entered")))
    other = Observation(case=CASE, ran=(5,), took=((6, "left"),))
    told = called(half, other, functions=functions)
    assert codes(told) == ["PG806", "PG807"]
    assert (told[1].where, told[1].actual) == (
        "/p/patch.py:5",
        "line 5 was never false: add a workload",
    )
    whole = Observation(case=CASE, ran=(5, 6, 7), took=tuple(functions.outcomes["f:4"]))
    assert codes(called(whole, functions=functions)) == ["PG806"]


def test_a_condition_that_never_ran_is_reported_as_a_line_only():
    functions = Functions(lines={"f:4": [5, 6]}, outcomes={"f:4": [(6, "true"), (6, "false")]})
    assert codes(called(ran(5), functions=functions)) == ["PG806", "PG805"]


class _Context:
    """A context in which one case was observed; it counts what is asked of the caches."""

    run, patch = Run(folder="", patch="", rows={}), PATCH

    def __init__(self, *lines: int) -> None:
        self.observed, self.asked = ran(*lines), 0

    def observations(self, case: Case) -> tuple[Observation, Observation]:
        return ran(), self.observed

    def apply(self, torch: str) -> dict[str, Any]:
        return APPLIED

    def functions(self, torch: str) -> Functions:
        return Functions(lines={"f:4": [5, 6], "uuid:10": [11], "empty:12": []})

    leaves_functions_unreached = CheckContext.leaves_functions_unreached

    def observed_cases(self, torch: str) -> list[Case]:
        return [CASE]

    def case(self, torch: str) -> Case:
        return CASE

    def workload(self, name: str) -> Workload:
        return Workload(name=name, path="w.py", dtype="float32")

    def ask(self, *question: Any, **more: Any) -> dict[str, Any]:
        self.asked += 1
        return {"ran": [11], "took": []}


@pytest.mark.parametrize(("lines", "asked"), [((5,), 1), ((5, 11), 0), ((), 1)])
def test_the_caches_are_asked_only_where_a_function_was_never_called(
    lines: tuple[int, ...], asked: int
) -> None:
    """The caches are on while the calls are counted; a line of a function that ran is no reason to
    compile.
    """
    context = _Context(*lines)
    calls.called(context, "2.11.0", [CASE])  # type: ignore[arg-type]
    assert context.asked == asked


def test_what_a_compile_with_caches_leaves_goes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    caches: list[Path] = []

    def compiled(
        context: Any, case: Case, path: str, cache: Path, *, cover: bool
    ) -> dict[str, Any]:
        caches.append(cache)
        return {"ran": [3]}

    monkeypatch.setattr(calls, "compile_cached", compiled)
    assert calls._with_caches(SimpleNamespace(patch=PATCH), CASE) == {"ran": [3]}  # type: ignore[arg-type]
    # Precompiled headers lie beside the cache: what holds both is gone.
    assert not caches[0].parent.exists()
