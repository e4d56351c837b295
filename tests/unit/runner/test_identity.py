"""Content keys change with what a measurement depends on, and with nothing else; shelves keep what counts."""

import sys
from dataclasses import replace

import pytest

from patchgate.inputs.matrix import load_workloads
from patchgate.inputs.patch import load_patch
from patchgate.model.errors import UsageError
from patchgate.model.records import Case, Cause, Failure, Observation
from patchgate.runner.environments import Environments, NotInstallable
from patchgate.runner.identity import key_of, key_of_question, read_environment
from patchgate.runner.results import Answers, Shelf

CASE = Case(torch="2.11.0", device="h200", workload="pointwise", patch="mine")


@pytest.fixture
def patch(folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "patch.py").write_text("x = 1\n")
    return load_patch(folder / "mine")


def test_a_key_is_of_the_content(patch, folder):
    workload = load_workloads()["pointwise"]
    key = key_of(CASE, workload, patch, "here")
    assert key == key_of(CASE, workload, load_patch(folder / "mine"), "here")
    others = [
        key_of(CASE, workload, patch, "there"),
        key_of(replace(CASE, device="cpu"), workload, patch, "here"),
        key_of(CASE, load_workloads()["conv_stem"], patch, "here"),
        key_of(CASE, workload, None, "here"),
    ]
    (folder / "mine" / "table.json").write_text("{}")  # a patch may read what lies beside it
    others.append(key_of(CASE, workload, patch, "here"))
    assert len({key, *others}) == 6


def test_a_real_device_has_no_key(patch):
    assert key_of(replace(CASE, device="cuda"), load_workloads()["pointwise"], patch, "here") is None


def test_numbers_are_those_of_the_same_question_on_the_same_torch(tmp_path):
    path = tmp_path / "stack.py"
    path.write_text("a")
    asked = {"do": "run", "workload_path": str(path), "seeds": [0, 1], "env": {"A": "b"}, "outputs": "here"}
    key = key_of_question(asked, "torch")
    assert key == key_of_question(asked | {"env": {}, "outputs": "there"}, "torch")
    others = {key_of_question(asked | {"seeds": [0]}, "torch"), key_of_question(asked, "another")}
    path.write_text("b")
    others.add(key_of_question(asked, "torch"))
    assert len(others | {key}) == 4


def test_outputs_are_put_where_they_are_wanted(tmp_path):
    shelf, written, wanted = Answers(tmp_path / "shelf"), tmp_path / "written", tmp_path / "wanted"
    assert shelf.load("abc", wanted) is None
    written.write_bytes(b"tensors")
    shelf.save("abc", {"environment": {}}, written)
    assert shelf.load("abc", wanted) == {"environment": {}}
    assert wanted.read_bytes() == b"tensors"
    shelf.save("abd", {"calls": {"torch": 1}}, None)
    assert shelf.load("abd", None) == {"calls": {"torch": 1}}


def test_a_shelf_gives_the_generated_code_back(tmp_path):
    shelf, here, there = Shelf(tmp_path / "shelf"), tmp_path / "here.py", tmp_path / "there.py"
    here.write_text("kernel")
    shelf.save("abc", Observation(case=CASE, facts={"loads": 1}, artifacts={"code": str(here)}), here)
    found = shelf.load("abc", there)
    assert found.artifacts["code"].endswith("there.py")
    assert there.read_text() == "kernel"


@pytest.mark.parametrize(("cause", "kept"), [(None, True), (Cause.RAISED, True), (Cause.MACHINE, False)])
def test_a_shelf_keeps_all_but_failures_of_the_machine(tmp_path, cause, kept):
    failure = Failure(cause=cause, stage="compile", signature="it failed") if cause else None
    observation = Observation(case=CASE, failure=failure, facts={} if cause else {"loads": (1, 2)})
    shelf = Shelf(tmp_path)
    shelf.save("abc", observation, tmp_path / "code.py")
    assert shelf.load("abc", tmp_path / "code.py") == (observation if kept else None)
    assert shelf.load("abd", tmp_path / "code.py") is None


def test_an_environment_without_torch_is_refused():
    with pytest.raises(UsageError, match="no torch in this environment"):
        read_environment(sys.executable)


def test_a_row_that_is_there_is_used_and_a_release_that_is_not_is_told_each_time(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    environments = Environments({"2.11.0": "python"})
    assert environments.python("2.11.0") == "python"
    for _ in range(2):
        with pytest.raises(NotInstallable, match="no `uv`"):
            environments.python("0.0.1")
    assert (environments.made, list(environments.failed)) == ({}, ["0.0.1"])
    environments.close()
