"""One run holds its folder; what an earlier one left is put aside, taken over or put back, and
never shown again.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from patchgate.model.errors import UsageError
from patchgate.model.files import HELD, PUT_ASIDE
from patchgate.model.policy import Kind
from patchgate.model.records import PATCH_RUN, Case, Cause, Failure, Observation, Verdict
from patchgate.model.results import JudgedCell
from patchgate.runner.files_read import note_read
from patchgate.runner.journal import Journal
from patchgate.runner.results_folder import (
    cells_before,
    held,
    put_aside,
    results_folder,
    seconds_before,
)
from patchgate.runner.run_settings import (
    OBSERVATIONS,
    VERDICTS,
    ResultStore,
    Run,
    save_run,
    save_verdicts,
)

CASE = Case(torch="2.11.0", device="h200", workload="stack")
GREEN = Verdict(
    code="PG300", kind=Kind.PASS, check="kernels", case=CASE, item=CASE.name, fact="loads"
)


def test_what_the_machine_kept_from_being_judged_is_judged_by_the_next_run(tmp_path: Path) -> None:
    folder = tmp_path
    store = ResultStore(folder / OBSERVATIONS)
    journal = Journal(folder)
    journal.begin("key")
    for kind in (Kind.INFRA, Kind.STOPPED, Kind.UNMEASURED, Kind.PASS):
        journal.append(JudgedCell(name=kind.value, verdicts=(replace(GREEN, kind=kind),)))
    failed = Failure(cause=Cause.MACHINE, stage="server", signature="killed")
    store.save(Observation(case=CASE, failure=failed))
    store.save(Observation(case=replace(CASE, torch="2.12.1")))
    put_aside(folder)
    assert [cell.name for cell in Journal(folder).begin("key")] == ["pass"]
    assert [found.case.torch for found in store] == ["2.12.1"]


def journal_of(folder: Path, *cells: str) -> None:
    """As a run leaves it that was ended after these cells."""
    journal = Journal(folder)
    journal.begin("key")
    for cell in cells:
        journal.append(
            JudgedCell(name=cell, seconds=1.0, verdicts=(replace(GREEN, kind=Kind.REGRESSED),))
        )


def test_a_journal_whose_writer_was_killed_within_a_line_has_the_lines_before(
    tmp_path: Path,
) -> None:
    journal_of(tmp_path, "one", "two")
    (file,) = tmp_path.glob("judged*")
    file.write_bytes(file.read_bytes()[:-20])
    assert [cell.name for cell in Journal(tmp_path).cells()] == ["one"]


def test_a_run_that_ended_is_judged_anew_and_what_was_red_comes_first(tmp_path: Path) -> None:
    journal_of(tmp_path, "one")
    save_verdicts(tmp_path, [GREEN])
    put_aside(tmp_path)
    assert [cell.name for cell in cells_before(tmp_path) if cell.red] == ["one"]
    assert Journal(tmp_path).begin("key") == []


def test_times_of_cells_that_ended_early_tell_nothing_about_the_next_run(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.begin("key")
    judged = JudgedCell(name="judged", seconds=20, verdicts=(GREEN,))
    stopped = replace(judged, name="stopped", verdicts=(replace(GREEN, kind=Kind.STOPPED),))
    for cell in (judged, JudgedCell(name="nothing to judge"), stopped):
        journal.append(cell)
    put_aside(tmp_path)
    assert seconds_before(tmp_path) == {"judged": 20}


def test_a_patch_that_did_not_run_leaves_no_times(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.begin("key")
    journal.append(JudgedCell(name="judged", seconds=20, verdicts=(GREEN,)))
    raised = replace(GREEN, code="PG210", kind=Kind.REGRESSED, item=PATCH_RUN)
    journal.append(JudgedCell(name="other", seconds=0.1, verdicts=(raised,)))
    put_aside(tmp_path)
    assert seconds_before(tmp_path) == {}


def _edited(file: Path) -> None:
    """As an editor and `touch -r` leave it: the size and the time are as before."""
    before = file.stat()
    file.write_text("off")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    ("change", "is_taken_over"),
    [
        (lambda file: None, True),
        (_edited, False),
        (Path.unlink, False),
        (lambda file: file.write_text("longer"), False),
    ],
    ids=["nothing", "edited", "deleted", "longer"],
)
def test_cells_are_taken_over_only_while_what_was_read_is_as_it_was(
    tmp_path: Path, change: Callable[[Path], None], is_taken_over: bool
) -> None:
    file = tmp_path / "table.json"
    file.write_text("on.")
    folder = tmp_path / "results"
    folder.mkdir()
    journal_of(folder, "one")
    note_read(folder, [str(file)])
    change(file)
    for _ in range(2):  # the run that takes over is interrupted too
        put_aside(folder)
        assert [cell.name for cell in Journal(folder).begin("key")] == ["one"] * is_taken_over


@pytest.mark.parametrize("notes", ['["?", []]\n', "[1", "{}\n", "\xff"])
def test_cells_are_not_taken_over_where_nobody_knows_what_was_read(
    tmp_path: Path, notes: str
) -> None:
    journal_of(tmp_path, "one")
    (tmp_path / "read.jsonl").write_text(notes, encoding="latin-1")
    put_aside(tmp_path)
    assert Journal(tmp_path).begin("key") == []


def test_cells_of_a_patch_that_was_edited_are_shown_and_never_taken_over(tmp_path: Path) -> None:
    journal_of(tmp_path, "one")
    Journal(tmp_path).disown()
    assert [cell.name for cell in Journal(tmp_path).cells()] == ["one"]
    put_aside(tmp_path)
    assert Journal(tmp_path).begin("key") == []


def test_an_interrupted_run_is_taken_over_after_one_that_did_not_begin(tmp_path: Path) -> None:
    journal_of(tmp_path, "one")
    for _ in range(2):
        put_aside(tmp_path)
        save_verdicts(tmp_path, [])  # as `leave_partial` does
    put_aside(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [PUT_ASIDE]
    assert [cell.name for cell in Journal(tmp_path).begin("key")] == ["one"]


def test_what_this_run_has_measured_before_it_began_stays_beside_what_is_taken_over(
    tmp_path: Path,
) -> None:
    journal_of(tmp_path, "one")
    for _ in range(2):
        put_aside(tmp_path)
        save_verdicts(tmp_path, [])  # as `leave_partial` does
    put_aside(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [PUT_ASIDE]
    for folder, name in ((tmp_path / PUT_ASIDE, "old.py"), (tmp_path, "new.py")):
        (folder / "code").mkdir()
        (folder / "code" / name).touch()
    assert [cell.name for cell in Journal(tmp_path).begin("key")] == ["one"]
    assert sorted(path.name for path in (tmp_path / "code").iterdir()) == ["new.py", "old.py"]


def test_what_cannot_be_put_aside_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_verdicts(tmp_path, [GREEN])
    monkeypatch.setattr(Path, "mkdir", Mock(side_effect=OSError(errno.ENOSPC, "full")))
    put_aside(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", [".", "one"])
def test_results_are_put_back_where_the_next_command_is_bad_usage(
    tmp_path: Path, below: str
) -> None:
    place = tmp_path / "out" / below
    save_run(Run(folder=str(place), patch="mine.py", rows={}))
    save_verdicts(place, [GREEN])
    (tmp_path / "out" / "report.html").write_text("")
    before = {path.relative_to(tmp_path) for path in tmp_path.rglob("*")}
    with pytest.raises(UsageError), results_folder(tmp_path / "out", "--folder"):
        assert [
            path for path in (tmp_path / "out").rglob(VERDICTS) if PUT_ASIDE not in path.parts
        ] == []
        raise UsageError("bad", where="--check", got="x", next="y")
    assert {path.relative_to(tmp_path) for path in tmp_path.rglob("*")} == before


def test_a_folder_that_is_made_goes_where_the_command_is_bad_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError), results_folder(tmp_path / "deep" / "out", "--folder"):
        raise UsageError("bad", where="--check", got="x", next="y")
    assert list(tmp_path.iterdir()) == []


_HOLDS = """
import sys
from pathlib import Path
from patchgate.runner.results_folder import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_runs_never_write_into_one_folder(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDS, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout and other.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match=f"got:  process {other.pid}, since "), held(tmp_path):
            raise AssertionError
        other.kill()
    with held(tmp_path), held(tmp_path):  # a step of a command that holds it
        assert (tmp_path / HELD).read_text().startswith(f"process {os.getpid()},")
    assert list(tmp_path.iterdir()) == []
