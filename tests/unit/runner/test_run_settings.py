"""Write and read a run: the options that the command gives to the judge and to the report."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest
from expecttest import assert_expected_inline

from patchgate.inputs.matrix import load_matrix
from patchgate.model.errors import UsageError
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Command, Verdict
from patchgate.report.next_commands import THROUGH, typed
from patchgate.runner.run_settings import (
    NAME,
    VERDICTS,
    Limits,
    Run,
    load_run,
    load_verdicts,
    save_run,
    save_verdicts,
)


def verdict(
    item: str = "stack.h200", torch: str = "2.11.0", check: str = "kernels", code: str = "PG300"
) -> Verdict:
    case = Case(torch=torch, device="h200", workload="stack", patch="mine")
    values = {"before": "6", "after": "4", "recorded": "4"}
    return Verdict(
        code=code, kind=Kind.PASS, check=check, case=case, item=item, fact="loads", **values
    )


def test_a_run_is_loaded_as_it_was_saved(tmp_path):
    run = Run(
        folder=str(tmp_path),
        patch="patch.py",
        rows={"2.11.0": "python"},
        problems={"2.12.1": "no wheel"},
        devices=("cpu",),
        workloads=("stack",),
        limits=Limits(seconds=1.5, bytes=1),
    )
    assert load_run(save_run(run)) == run


def test_a_run_that_was_moved_belongs_to_the_folder_that_it_is_in(tmp_path):
    save_run(Run(folder=str(tmp_path / "old"), patch="p", rows={}))
    (tmp_path / "old").rename(tmp_path / "new")
    assert load_run(tmp_path / "new" / NAME).folder == str(tmp_path / "new")


def test_the_torches_of_a_run_are_those_with_a_row_and_those_with_a_problem(tmp_path):
    run = Run(
        folder=str(tmp_path), patch="p", rows={"2.12.1": "python"}, problems={"2.11.0": "no wheel"}
    )
    assert run.torches == ("2.12.1", "2.11.0")


def test_verdicts_are_loaded_as_they_were_saved_in_an_order_of_their_own(tmp_path):
    saved = [
        verdict("b"),
        verdict("a", torch="2.12.1"),
        verdict("a"),
        verdict(check="gate", code="PG211"),
    ]
    save_verdicts(tmp_path, saved)
    text = (tmp_path / VERDICTS).read_text()
    save_verdicts(tmp_path, saved[::-1])
    assert (tmp_path / VERDICTS).read_text() == text
    assert load_verdicts(tmp_path) == [saved[3], saved[2], saved[1], saved[0]]


def test_no_verdicts_are_no_error(tmp_path):
    save_verdicts(tmp_path, [])
    assert load_verdicts(tmp_path) == []


def test_a_missing_run_is_refused_with_the_command_that_makes_one(folder):
    with pytest.raises(UsageError) as refused:
        load_run(folder.relative_to(folder) / NAME)
    assert_expected_inline(
        str(refused.value),
        """\
run.json: no run to read
  got:  No such file or directory
  next: patchgate gate PATCH""",
    )


@pytest.mark.parametrize("text", ["", "{", "[]", '{"folder": 1}'])
def test_a_broken_run_is_refused(tmp_path, text):
    (tmp_path / NAME).write_text(text)
    with pytest.raises(UsageError):
        load_run(tmp_path / NAME)


@pytest.mark.parametrize("data", [None, [], {}, {"verdicts": [{"code": "PG300"}]}, {"verdicts": 3}])
def test_broken_verdicts_are_refused(tmp_path, data):
    if data is not None:
        (tmp_path / VERDICTS).write_text(json.dumps(data))
    with pytest.raises(UsageError):
        load_verdicts(tmp_path)


def test_the_command_that_repeats_a_run_works_where_it_is_shown(folder, monkeypatch):
    (folder / "my patches").mkdir()
    run = Run(
        folder=str(folder / "some where"),
        patch=str(folder / "my patches" / "<i>p.py"),
        rows={"2.12.1": "/my envs/python"},
        problems={"2.99.0": "no wheel"},
        devices=("h200",),
        workloads=("residual_stack",),
        others=(str(folder / "b.py"),),
        requires=("a>1",),
        nightly=True,
    )
    rest = "--device h200 --workload residual_stack --with b.py --requires 'a>1' --nightly"
    rest += " --folder 'some where'"
    rows = "--row 2.12.1='/my envs/python' --problem 2.99.0='no wheel'"
    assert typed(run.again) == f"patchgate gate 'my patches/<i>p.py' {rows} {rest}"
    monkeypatch.setenv(THROUGH, "nox")
    run = replace(run, by_release=True)
    assert (
        typed(run.again)
        == f"nox -s gate -- 'my patches/<i>p.py' --torch 2.12.1 --torch 2.99.0 {rest}"
    )
    premerge = {row.torch: "python" for row in load_matrix() if "premerge" in row.tags}
    plain = Run(folder=".patchgate/gate", patch="p.py", rows=premerge, by_release=True)
    assert typed(plain.again) == "nox -s gate -- p.py"


@pytest.mark.parametrize(
    ("through", "where", "told"),
    [
        ("", "out", "patchgate accept --folder out --reason 'x'"),
        ("nox", "out", "nox -s accept -- --folder out --reason 'x'"),
        ("nox", ".patchgate/gate", "nox -s accept -- --reason 'x'"),
    ],
)
def test_what_is_accepted_is_what_this_run_observed(folder, monkeypatch, through, where, told):
    monkeypatch.setenv(THROUGH, through)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))  # no `patchgate` next to it
    accept = Command(name="accept", arguments=("--reason", "'x'"))
    explain = Command(name="explain", arguments=("PG301",))
    case = Case(torch="2.11.0")
    verdict = Verdict(
        code="PG301",
        kind=Kind.NEW,
        check="kernels",
        case=case,
        item="a",
        advice="record it",
        commands=(accept, explain),
    )
    for _ in range(2):  # a sweep saves what a gate has saved
        save_verdicts(folder / where, [verdict])
        (verdict,) = load_verdicts(folder / where)
    assert (verdict.advice, [typed(command) for command in verdict.commands]) == (
        "record it",
        [told, "patchgate explain PG301"],
    )


@pytest.mark.parametrize("where", ["out", ".patchgate/gate"])
def test_the_command_that_accepts_a_run_names_its_folder_once(folder, where):
    run = Run(folder=str(folder / where), patch="p.py", rows={})
    save_verdicts(folder / where, [replace(verdict(), commands=(run.accept,))])
    (saved,) = load_verdicts(folder / where)
    assert saved.commands == (run.accept,)
    assert (
        typed(run.accept) == f"patchgate accept {'--folder out ' * (where == 'out')}--reason '...'"
    )
