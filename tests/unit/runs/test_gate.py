"""How a run is carried out: what pytest is told, and what its end means."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from patchgate.model.exit_code import exit_code
from patchgate.model.records import Case, Cause, Failure, Kind, Observation, Verdict
from patchgate.model.results import CellEvent
from patchgate.runner.resume_journal import Journal
from patchgate.runner.run_settings import NAME, VERDICTS, Run, load_run, load_verdicts, save_verdicts
from patchgate.runs import gate
from patchgate.runs.gate import judge_patch, plan

CASE = Case(torch="2.11.0", device="h200", workload="stack")
GREEN = Verdict(code="PG300", kind=Kind.PASS, check="kernels", case=CASE, item=CASE.name, fact="loads")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "mine.py").write_text("")
    return Run(folder=str(tmp_path / "out"), patch=str(tmp_path / "mine.py"), rows={}, problems={"2.11.0": "no wheel"})


@pytest.fixture
def pytest_ends(monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path) -> Callable[..., list[Any]]:
    """In place of pytest: leave verdicts (or none) and end with a status; returns what it was started with."""

    def arrange(status: int | BaseException, verdicts: list[Verdict] | None, output: str = "") -> list[Any]:
        started: list[Any] = []

        def carry_out(command: list[str], environment: dict[str, str], file: int, passed: tuple[int, ...] = ()) -> int:
            started.append((command, environment))
            os.write(file, output.encode())
            if verdicts is not None:
                save_verdicts(tmp_path / "out", verdicts)
            if isinstance(status, BaseException):
                raise status
            return status

        monkeypatch.setattr(gate, "supervisor", lambda: SimpleNamespace(run=carry_out))
        monkeypatch.setattr(gate, "shared_servers", lambda rows: nullcontext({}))
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
        (3, None, ["PG901", "PG904"]),
        (0, None, ["PG901", "PG904"]),
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


def journal_of(run: Run, *cells: str) -> None:
    """As a run leaves it that was ended after these cells."""
    journal = Journal(run)
    journal.begin("key")
    for cell in cells:
        journal.append(CellEvent(ended=cell, seconds=1.0, verdicts=(GREEN,)))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyboardInterrupt("SIGTERM"), "the run was ended by SIGTERM"),
        (OSError(errno.ENOSPC, "No space left on device"), "the machine failed: [Errno 28] No space left on device"),
        (TypeError("ours"), "patchgate failed: TypeError: ours"),
    ],
)
def test_a_run_that_is_ended_keeps_what_it_judged_and_says_what_it_did_not(
    run, pytest_ends, monkeypatch, tmp_path, error, reason
):
    run = replace(run, rows={"2.11.0": "python"}, problems={}, workloads=("pointwise",), devices=("h200",))
    pytest_ends(error, None)
    monkeypatch.setattr(gate, "plan", lambda run, workers: journal_of(run, "machine-2.11.0-h200") or [])
    with pytest.raises(type(error)):
        judge_patch(run, workers=1)
    verdicts = load_verdicts(tmp_path / "out")
    stopped = [verdict for verdict in verdicts if verdict.kind is Kind.STOPPED]
    assert [verdict for verdict in verdicts if verdict not in stopped] == [GREEN]
    assert {(verdict.code, verdict.actual) for verdict in stopped} == {("PG907", f"not judged: {reason}")}
    assert {"kernels", "gate", "parity"} <= {verdict.check for verdict in stopped}
    assert exit_code(verdicts) == 4


def test_the_next_run_of_the_same_content_takes_over_the_cells_and_another_one_does_not(run, tmp_path):
    journal_of(run, "one", "two")
    run.store.save(Observation(case=CASE))
    (tmp_path / "out" / "report.html").write_text("of the part")
    for key, cells in (("key", ["one", "two"]), ("another", [])):
        plan(run, 2)
        assert [cell.ended for cell in Journal(run).begin(key)] == cells
        assert bool(list(run.store)) == bool(cells)
    assert not (tmp_path / "out" / "report.html").exists()


def test_what_the_machine_kept_from_being_judged_is_judged_by_the_next_run(run):
    journal = Journal(run)
    journal.begin("key")
    for kind in (Kind.INFRA, Kind.STOPPED, Kind.UNMEASURED, Kind.PASS):
        journal.append(CellEvent(ended=kind.value, verdicts=(replace(GREEN, kind=kind),)))
    failed = Failure(cause=Cause.MACHINE, stage="server", signature="killed")
    run.store.save(Observation(case=CASE, failure=failed))
    plan(run, 2)
    assert [cell.ended for cell in Journal(run).begin("key")] == ["pass"]
    assert list(run.store) == []


def test_a_journal_whose_writer_was_killed_within_a_line_has_the_lines_before(run, tmp_path):
    journal_of(run, "one", "two")
    (file,) = (tmp_path / "out").glob("judged*")
    file.write_bytes(file.read_bytes()[:-20])
    assert [cell.ended for cell in Journal(run).cells()] == ["one"]


def test_a_run_that_ended_is_judged_anew(run, pytest_ends):
    journal_of(run, "one")
    save_verdicts(Path(run.folder), [GREEN])
    plan(run, 2)
    assert Journal(run).begin("key") == []


_KILLED = """
import os, pathlib, pytest

