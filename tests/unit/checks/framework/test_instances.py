"""Test the instances of a check, which of them share a worker, and what is asked before any of
them.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from typing import Any

import pytest

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import (
    Check,
    Instance,
    NothingToJudge,
    all_checks,
)
from patchgate.checks.framework.instances import instances_of, verdicts_of
from patchgate.inputs.manifest import Claims, Patch, Symptom
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Cause, Failure, Observation, Verdict, Workload
from patchgate.runner.run_settings import Run

SYMPTOM = Symptom(workload="stack", device="h200", fact="loads.max", predicate="> 4")
WORKLOADS = {
    name: Workload(name=name, path=f"{name}.py", dtype="float32", checks=checks)
    for name, checks in {"stack": ("kernels", "parity"), "mlp": ("kernels",), "spare": ()}.items()
}
TIMED = {
    "stack": Workload(
        name="stack", path="s.py", dtype="float32", checks=("latency",), tokens=(1, 64)
    ),
    "mlp": Workload(name="mlp", path="m.py", dtype="float32", checks=("latency",)),
}
LATE = Workload(name="late", path="late.py", dtype="float32", checks=("kernels",), premerge=False)
ONE = {"2.11.0": "python"}
TWO = ONE | {"2.12.1": "python"}


def instances(
    check: str | Check,
    symptom: Symptom | None = None,
    scope: str | None = None,
    known: dict[str, Workload] = WORKLOADS,
    **run: Any,
) -> list[Instance]:
    """The instances of a check, by its name, for a run on two releases."""
    patch = Patch(
        id="mine", path="p.py", source="", claims=Claims(title="Mine", symptom=symptom, scope=scope)
    )
    made = Run(folder="f", patch="p.py", **({"rows": TWO} | run))
    runner: Any = None  # nothing is asked of torch to know what is to be asked
    found = all_checks()[check] if isinstance(check, str) else check
    return instances_of(found, CheckContext(made, patch, known, runner))


def ids(*given: Any, **options: Any) -> list[str]:
    return [at.id for at in instances(*given, **options)]


def test_a_check_gets_the_product_of_its_axes():
    assert ids("kernels") == [
        f"{torch}-{device}-{workload}"
        for torch in ("2.11.0", "2.12.1")
        for device in ("h200", "cpu")
        for workload in ("stack", "mlp")
    ]
    assert {at.case.patch for at in instances("kernels")} == {"mine"}


@pytest.mark.parametrize(
    ("checks", "asked"),
    [
        ((), {"kernels", "parity", "tokens", "machine"}),
        (
            ("parity",),
            {"parity", "tokens", "machine"},
        ),  # a family; the machine's sentinel is always asked
        (("tokens", "kernels"), {"tokens", "kernels", "machine"}),
    ],
)
def test_a_run_may_name_the_only_checks(checks, asked):
    assert {
        name
        for name in ("kernels", "parity", "tokens", "machine")
        if instances(name, checks=checks)
    } == asked


@pytest.mark.parametrize(("check", "names"), [("kernels", {"stack", "mlp"}), ("parity", {"stack"})])
def test_a_workload_is_run_by_the_checks_that_it_names(check, names):
    assert {at.case.workload for at in instances(check)} == names


def test_a_run_may_name_its_workloads():
    assert ids("kernels", rows=ONE, devices=("cpu",), workloads=("mlp",)) == ["2.11.0-cpu-mlp"]


@pytest.mark.parametrize(
    ("named", "asked"), [((), True), (("mlp",), False), (("mlp", "decoder"), True)]
)
def test_a_workload_of_a_checks_own_is_asked_where_no_others_are_named(named, asked):
    assert bool(ids("tokens", rows=ONE, workloads=named)) is asked


def test_a_check_without_more_axes_has_one_instance_a_release():
    assert [at.case for at in instances("version_gate")] == [
        Case(torch=torch, patch="mine") for torch in TWO
    ]
    assert ids("version_gate") == ["2.11.0", "2.12.1"]


@pytest.mark.parametrize("missing", [{"rows": {}}, {"devices": ()}, {"workloads": ("none",)}])
def test_an_empty_axis_leaves_no_instance(missing):
    assert instances("kernels", **missing) == []


@pytest.mark.parametrize(
    ("symptom", "expected"), [(None, []), (SYMPTOM, ["2.11.0-h200-stack", "2.12.1-h200-stack"])]
)
def test_a_patch_without_a_symptom_has_no_instance_of_it(symptom, expected):
    assert ids("symptom", symptom) == expected


@pytest.mark.parametrize(("scope", "expected"), [(None, []), ("patched", ["2.11.0", "2.12.1"])])
def test_a_patch_without_a_scope_has_no_instance_of_it(scope, expected):
    assert ids("scope", scope=scope) == expected


@pytest.mark.parametrize(("others", "expected"), [((), []), (("other.py",), ["2.11.0", "2.12.1"])])
def test_a_run_without_another_patch_has_no_instance_of_both(others, expected):
    assert ids("interaction", others=others) == expected


def test_instances_that_share_an_observation_share_a_worker():
    """A worker is chosen by the id."""
    assert ids("kernels") == ids("graph")
    assert set(ids("symptom", SYMPTOM)) <= set(ids("kernels"))


def test_numbers_are_taken_on_the_cpu_and_on_real_devices_only():
    devices = ("h200", "cuda")
    assert ids("parity", rows=ONE, devices=devices) == ["2.11.0-cpu-stack", "2.11.0-cuda-stack"]
    assert ids("tokens", rows=ONE, devices=devices) == ["2.11.0-cpu-decoder", "2.11.0-cuda-decoder"]
    assert ids("ranks", rows=ONE, devices=devices) == [
        "2.11.0-cpu-two_ranks",
        "2.11.0-cuda-two_ranks",
    ]


def test_time_is_taken_at_every_size_and_on_a_real_device_only():
    devices = ("h200", "cpu", "cuda")
    found = ids("latency", known=TIMED, rows=ONE, devices=devices)
    assert found == ["2.11.0-cuda-stack-1", "2.11.0-cuda-stack-64", "2.11.0-cuda-mlp-full"]


def test_the_cpu_is_timed_at_night_at_one_size_and_in_one_mode():
    modes = {
        "fast": Workload(
            name="fast", path="f.py", dtype="float32", checks=("latency",), mode="reduce-overhead"
        )
    }
    devices = ("h200", "cpu", "cuda")
    found = ids("latency", known=TIMED | modes, rows=ONE, devices=devices, nightly=True)
    assert [name for name in found if "-cpu-" in name] == [
        "2.11.0-cpu-stack-small",
        "2.11.0-cpu-mlp-small",
    ]
    assert "2.11.0-cuda-fast-full" in found


@pytest.mark.parametrize(
    ("run", "names"),
    [
        ({}, ["stack", "mlp"]),
        ({"nightly": True}, ["stack", "mlp", "late"]),
        ({"workloads": ("late",)}, ["late"]),
    ],
)
def test_a_workload_that_is_not_for_pre_merge_waits_for_the_night_or_its_name(run, names):
    found = instances(
        "kernels", known=WORKLOADS | {"late": LATE}, rows=ONE, devices=("cpu",), **run
    )
    assert [at.case.workload for at in found] == names


class Answering:
    """In place of a runner: answers the sentinel, and that the patch was applied, or what it is
    told instead.
    """

    def __init__(self, **answers: Any) -> None:
        self.asked: list[tuple[str, str]] = []
        self.answers = {"sentinel": {"facts": {}, "expected": {}}, "apply": {}} | answers

    def ask(self, torch: str, do: str, seconds: float | None = None, **request: Any) -> Any:
        self.asked.append((do, request["profile"]["backend"]))
        return self.answers[do]

    def keep(self, ask: Any, *_: object) -> Any:
        return ask()


GREEN = Verdict(
    code="PG300", kind=Kind.PASS, check="kernels", case=Case(torch="2.11.0"), item="stack.cpu"
)
UNCOUNTED = {"sentinel": {"facts": {}, "expected": {"kernels.defined": 1}}}
RAISES = {"apply": {"failure": {"cause": "raised", "stage": "patch", "signature": "boom"}}}


@pytest.mark.parametrize(
    ("changed", "answers", "codes", "asked"),
    [
        ({}, {}, ["PG300"], [("sentinel", "cpu"), ("apply", "cuda")]),
        ({"believes": "h200"}, {}, ["PG300"], [("sentinel", "cuda"), ("apply", "cuda")]),
        ({}, UNCOUNTED, ["PG902"], [("sentinel", "cpu")]),
        ({}, RAISES, ["PG210"], [("sentinel", "cpu"), ("apply", "cuda")]),
        ({"first": True}, UNCOUNTED | RAISES, ["PG300"], []),
        ({"ahead": True}, UNCOUNTED, ["PG902"], [("sentinel", "cpu")]),
    ],
)
def test_what_must_hold_first_is_judged_in_place_of_a_check(changed, answers, codes, asked):
    runner: Any = Answering(**answers)
    patch = Patch(id="mine", path="p.py", source="", claims=Claims(title="Mine"))
    context = CheckContext(Run(folder="f", patch="p.py", rows=ONE), patch, WORKLOADS, runner)
    at = Instance(case=Case(torch="2.11.0", device="cpu", workload="stack", patch="mine"))
    check = replace(
        all_checks()["kernels"],
        **{"ask": lambda context, at: [GREEN], "unchanged": "all"} | changed,
    )
    assert [verdict.code for verdict in verdicts_of(check, at, context)] == codes
    assert runner.asked == asked


NO_GRAPH = Failure(
    cause=Cause.RAISED, stage="inductor", signature="no graph", detail="", where=None
)


@pytest.mark.parametrize(
    ("mode", "failure", "judged"),
    [
        ("", None, ["kernels", "parity"]),
        ("Mode", NO_GRAPH, ["parity"]),
        ("Mode", None, ["kernels", "parity"]),  # entered only where it is looked for
    ],
)
def test_where_a_scope_has_nothing_compiled_numbers_alone_are_judged(mode, failure, judged):
    runner: Any = Answering(apply={"uncompiled": mode})
    runner.observe = lambda case, *_: Observation(case=case, failure=failure, facts={})
    patch = Patch(id="mine", path="p.py", source="", claims=Claims(title="Mine", scope="block"))
    context = CheckContext(Run(folder="f", patch="p.py", rows=ONE), patch, WORKLOADS, runner)
    at = Instance(case=Case(torch="2.11.0", device="cpu", workload="stack", patch="mine"))
    found = []
    for name in ("kernels", "parity"):
        with contextlib.suppress(NothingToJudge):
            verdicts_of(replace(all_checks()[name], ask=lambda context, at: [GREEN]), at, context)
            found.append(name)
    assert found == judged


def test_a_check_may_be_asked_before_it_is_known_what_holds():
    """A script of a user's runs while the server of torch warms up, by which the sentinel is
    compiled.
    """
    asked, patch = (
        threading.Event(),
        Patch(id="mine", path="p.py", source="", claims=Claims(title="Mine")),
    )

    class Waiting(Answering):
        def ask(self, torch, do, *args, **request):
            assert do != "sentinel" or asked.wait(timeout=30)
            return super().ask(torch, do, *args, **request)

    def ask(context, at):
        asked.set()
        return [GREEN]

    runner: Any = Waiting()
    context = CheckContext(Run(folder="f", patch="p.py", rows=ONE), patch, WORKLOADS, runner)
    at = Instance(case=Case(torch="2.11.0", device="cpu", workload="stack", patch="mine"))
    assert verdicts_of(replace(all_checks()["kernels"], ask=ask, ahead=True), at, context) == [
        GREEN
    ]
    assert all_checks()["plain_run"].ahead
