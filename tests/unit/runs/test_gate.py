"""How a run is carried out: what pytest is told, and what its end means."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from patchgate.model.records import Case, Kind, Verdict
from patchgate.model.results import CellEvent
from patchgate.runner.run import NAME, VERDICTS, Run, load_run, load_verdicts, save_verdicts
from patchgate.runs.gate import judge_patch, plan

CASE = Case(torch="2.11.0", device="h200", workload="stack")
GREEN = Verdict(code="PG300", kind=Kind.PASS, check="kernels", case=CASE, item=CASE.name, fact="loads")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(folder=str(tmp_path / "out"), patch=str(tmp_path / "mine.py"), rows={}, problems={"2.11.0": "no wheel"})


@pytest.fixture
def pytest_ends(monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path) -> Callable[..., list[Any]]:
    """In place of pytest: leave verdicts (or none) and end with a status; returns what it was started with."""

    def arrange(status: int, verdicts: list[Verdict] | None, output: str | None = None) -> list[Any]:
        started: list[Any] = []

        def start(command: list[str], **options: Any) -> SimpleNamespace:
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
    assert judge_patch(run, workers=1) == [GREEN]


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
    told = judge_patch(run, workers=1)
    assert [verdict.code for verdict in told] == codes
    assert told[-1].kind is Kind.INFRA
    assert told[-1].actual == f"it ended with status {status}: the last line"
    assert {verdict.code for verdict in load_verdicts(tmp_path / "out")} == set(codes)


def test_what_the_real_pytest_tells_on_the_way_reaches_whoever_asked(run, tmp_path):
    (tmp_path / "mine.py").write_text("")
    told: list[CellEvent] = []
    judge_patch(run, workers=1, progress=told.append)
    # Without an environment there is one instance, of no arguments, and it is skipped.
    assert [len(event.planned) for event in told if event.planned] == [1]
    assert [event.ended for event in told if event.ended] == []


@pytest.mark.parametrize("patient", [True, False])
def test_an_interrupted_pytest_may_end_its_probes_and_leaves_no_part_of_a_run(run, monkeypatch, tmp_path, patient):
    done = []

    def communicate(timeout: float | None = None) -> None:
        if timeout is None and not done:
            save_verdicts(tmp_path / "out", [GREEN])
            raise KeyboardInterrupt
        if timeout and not patient:
            raise KeyboardInterrupt  # a second time: nobody waits any more

    told = SimpleNamespace(send_signal=done.append, communicate=communicate, kill=lambda: done.append("killed"))
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **options: told)
    with pytest.raises(KeyboardInterrupt):
        judge_patch(run, workers=1)
    assert done == [signal.SIGINT] + ["killed"] * (not patient)
    assert not (tmp_path / "out" / VERDICTS).exists()


def test_results_of_an_earlier_run_are_never_taken_for_those_of_this_one(run, pytest_ends, tmp_path):
    save_verdicts(tmp_path / "out", [GREEN])
    pytest_ends(0, None)
    assert [verdict.code for verdict in judge_patch(run, workers=1)] == ["PG904"]


def test_pytest_is_told_the_run_and_nothing_of_the_callers_own_options(run, pytest_ends, monkeypatch, tmp_path):
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    monkeypatch.setenv("KEPT", "1")
    started = pytest_ends(0, [])
    judge_patch(run, workers=3)
    ((command, options),) = started
    assert command[:3] == [sys.executable, "-m", "pytest"]
    assert command[command.index("--patchgate-run") + 1] == str(tmp_path / "out" / NAME)
    assert command[command.index("-n") + 1] == "3"
    assert ("PYTEST_ADDOPTS" in options["env"], options["env"]["KEPT"]) == (False, "1")


def test_a_run_is_planned_in_an_emptied_folder(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "earlier").write_text("")
    command = plan(run, 2)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {NAME, "pytest.ini"}
    assert load_run(Path(command[command.index("--patchgate-run") + 1])) == run


def test_a_release_without_an_environment_is_told_by_the_real_pytest(run, tmp_path):
    (tmp_path / "mine.py").write_text("")
    (verdict,) = judge_patch(run, workers=0)
    assert (verdict.code, verdict.torch, verdict.actual) == ("PG901", "2.11.0", "no wheel")
    assert {NAME, VERDICTS, "pytest.ini"} <= {path.name for path in (tmp_path / "out").iterdir()}
