"""How a run is carried out: what each cell gives, what an early end leaves, and what the next run
takes over.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import (
    Instance,
    NothingToJudge,
    all_checks,
    installing,
)
from patchgate.inputs.patch import load_patch
from patchgate.model.exit_code import exit_code
from patchgate.model.paths import display_path
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Command, Observation, Verdict
from patchgate.model.results import JudgedCell, Progress
from patchgate.model.serialization import to_dict
from patchgate.runner import run_settings
from patchgate.runner.files_read import note_read
from patchgate.runner.journal import Journal
from patchgate.runner.results_folder import put_aside
from patchgate.runner.run_settings import NAME, VERDICTS, Run, load_verdicts, runs_in
from patchgate.runner.start_server import Servers
from patchgate.runs import gate
from patchgate.runs.gate import (
    Cell,
    in_turn,
    judge_patch,
    leave_partial,
    planned_cells,
    with_stand_ins,
)

CASE = Case(torch="2.11.0", device="h200", workload="stack")
GREEN = Verdict(
    code="PG300", kind=Kind.PASS, check="kernels", case=CASE, item=CASE.name, fact="loads"
)
ROWS = {"2.11.0": "python"}
Ask = Callable[[CheckContext, Instance], Iterable[Verdict]]
Judge = Callable[..., list[Verdict]]


def verdict(kind: Kind, **more: Any) -> Verdict:
    case = Case(torch="2.11.0", patch="mine")
    given = {"code": "PG301", "check": "kernels", "item": kind.value, "actual": "6"} | more
    return Verdict(kind=kind, case=case, **given)


def says(*kinds: Kind) -> Ask:
    """A check that says this of every instance."""
    return lambda context, at: [verdict(kind) for kind in kinds]


def raises(error: BaseException) -> Ask:
    def ask(context: CheckContext, at: Instance) -> list[Verdict]:
        raise error

    return ask


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "mine.py").write_text("")
    return Run(folder=str(tmp_path / "out"), patch=str(tmp_path / "mine.py"), rows=ROWS)


@pytest.fixture
def judge(run: Run, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """Judges with one check, which believes without a sentinel, and starts no torch."""
    monkeypatch.setattr(gate, "running_servers", lambda rows: nullcontext(Servers({}, dict(rows))))
    monkeypatch.setattr(gate, "content_key", lambda run, patch, environments: "key")

    def judge(ask: Ask, patch: tuple[str, str] = ("mine.py", ""), **given: Any) -> list[Verdict]:
        check = replace(
            all_checks()["kernels"], ask=ask, axes=("torch",), first=True, unchanged="all"
        )
        monkeypatch.setattr(gate, "all_checks", lambda: {"kernels": check})
        path = Path(run.patch).with_name(patch[0])
        path.write_text(patch[1])
        options = {
            name: given.pop(name) for name in ("progress", "workers", "servers") if name in given
        }
        made = replace(run, patch=str(path), **given)
        verdicts = judge_patch(made, load_patch(path), **{"workers": 2, **options})
        assert verdicts == load_verdicts(Path(run.folder))
        return verdicts

    return judge


# -- what a cell gives


def test_the_verdicts_of_each_cell_are_left_with_its_time(judge: Judge, run: Run) -> None:
    assert [found.kind for found in judge(says(Kind.PASS, Kind.REGRESSED))] == [
        Kind.PASS,
        Kind.REGRESSED,
    ]
    assert '"kernels-2.11.0"' in Path(run.folder, "judged.jsonl").read_text()
    assert {path.name for path in Path(run.folder).iterdir()} == {
        NAME,
        VERDICTS,
        "judged.jsonl",
    }


def test_each_verdict_is_made_json_once(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr(
        run_settings, "to_dict", lambda record: made.append(record) or to_dict(record)
    )
    run_settings.verdict_json.cache_clear()
    verdicts = judge(says(Kind.PASS, Kind.REGRESSED))
    assert [record for record in made if isinstance(record, Verdict)] == verdicts


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (says(), "a check that gave no result has judged nothing"),
        (raises(OSError("no disk")), "OSError: no disk"),
        (raises(SystemExit(3)), "SystemExit: 3"),
    ],
)
def test_a_cell_that_ends_without_a_verdict_is_never_green(
    judge: Judge, ask: Ask, told: str
) -> None:
    (judged,) = judge(ask)
    assert (judged.code, judged.kind, judged.subject) == ("PG904", Kind.INFRA, "kernels-2.11.0")
    assert judged.actual == told


@pytest.mark.parametrize(
    ("own", "typed"),
    [
        ((), ["gate {rest} --requires 'acme>=2' --requires tqdm"]),
        (("tqdm",), ["gate {rest} --requires 'acme>=2' --requires tqdm"]),
        (("tqdm", "acme>=2"), []),  # it would be the run that there was
    ],
)
def test_a_command_that_installs_what_is_missing_is_this_run_with_it(
    judge: Judge, run: Run, own: tuple[str, ...], typed: list[str]
) -> None:
    Path(run.patch).with_name("requirements.txt").write_text("acme>=2\n")
    found = replace(verdict(Kind.UNMEASURED), commands=installing(["acme", "tqdm"]))
    project = replace(run.project, requires=own)
    (judged,) = judge(lambda context, at: [found], project=project)
    rest = f"{display_path(run.patch)} --torch 2.11.0 --folder {display_path(run.folder)}"
    assert [str(each) for each in judged.commands] == [
        f"patchgate {command.format(rest=rest)}" for command in typed
    ]


@pytest.mark.parametrize(
    ("required", "names"), [("torch-npu==2.10", ["mine", "torch.npu"]), ("npu", ["mine"])]
)
def test_a_device_has_a_stand_in_if_the_project_requires_the_package_that_adds_it(
    run: Run, required: str, names: list[str]
) -> None:
    folder = Path(run.patch).parent
    (folder / "__init__.py").touch()
    (folder / "setup.py").touch()
    (folder / "requirements.txt").write_text(required)
    why = "AttributeError: module 'torch' has no attribute"
    found = {"mine": "ImportError: no", "torch.npu": f"{why} 'npu'", "torch.gone": f"{why} 'gone'"}
    runner = Mock(ask=Mock(return_value={"replaced": found}))
    patch = with_stand_ins(run, load_patch(Path(run.patch)), runner)
    assert list(patch.stand_ins) == names


def test_any_other_command_stays_as_it_is(judge: Judge) -> None:
    commands = (Command(name="gate", arguments=("mine.py",)), Command(name="doctor"))
    (judged,) = judge(lambda context, at: [replace(verdict(Kind.REGRESSED), commands=commands)])
    assert judged.commands == commands


def test_a_cell_on_a_full_disk_is_the_machine_s_trouble(judge: Judge) -> None:
    (judged,) = judge(raises(OSError(errno.ENOSPC, "No space left on device")))
    assert (judged.code, judged.kind) == ("PG907", Kind.STOPPED)
    assert judged.actual == f"not judged: {judged.brief}"


def test_what_another_check_tells_leaves_no_verdict(judge: Judge) -> None:
    assert judge(raises(NothingToJudge("judged by the kernels check"))) == []


def test_a_verdict_that_two_cells_give_is_reported_once(judge: Judge) -> None:
    same = [replace(verdict(Kind.STALE), case=Case(torch="2.11.0"))]
    assert judge(lambda context, at: same, rows=ROWS | {"2.12.1": "python"}) == same


def test_a_release_without_an_environment_is_a_verdict(judge: Judge) -> None:
    (judged,) = judge(says(Kind.PASS), rows={}, problems={"2.11.0": "no wheel"})
    assert (judged.code, judged.torch, judged.actual) == ("PG901", "2.11.0", "no wheel")


DIFF = """\
--- a/torch/_inductor/ir.py
+++ b/torch/_inductor/ir.py
@@ -1,1 +1,1 @@
-x = 1
+x = 2
"""


@pytest.mark.parametrize(
    ("patch", "place", "told"),
    [
        (("mine.py", ""), "{}:3", "mine.py:3"),
        (("mine.diff", DIFF), "{}:3", "mine.diff"),
        (("mine.diff", DIFF), "mine.toml:2", "mine.toml:2"),
        (("mine.diff", DIFF), None, None),
    ],
)
def test_a_place_in_what_stands_for_a_diff_is_reported_as_the_diff(
    judge: Judge, patch: tuple[str, str], place: str | None, told: str | None
) -> None:
    def ask(context: CheckContext, at: Instance) -> list[Verdict]:
        return [verdict(Kind.PASS, where=place and display_path(place.format(context.patch.path)))]

    (judged,) = judge(ask, patch=patch)
    assert judged.where == told if told is None else str(judged.where).endswith(told)


class Told:
    """Progress that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def planned(self, cells: Mapping[str, float], kept: Mapping[str, float]) -> None:
        self.events.append(("planned", list(cells)))

    def started(self, cell: str) -> None:
        self.events.append(("started", cell))

    def ended(self, cell: JudgedCell) -> None:
        self.events.append((cell.name, [verdict.kind for verdict in cell.red]))


