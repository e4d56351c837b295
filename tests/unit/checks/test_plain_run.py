"""Compare a user's script with the gate's own run -> PG225, PG226 or nothing."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from patchgate.checks import plain_run
from patchgate.checks.framework.find_checks import Instance
from patchgate.checks.plain_run import ask_plain_run, differences, judge_plain_run
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Case, Verdict
from patchgate.model.serialization import Answer

CASE = Case(torch="2.11.0", patch="mine")
PATCH = Patch(id="mine", path="patch.py", source="", claims=Claims(title="Mine"))
APPLIED: dict[str, Any] = {
    "stubbed": [],
    "effects": [{"kind": "environment", "name": "SEEN"}, {"kind": "threads", "name": "one"}],
}
JUDGED: Answer = {"code": ["a", "b"]}
SAME: Answer = {"code": ["a", "b"], "changed": ["environment SEEN", "threads"], "differing": 0.0}
FAILED: Answer = {
    "failure": {"cause": "raised", "stage": "plain run", "signature": "boom", "where": None}
}


def judge(
    plain: Answer, judged: Answer = JUDGED, without: tuple[Answer, Answer] | None = None
) -> Verdict:
    return judge_plain_run(CASE, PATCH, "chain", APPLIED, (judged, plain), without)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"code": ["a", "c"]}, "1 of 2 modules of generated code differ"),
        ({"differing": 0.25}, "25.0% of the outputs differ bit for bit"),
        ({"code": []}, "the script left 0 of 2 modules of generated code"),
        ({"code": ["a"]}, "the script left 1 of 2 modules of generated code"),
        (FAILED, "the script fails: boom"),
    ],
)
def test_what_a_script_has_otherwise_is_red(other: Answer, words: str) -> None:
    verdict = judge({**SAME, **other}, without=(JUDGED, SAME | {"changed": []}))
    assert (verdict.code, verdict.colour, verdict.actual) == ("PG225", Colour.RED, words)


def test_code_that_only_the_gate_has_compiled_is_no_difference_where_it_has_without_the_patch_too() -> (
    None
):
    """It also runs other values."""
    assert differences(JUDGED, SAME) == []
    assert judge(SAME).code == "PG211"
    fewer = SAME | {"code": ["a"]}
    assert differences(JUDGED, fewer)
    assert judge(fewer, without=(JUDGED, fewer)).code == "PG211"


def test_settings_that_only_a_script_sees_changed_are_a_note_on_the_order_of_imports() -> None:
    verdict = judge(SAME | {"changed": ["environment SEEN", "environment UNSEEN"]})
    assert (verdict.code, verdict.colour) == ("PG227", Colour.GREY)
    assert verdict.actual == "importing it changed environment UNSEEN"


def test_the_results_of_torch_in_a_script_are_a_note_and_others_are_red() -> None:
    other = SAME | {"code": ["c"], "differing": 0.5}
    sides = (JUDGED, other), (JUDGED | {"code": ["c"]}, SAME | {"code": ["c"]})
    told = [
        judge_plain_run(CASE, PATCH, "chain", APPLIED, *sides, unpatched=same)
        for same in (True, False)
    ]
    assert [(verdict.code, verdict.colour) for verdict in told] == [
        ("PG227", Colour.GREY),
        ("PG225", Colour.RED),
    ]


@pytest.mark.parametrize(
    ("plain", "without", "differing", "same"),
    [
        ({"code": ["c"]}, {"code": ["c"]}, 0, True),
        ({"code": ["c"]}, {"code": ["d"]}, 0, False),
        ({"code": ["c"]}, {"code": ["c"]}, 0.1, False),
        (FAILED, {"code": ["c"]}, 0, False),
        ({"code": ["c"]}, FAILED, 0, False),
    ],
)
def test_a_script_is_unpatched_by_its_code_and_its_outputs(plain, without, differing, same) -> None:
    context: Any = SimpleNamespace(differences=lambda *asked: {"metrics": {"differing": differing}})
    assert (
        plain_run._is_unpatched(context, "2.11.0", plain, (JUDGED, without), Path("folder")) is same
    )


@pytest.mark.parametrize(
    "without", [(JUDGED, FAILED), (FAILED, {}), (JUDGED, SAME | {"code": ["x"], "changed": []})]
)
def test_what_torch_alone_does_in_a_script_is_not_held_against_the_patch(
    without: tuple[Answer, Answer],
) -> None:
    verdict = judge(SAME | {"differing": 0.5}, without=without)
    assert (verdict.code, verdict.colour) == ("PG226", Colour.GREY)
    assert verdict.actual.startswith("torch without the patch differs too: ")


@pytest.mark.parametrize(
    "patch", [replace(PATCH, diff="x"), replace(PATCH, claims=Claims(title="", stubs=("acme",)))]
)
def test_no_script_runs_a_diff_or_what_uses_stubs_and_a_retry_would_not_help(patch: Patch) -> None:
    context: Any = SimpleNamespace(
        patch=patch, apply=lambda torch: {"stubbed": []}, only=[replace(CASE, workload="chain")]
    )
    (verdict,) = ask_plain_run(context, Instance(case=CASE))
    assert (verdict.code, verdict.colour, verdict.is_judged) == ("PG226", Colour.GREY, True)


@pytest.mark.parametrize(
    ("names", "unchanged", "looked_at"),
    [(["chain"], False, 0), (["chain", "stack"], False, 1), (["chain"] * 2, True, 0)],
)
def test_workloads_are_observed_only_where_there_is_a_choice(
    names: list[str], unchanged: bool, looked_at: int
) -> None:
    observed: list[Case] = []

    def observations(case: Case) -> tuple[Any, Any]:
        observed.append(case)
        return SimpleNamespace(facts={"loads": 2}), SimpleNamespace(
            facts={"loads": 1}, failure=None
        )

    context: Any = SimpleNamespace(
        only=[],
        chosen_workloads=lambda kind: names,
        workload=lambda name: SimpleNamespace(training=False),
        observed_cases=lambda torch: [replace(CASE, device="cpu", workload=name) for name in names],
        observations=observations,
        is_unchanged=lambda torch: unchanged,
    )
    assert plain_run._workload(context, "2.11.0") in names
    assert len(observed) == looked_at


def test_what_does_not_run_for_the_gate_is_not_compared() -> None:
    assert judge({}, FAILED).code == "PG226"


@pytest.mark.parametrize("is_built", [False, True])
def test_a_script_waits_for_the_gates_own_run_only_where_that_builds_what_it_needs(
    is_built: bool,
) -> None:
    script, own = threading.Event(), threading.Event()

    def ask_plain_run(case: Case, patch: Any, path: Path, seed: int) -> Answer:
        script.set()
        return SAME if is_built or own.is_set() else FAILED

    def ask_building(*question: Any, **more: Any) -> Answer:
        assert not is_built or script.wait(timeout=30)
        own.set()
        return JUDGED

    context: Any = SimpleNamespace(
        patch=PATCH,
        run=SimpleNamespace(nightly=False),
        only=[replace(CASE, workload="chain")],
        workload=lambda name: SimpleNamespace(checks=(), training=False),
        apply=lambda torch: APPLIED,
        was_built=lambda case, patch: is_built,
        ask_plain_run=ask_plain_run,
        ask_building=ask_building,
        differences=lambda *sides: {"metrics": {}},
    )
    (verdict,) = plain_run.ask_plain_run(context, Instance(case=CASE))
    assert verdict.code == "PG211"


@pytest.mark.parametrize("side", [0, 1])
def test_a_machine_that_fails_is_no_difference_of_a_script(side: int) -> None:
    late = {"failure": {"cause": "machine", "stage": "differ", "signature": "own step"}}
    sides = (late, SAME) if side == 0 else (JUDGED, late)
    verdict = judge_plain_run(CASE, PATCH, "chain", APPLIED, sides)
    assert (verdict.code, verdict.kind) == ("PG226", Kind.INFRA)


def test_a_script_without_a_gpu_says_nothing_of_a_patch_that_asks_for_one() -> None:
    alone = {
        "failure": {
            "cause": "raised",
            "stage": "",
            "signature": "RuntimeError: needs a real device: 0 active",
        }
    }
    verdict = judge_plain_run(CASE, PATCH, "chain", APPLIED, (JUDGED, alone))
    assert (verdict.code, verdict.kind) == ("PG226", Kind.ASSUMED)