@pytest.mark.parametrize("n", range(4))
def test_cell(n):
    if n == 1:
        os.kill(os.getpid(), 9)
"""


def test_a_killed_worker_ends_the_run_and_no_cell_is_waited_for(run, monkeypatch, tmp_path):
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "test_suite.py").write_text(_KILLED)
    monkeypatch.setattr(gate, "SUITE", suite)
    events: list[CellEvent] = []
    verdicts = judge_patch(run, workers=2, progress=events.append)
    assert {verdict.code for verdict in verdicts} >= {"PG901", "PG904"}  # no check of ours has such cells
    assert "1" in {event.ended for event in events}


def test_results_of_an_earlier_run_are_never_taken_for_those_of_this_one(run, pytest_ends, tmp_path):
    save_verdicts(tmp_path / "out", [GREEN])
    pytest_ends(0, None)
    assert [verdict.code for verdict in judge_patch(run, workers=1)] == ["PG901", "PG904"]


def test_pytest_is_told_the_run_and_nothing_of_the_callers_own_options(run, pytest_ends, monkeypatch, tmp_path):
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    monkeypatch.setenv("KEPT", "1")
    started = pytest_ends(0, [])
    judge_patch(run, workers=3)
    ((command, environment),) = started
    assert command[:3] == [sys.executable, "-m", "pytest"]
    assert command[command.index("--patchgate-run") + 1] == str(tmp_path / "out" / NAME)
    assert command[command.index("-n") + 1] == "3"
    assert ("PYTEST_ADDOPTS" in environment, environment["KEPT"]) == (False, "1")


def test_a_run_is_planned_in_an_emptied_folder(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "earlier").write_text("")
    command = plan(run, 2)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {NAME, "pytest.ini", ".reserved"}
    assert load_run(Path(command[command.index("--patchgate-run") + 1])) == run


@pytest.mark.parametrize(("number", "ends"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EOPNOTSUPP, False)])
def test_a_run_for_whose_report_there_is_no_space_does_not_begin(run, number, ends, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "posix_fallocate", Mock(side_effect=OSError(number, os.strerror(number))))
    with pytest.raises(OSError, match="a run needs 16 MiB below") if ends else nullcontext():
        plan(run, 2)
    assert not (tmp_path / "out" / ".reserved").exists()


def test_the_cells_that_were_red_are_planned_to_be_judged_first(run):
    journal = Journal(run)
    journal.begin("key")
    for kind in (Kind.PASS, Kind.REGRESSED):
        journal.append(CellEvent(ended=kind.value, verdicts=(replace(GREEN, kind=kind),)))
    save_verdicts(Path(run.folder), [GREEN])
    plan(run, 2)
    assert load_run(Path(run.folder, NAME)).sooner == (Kind.REGRESSED.value,)


def test_servers_that_outlast_the_run_are_asked_and_go_on(run, pytest_ends, monkeypatch):
    pytest_ends(0, [GREEN])
    monkeypatch.setattr(gate, "shared_servers", None)  # none is started
    assert judge_patch(run, workers=1, servers={"broker": {}}) == [GREEN]


def test_a_release_without_an_environment_is_reported_by_the_real_pytest(run, tmp_path):
    (tmp_path / "mine.py").write_text("")
    (verdict,) = judge_patch(run, workers=0)
    assert (verdict.code, verdict.torch, verdict.actual) == ("PG901", "2.11.0", "no wheel")
    assert {NAME, VERDICTS, "pytest.ini"} <= {path.name for path in (tmp_path / "out").iterdir()}