def test_what_happens_is_told_as_it_happens_with_the_red_verdicts_of_each_cell(
    judge: Judge,
) -> None:
    def ask(context: CheckContext, at: Instance) -> list[Verdict]:
        return (
            [verdict(Kind.PASS)]
            if at.case.torch == "2.12.1"
            else [verdict(Kind.PASS), verdict(Kind.STALE)]
        )

    told = Told()
    judge(ask, rows=ROWS | {"2.12.1": "python"}, progress=told, workers=1)
    first, second = "kernels-2.11.0", "kernels-2.12.1"
    assert told.events == [
        ("planned", [first, second]), ("started", first), (first, [Kind.STALE]), ("started", second), (second, [])
    ]  # fmt: skip


def test_a_cell_that_waits_does_not_block_the_others(judge: Judge) -> None:
    others = threading.Event()

    def ask(context: CheckContext, at: Instance) -> list[Verdict]:
        if at.case.torch == "2.11.0":
            assert others.wait(60)
        else:
            others.set()
        return [verdict(Kind.PASS, item=at.case.torch)]

    assert len(judge(ask, rows=ROWS | {"2.12.1": "python"})) == 2


def test_the_longest_come_first_and_what_is_timed_last() -> None:
    seconds = {"facts": 1, "script": 25, "latency": 30, "parity": 15}
    kernels, at = all_checks()["kernels"], Instance(case=Case(torch="2.11.0"))
    cells = [Cell(replace(kernels, name=name, seconds=n), at) for name, n in seconds.items()]

    def order(sooner: Collection[str]) -> list[str]:
        return [cell.check.name for cell in in_turn(cells, sooner)]

    assert order([]) == ["script", "parity", "facts", "latency"]
    assert order(["facts-2.11.0"]) == ["facts", "script", "parity", "latency"]


