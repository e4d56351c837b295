"""How a run is carried out: what pytest is told, and what its end means."""

import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from patchgate.runs.launch import launch

from patchgate.model.records import Kind, Verdict
from patchgate.runner.run import NAME, VERDICTS, Run, load_verdicts, save_verdicts

GREEN = Verdict(code="PG300", kind=Kind.PASS, check="kernels", torch="2.11.0", subject="stack.h200 loads")


@pytest.fixture
def run(tmp_path):
    return Run(folder=str(tmp_path / "out"), patch=str(tmp_path / "mine.py"), rows={}, problems={"2.11.0": "no wheel"})


@pytest.fixture
def pytest_ends(monkeypatch, run, tmp_path):
    """In place of pytest: leave verdicts (or none) and end with a status; returns what it was started with."""

    def arrange(status, verdicts, output=None):
        started = []

        def start(command, **options):
            started.append((command, options))
            if verdicts is not None:
                save_verdicts(tmp_path / "out", verdicts)
            return SimpleNamespace(returncode=status, communicate=lambda: (output, None))

        monkeypatch.setattr(subprocess, "Popen", start)
        return started

    return arrange


@pytest.mark.parametrize("status", [0, 1, 5])
def test_a_pytest_that_judged_leaves_its_verdicts(run, pytest_ends, status):
    pytest_ends(status, [GREEN])
    assert launch(run, workers=1, quiet=True) == [GREEN]


@pytest.mark.parametrize(
    ("status", "verdicts", "codes"),
    [
        (2, [GREEN], ["PG300", "PG904"]),
        (3, None, ["PG904"]),
        (0, None, ["PG904"]),
        (-9, [], ["PG904"]),
    ],
)
def test_a_pytest_that_broke_is_a_verdict_too(run, pytest_ends, tmp_path, status, verdicts, codes):
    pytest_ends(status, verdicts, "a line\nthe last line\n")
    told = launch(run, workers=1, quiet=True)
    assert [verdict.code for verdict in told] == codes
    assert told[-1].kind is Kind.INFRA
    assert told[-1].actual == f"it ended with status {status}: the last line"
    assert {verdict.code for verdict in load_verdicts(tmp_path / "out")} == set(codes)


@pytest.mark.parametrize("patient", [True, False])
def test_an_interrupted_pytest_may_end_its_probes_and_leaves_no_part_of_a_run(run, monkeypatch, tmp_path, patient):
    done = []

    def communicate(timeout=None):
        if timeout is None and not done:
            save_verdicts(tmp_path / "out", [GREEN])
            raise KeyboardInterrupt
        if timeout and not patient:
            raise KeyboardInterrupt  # a second time: nobody waits any more

    told = SimpleNamespace(send_signal=done.append, communicate=communicate, kill=lambda: done.append("killed"))
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **options: told)
    with pytest.raises(KeyboardInterrupt):
        launch(run, workers=1, quiet=True)
    assert done == [signal.SIGINT] + ["killed"] * (not patient)
    assert not (tmp_path / "out" / VERDICTS).exists()


def test_results_of_an_earlier_run_are_never_taken_for_those_of_this_one(run, pytest_ends, tmp_path):
    save_verdicts(tmp_path / "out", [GREEN])
    pytest_ends(0, None)
    assert [verdict.code for verdict in launch(run, workers=1, quiet=False)] == ["PG904"]


def test_pytest_is_told_the_run_and_nothing_of_the_callers_own_options(run, pytest_ends, monkeypatch, tmp_path):
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    monkeypatch.setenv("KEPT", "1")
    started = pytest_ends(0, [])
    launch(run, workers=3, quiet=True)
    ((command, options),) = started
    assert command[:3] == [sys.executable, "-m", "pytest"]
    assert command[command.index("--patchgate-run") + 1] == str(tmp_path / "out" / NAME)
    assert command[command.index("-n") + 1] == "3"
    assert ("PYTEST_ADDOPTS" in options["env"], options["env"]["KEPT"]) == (False, "1")


def test_a_row_without_an_environment_is_told_by_the_real_pytest(run, tmp_path):
    (tmp_path / "mine.py").write_text("")
    (verdict,) = launch(run, workers=0, quiet=True)
    assert (verdict.code, verdict.torch, verdict.actual) == ("PG901", "2.11.0", "no wheel")
    assert {NAME, VERDICTS, "pytest.ini"} <= {path.name for path in (tmp_path / "out").iterdir()}
