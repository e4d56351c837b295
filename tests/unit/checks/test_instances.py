"""Which cells a check gets, and which of them share a worker."""

import pytest

from patchgate.checks.instances import cells_of
from patchgate.model.records import Symptom, Workload
from patchgate.runner.run import Run

SYMPTOM = Symptom(workload="stack", device="h200", fact="loads.max", predicate="> 4")
WORKLOADS = {
    name: Workload(name=name, path=f"{name}.py", dtype="float32", checks=checks)
    for name, checks in {"stack": ("kernels", "parity"), "mlp": ("kernels",), "spare": ()}.items()
}
TIMED = {
    "stack": Workload(name="stack", path="s.py", dtype="float32", checks=("latency",), tokens=(1, 64)),
    "mlp": Workload(name="mlp", path="m.py", dtype="float32", checks=("latency",)),
}


def cells(check, fixtures, symptom=None, **run):
    made = Run(folder="f", patch="p", **({"rows": {"2.11.0": "python", "2.12.1": "python"}} | run))
    return cells_of(check, fixtures, made, WORKLOADS, symptom)


def test_a_check_gets_the_product_of_the_axes_that_it_asks_for():
    ids = [cell.id for cell in cells("kernels", {"torch", "device", "workload", "judge"})]
    assert ids == [
        f"{torch}-{device}-{workload}"
        for torch in ("2.11.0", "2.12.1")
        for device in ("h200", "cpu")
        for workload in ("stack", "mlp")
    ]


@pytest.mark.parametrize(("check", "names"), [("kernels", {"stack", "mlp"}), ("parity", {"stack"})])
def test_a_workload_is_run_by_the_checks_that_it_names(check, names):
    assert {cell.values["workload"] for cell in cells(check, {"workload"})} == names


def test_a_run_may_name_its_workloads():
    assert [cell.id for cell in cells("kernels", {"workload"}, workloads=("mlp",))] == ["mlp"]


def test_a_check_that_asks_for_no_axis_has_one_cell():
    assert [cell.values for cell in cells("gate", {"judge"})] == [{}]


@pytest.mark.parametrize("missing", [{"rows": {}}, {"devices": ()}, {"workloads": ("none",)}])
def test_an_empty_axis_leaves_no_cell(missing):
    assert cells("kernels", {"torch", "device", "workload"}, **missing) == []


@pytest.mark.parametrize(("symptom", "ids"), [(None, []), (SYMPTOM, ["2.11.0-symptom", "2.12.1-symptom"])])
def test_a_patch_without_a_symptom_has_no_symptom_cell(symptom, ids):
    assert [cell.id for cell in cells("gate", {"torch", "symptom"}, symptom)] == ids


def test_cells_that_share_an_observation_share_a_worker():
    axes = {"torch", "device", "workload"}
    kernels, graph = cells("kernels", axes), cells("graph", axes)
    assert [cell.group for cell in kernels] == [cell.group for cell in graph]
    assert {cell.group for cell in cells("gate", {"torch", "symptom"}, SYMPTOM)} <= {cell.group for cell in kernels}


def test_time_is_taken_at_every_size_and_on_a_real_device_only():
    run = Run(folder="f", patch="p", rows={"2.11.0": "python"}, devices=("h200", "cpu", "cuda"))
    found = cells_of("latency", {"device", "workload", "size"}, run, TIMED, None)
    assert [cell.id for cell in found] == ["cuda-stack-1", "cuda-stack-64", "cuda-mlp-full"]


def test_the_cpu_is_timed_at_night_at_one_size_and_in_one_mode():
    run = Run(folder="f", patch="p", rows={"2.11.0": "python"}, devices=("h200", "cpu", "cuda"), nightly=True)
    modes = {"fast": Workload(name="fast", path="f.py", dtype="float32", checks=("latency",), mode="reduce-overhead")}
    found = [cell.id for cell in cells_of("latency", {"device", "workload", "size"}, run, TIMED | modes, None)]
    assert [name for name in found if name.startswith("cpu")] == ["cpu-stack-small", "cpu-mlp-small"]
    assert "cuda-fast-full" in found


LATE = Workload(name="late", path="late.py", dtype="float32", checks=("kernels",), premerge=False)


@pytest.mark.parametrize(
    ("run", "names"),
    [
        ({}, ["stack", "mlp"]),
        ({"nightly": True}, ["stack", "mlp", "late"]),
        ({"workloads": ("late",)}, ["late"]),
    ],
)
def test_a_workload_that_is_not_for_pre_merge_waits_for_the_night_or_its_name(run, names):
    made = Run(folder="f", patch="p", rows={"2.11.0": "python"}, **run)
    assert [cell.id for cell in cells_of("kernels", {"workload"}, made, WORKLOADS | {"late": LATE}, None)] == names