def test_what_runs_on_a_real_gpu_comes_first() -> None:
    check = replace(all_checks()["parity"], seconds=1)
    cells = [
        Cell(replace(check, seconds=seconds), Instance(case=Case(torch="2.11.0", device=device)))
        for device, seconds in (("cpu", 9), ("cuda", 1), ("cuda", 5))
    ]
    assert [cell.check.seconds for cell in in_turn(cells, [])] == [5, 1, 9]


def test_servers_that_outlast_the_run_are_asked_and_go_on(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "running_servers", None)  # none is started
    assert [found.kind for found in judge(says(Kind.PASS), servers=Servers({}, {}))] == [Kind.PASS]


# -- a run that ends early


def interrupted_at(torch: str, error: BaseException) -> Told:
    """Progress that is interrupted when the cell of a release begins, as by a signal."""

    class Interrupted(Told):
        def started(self, cell: str) -> None:
            if torch in cell:
                raise error

    return Interrupted()


TWO = ROWS | {"2.12.1": "python"}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KeyboardInterrupt("SIGTERM"), "the run was ended by SIGTERM"),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "the machine failed: [Errno 28] No space left on device",
        ),
        (TypeError("ours"), "patchgate failed: TypeError: ours"),
    ],
)
def test_a_run_that_is_ended_keeps_what_it_judged_and_says_what_it_did_not(
    judge: Judge, run: Run, error: BaseException, reason: str
) -> None:
    with pytest.raises(type(error)):
        judge(says(Kind.PASS), rows=TWO, workers=1, progress=interrupted_at("2.12.1", error))
    verdicts = sorted(load_verdicts(Path(run.folder)), key=lambda v: v.torch)
    assert [(v.torch, v.kind) for v in verdicts] == [
        ("2.11.0", Kind.PASS),
        ("2.12.1", Kind.STOPPED),
    ]
    assert (verdicts[1].code, verdicts[1].actual) == ("PG907", f"not judged: {reason}")
    assert exit_code(verdicts) == 4


