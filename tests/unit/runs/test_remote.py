"""A share that is judged elsewhere leaves here what it would have left here: results, paths, and no patch."""

import json

import pytest

from patchgate.model.records import Case, Kind, Observation, Verdict
from patchgate.runner.environments import Environments
from patchgate.runner.run import load_verdicts, save_run, save_verdicts
from patchgate.runs import remote
from patchgate.runs import sweep as module
from patchgate.runs.history.store import History
from patchgate.runs.remote import Order, carry_out, files_at, unpack
from patchgate.runs.sweep import Job, Sweep

PYTHON = __file__  # a file that is there


@pytest.fixture
def patches(folder):
    (folder / "mine" / "data").mkdir(parents=True)
    (folder / "mine" / "patch.py").write_text("x = 1\n")
    (folder / "mine" / "data" / "table.txt").write_text("7")
    (folder / "other.py").write_text("x = 2\n")
    (folder / "other.toml").write_text('title = "Other"')
    return ["mine", "other.py"]


@pytest.fixture
def judged(folder, monkeypatch):
    """What was launched, instead of a pytest; each verdict names the patch's file and the results' folder."""
    launched = []
    monkeypatch.setattr(module, "identity_of", lambda python: python)
    monkeypatch.setattr(module, "material", lambda: ["material"])
    monkeypatch.setattr(remote, "material", lambda: ["material"])

    def launch(run, *, workers, quiet):
        (torch,) = run.rows
        launched.append((run.patch, run.rows[torch]))
        save_run(run)
        run.store.save(Observation(case=Case(torch=torch, device="h200", workload="stack"), facts={"loads.max": 2}))
        told = {"code": "PG300", "kind": Kind.PASS, "check": "kernels", "torch": torch, "subject": "stack.h200 x"}
        verdict = Verdict(**told, where=f"{run.patch}:1", actual=f"{run.shelf}/code")
        save_verdicts(module.Path(run.folder), [verdict])
        return [verdict]

    monkeypatch.setattr(module, "launch", launch)
    return launched


def order(patches, **rest):
    sent = {name: files_at(remote.Path(name)) for name in patches}
    return Order(
        torch="2.11.0", patches=sent, home="sweep", material=["material"], devices=("h200",), python=PYTHON, **rest
    )


def test_a_folder_travels_whole_and_a_file_with_its_manifest(patches):
    assert files_at(remote.Path("mine")) == {"mine/data/table.txt": b"7", "mine/patch.py": b"x = 1\n"}
    assert list(files_at(remote.Path("other.py"))) == ["other.py", "other.toml"]


def test_what_was_found_is_here_under_our_names(patches, judged, folder):
    parcel = carry_out(order(patches))
    unpack(parcel, folder / "sweep")
    (first,), (second,) = (load_verdicts(folder / "sweep" / "jobs" / f"{name}.2.11.0") for name in ("mine", "other"))
    assert (first.where, first.actual, second.where) == ("mine:1", "sweep/shelf/code", "other.py:1")
    assert [one.seconds is not None for one in parcel.done] == [True, True]
    assert not [
        path for path in (folder / "sweep").rglob("*") if path.name in ("patches", "history.sqlite", "patch.py")
    ]
    assert json.loads((folder / "sweep/jobs/mine.2.11.0/run.json").read_text())["patch"] == "mine"


def test_every_workload_is_judged_over_there_too(patches, judged, folder):
    unpack(carry_out(order(patches[:1], nightly=True)), folder / "sweep")
    assert json.loads((folder / "sweep/jobs/mine.2.11.0/run.json").read_text())["nightly"]


def test_the_row_is_ours_where_it_is_there_too(patches, judged):
    carry_out(order(patches[:1]))
    assert [python for _, python in judged] == [PYTHON]
    assert not remote.Path(judged[0][0]).exists()


def test_a_job_done_elsewhere_is_known_here(patches, judged, folder):
    unpack(carry_out(order(patches[:1])), folder / "sweep")
    history = History(folder / "sweep" / "history.sqlite")
    sweep = Sweep(folder / "sweep", Environments({"2.11.0": PYTHON}), history, print, ("h200",))
    assert sweep.known(Job(torch="2.11.0", patch=folder / "mine")) is not None
    assert sweep.known(Job(torch="2.11.0", patch=folder / "other.py")) is None
    history.close()


def test_another_patchgate_judges_nothing(patches, judged):
    other = Order(torch="2.11.0", patches={}, home="sweep", material=["other"], devices=("h200",))
    assert carry_out(other).problem.startswith("the patchgate there is another")
    assert judged == []
