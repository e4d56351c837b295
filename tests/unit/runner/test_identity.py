"""Content keys change with what a measurement depends on, and with nothing else."""

import sys
from dataclasses import replace

import pytest

from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import load_workloads
from patchgate.model.errors import UsageError
from patchgate.model.records import Case
from patchgate.runner.identity import answer_key, observation_key, read_environment

CASE = Case(torch="2.11.0", device="h200", workload="pointwise", patch="mine")


@pytest.fixture
def patch(folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "patch.py").write_text("x = 1\n")
    return load_patch(folder / "mine")


def test_a_key_is_of_the_content(patch, folder):
    workload = load_workloads()["pointwise"]
    key = observation_key(CASE, workload, patch, "here")
    assert key == observation_key(CASE, workload, load_patch(folder / "mine"), "here")
    others = [
        observation_key(CASE, workload, patch, "there"),
        observation_key(replace(CASE, device="cpu"), workload, patch, "here"),
        observation_key(CASE, load_workloads()["conv_stem"], patch, "here"),
        observation_key(CASE, workload, None, "here"),
    ]
    (folder / "mine" / "table.json").write_text("{}")  # a patch may read what lies beside it
    others.append(observation_key(CASE, workload, patch, "here"))
    assert len({key, *others}) == 6


def test_a_real_device_has_no_key(patch):
    assert observation_key(replace(CASE, device="cuda"), load_workloads()["pointwise"], patch, "here") is None


def test_numbers_are_those_of_the_same_question_on_the_same_torch(tmp_path):
    path = tmp_path / "stack.py"
    path.write_text("a")
    asked = {"do": "run", "workload_path": str(path), "seeds": [0, 1], "env": {"A": "b"}, "outputs": "here"}
    key = answer_key(asked, "torch")
    assert key == answer_key(asked | {"env": {}, "outputs": "there"}, "torch")
    others = {answer_key(asked | {"seeds": [0]}, "torch"), answer_key(asked, "another")}
    path.write_text("b")
    others.add(answer_key(asked, "torch"))
    assert len(others | {key}) == 4


def test_an_environment_without_torch_is_refused():
    with pytest.raises(UsageError, match="no torch in this environment"):
        read_environment(sys.executable)