def test_the_next_run_of_the_same_content_goes_on_and_another_one_begins_anew(
    judge: Judge, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(context: CheckContext, at: Instance) -> list[Verdict]:
        asked.append(at.case.torch)
        context.run.store.save(Observation(case=at.case))
        return [verdict(Kind.PASS, item=at.case.torch)]

    for key, judged in (("key", ["2.11.0"]), ("key", []), ("other", ["2.11.0"])):
        monkeypatch.setattr(gate, "content_key", lambda run, patch, environments, key=key: key)
        with pytest.raises(KeyboardInterrupt):
            stop = interrupted_at("2.12.1", KeyboardInterrupt("SIGINT"))
            judge(ask, rows=TWO, workers=1, progress=stop, shared_cache="kept")
        assert [torch for torch in asked if torch == "2.11.0"] == judged
        asked.clear()
        Path(run.folder, "report.html").write_text("of the part")
    assert [found.kind for found in judge(ask, rows=TWO, shared_cache="kept")] == [Kind.PASS] * 2
    assert {path.name for path in Path(run.folder).iterdir()} == {
        NAME, VERDICTS, "judged.jsonl", "observations"
    }  # fmt: skip


@pytest.mark.parametrize("file", ["mine.py", "mine.toml", "table.json"])
@pytest.mark.parametrize("watch", ["", "watch-1"])
def test_results_of_a_patch_that_is_edited_meanwhile_are_of_neither_text(
    judge: Judge, run: Run, monkeypatch: pytest.MonkeyPatch, file: str, watch: str
) -> None:
    """A watch judges again by itself."""
    place = Path(run.patch).with_name(file)
    for name in ("mine.toml", "table.json"):
        place.with_name(name).write_text("")

    def edits(context: CheckContext, at: Instance) -> list[Verdict]:
        note_read(Path(run.folder), [str(place.with_name("table.json"))])
        place.write_text("# edited\n")
        return [verdict(Kind.PASS)]

    verdicts = judge(edits, watch=watch)
    assert [found.kind for found in verdicts] == [Kind.PASS] + [Kind.STOPPED] * (not watch)
    assert exit_code(verdicts) == (0 if watch else 4)
    if not watch:
        edited = file if file == "table.json" else "mine.py, or its manifest,"
        assert verdicts[1].actual.endswith(f"{edited} was edited during the run")
    assert Journal(Path(run.folder)).key == ""


@pytest.mark.parametrize(("edits_at", "code"), [(2, 1), (1, 4)])
def test_what_is_red_before_an_edit_is_the_answer(
    judge: Judge, run: Run, edits_at: int, code: int
) -> None:
    asked, first_ended = [], threading.Event()

    class Noted(Progress):
        def ended(self, cell: JudgedCell) -> None:
            first_ended.set()

    def edits(context: CheckContext, at: Instance) -> list[Verdict]:
        asked.append(at.case.torch)
        if len(asked) == edits_at:
            assert edits_at == 1 or first_ended.wait(60)
            Path(run.patch).write_text("# edited\n")
        return [verdict(Kind.REGRESSED if len(asked) == 1 else Kind.PASS)]

    verdicts = judge(edits, rows=TWO, workers=1, progress=Noted())
    assert verdicts[-1].actual.endswith("mine.py, or its manifest, was edited during the run")
    assert exit_code(verdicts) == code


def test_a_run_says_that_a_kept_answer_was_contradicted(judge: Judge) -> None:
    def contradicts(context: CheckContext, at: Instance) -> list[Verdict]:
        context.runner.contradicted.append(("2.11.0", "observe"))
        return [verdict(Kind.PASS)]

    verdicts = judge(contradicts)
    assert [found.code for found in verdicts if found.kind is Kind.INFRA] == ["PG909"]
    assert exit_code(verdicts) == 4


# -- what an earlier run left


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt("SIGTERM"), OSError(errno.ENOSPC, "No space left on device")]
)
def test_a_run_that_ends_before_its_first_cell_never_shows_what_an_earlier_one_found(
    judge: Judge, run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    judge(says(Kind.PASS))
    monkeypatch.setattr(gate, "running_servers", Mock(side_effect=error))
    with pytest.raises(type(error)):
        judge(says(Kind.PASS))
    verdicts = load_verdicts(Path(run.folder))
    assert ({found.kind for found in verdicts}, exit_code(verdicts)) == ({Kind.STOPPED}, 4)
    assert Path(run.folder, NAME).is_file()


def test_each_check_that_did_not_begin_is_counted(run: Run) -> None:
    patch = load_patch(Path(run.patch))
    whole = replace(run, premerge=("pointwise", "residual_stack"), devices=("h200", "cpu"))
    verdicts = leave_partial(whole, patch, "the run was ended by SIGINT")
    assert len(verdicts) == len(planned_cells(whole, patch)) > 40


def test_a_run_that_was_not_begun_says_so_whatever_an_earlier_one_found(
    judge: Judge, run: Run
) -> None:
    judge(says(Kind.PASS))
    put_aside(Path(run.folder))
    verdicts = leave_partial(run, load_patch(Path(run.patch)), "the run was ended by SIGTERM")
    assert ({found.kind for found in verdicts}, exit_code(verdicts)) == ({Kind.STOPPED}, 4)
    assert runs_in(Path(run.folder)) == [run]


@pytest.mark.parametrize(
    ("number", "ends"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EOPNOTSUPP, False)]
)
def test_a_run_for_whose_report_there_is_no_space_does_not_begin(
    judge: Judge, run: Run, number: int, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        os, "posix_fallocate", Mock(side_effect=OSError(number, os.strerror(number)))
    )
    with pytest.raises(OSError, match="a run needs 16 MiB below") if ends else nullcontext():
        judge(says(Kind.PASS))
    assert not Path(run.folder, ".reserved").exists()


def test_cells_of_every_check_are_planned(run: Run) -> None:
    names = {cell.check.name for cell in gate.planned_cells(run, load_patch(Path(run.patch)))}
    assert {"kernels", "parity"} <= names
