"""Promoting to golden: what is planned, shown and written, and where it is refused."""

import os
from functools import partial

import pytest
from expecttest import assert_expected_inline

from patchgate.inputs import golden
from patchgate.model.errors import UsageError
from patchgate.model.records import Case, Cause, Failure, Observation
from patchgate.runs.accept import (
    HISTORY,
    Change,
    parse_reason,
    plan_changes,
    refuse_unattended,
    write_changes,
)

RELEASES = ["2.11.0", "2.12.1"]


def seen(torch="2.11.0", patch=None, workload="stack", cause=None, **facts):
    failure = Failure(cause=cause, stage="compile", signature="boom") if cause else None
    case = Case(torch=torch, device="h200", workload=workload, patch=patch)
    return Observation(case=case, facts=facts, failure=failure)


def accept(folder, *observations, reason="why"):
    changes = plan_changes(observations, RELEASES, folder)
    write_changes(changes, reason, folder)
    return [change.path.name for change in changes]


@pytest.mark.parametrize("name", ["CI", "PYTEST_XDIST_WORKER"])
@pytest.mark.parametrize("value", ["1", "true", "gw0"])
def test_it_is_refused_where_nobody_reads_the_diff(name, value):
    with pytest.raises(UsageError) as refused:
        refuse_unattended({name: value, "HOME": "/"})
    assert (refused.value.where, refused.value.got) == (f"${name}", f"{name}={value}")


@pytest.mark.parametrize(
    "environment", [{}, {"CI": ""}, {"CI": "false"}, {"CI": "0", "PYTEST_XDIST_WORKER": ""}]
)
def test_it_is_allowed_where_a_person_is(environment):
    assert refuse_unattended(environment) is None


def test_the_refusal_says_what_to_do_instead():
    with pytest.raises(UsageError) as refused:
        refuse_unattended({"CI": "true"})
    assert_expected_inline(
        str(refused.value),
        """\
$CI: accepting is a decision of a person, and this is a CI job
  got:  CI=true
  next: run it on your own machine, read the diff, commit the golden folder""",
    )


def test_observations_become_a_file_for_each_workload(folder):
    assert accept(folder, seen(loads=6), seen(workload="mlp", loads=1)) == [
        "mlp.h200.txt",
        "stack.h200.txt",
    ]
    assert_expected_inline(
        (folder / "stack.h200.txt").read_text(),
        """\
# stack on h200
schema 1

[unpatched]
loads  2.11.0  6
""",
    )


def test_what_golden_already_says_is_no_change(folder):
    accept(folder, seen(loads=6))
    assert plan_changes([seen(loads=6)], RELEASES, folder) == []


def test_planning_writes_nothing(folder):
    changes = plan_changes([seen(loads=6)], RELEASES, folder)
    assert (len(changes), list(folder.iterdir())) == (1, [])


def test_only_files_that_were_observed_are_touched(folder):
    accept(folder, seen(loads=6), seen(workload="mlp", loads=1))
    before = (folder / "mlp.h200.txt").read_text()
    assert accept(folder, seen(loads=7)) == ["stack.h200.txt"]
    assert (folder / "mlp.h200.txt").read_text() == before


def test_each_fact_that_changes_is_one_line_with_its_releases(folder):
    accept(folder, seen(loads=6, stores=1), seen("2.12.1", loads=6, stores=1))
    (change,) = plan_changes([seen("2.12.1", loads=2, stores=1)], RELEASES, folder)
    assert change.facts == ("unpatched  loads  2.12.1  6 -> 2",)
    both = [seen("2.12.1", loads=6, kinds=(1, 2)), seen("2.12.1", "mine", loads=4, kinds=(1, 2))]
    change, accepted = plan_changes(both, RELEASES, folder)
    assert (accepted.path.name, accepted.facts) == ("accepted.txt", ("mine  accepted  2.12.1  1",))
    assert change.facts == (
        "mine  loads  2.12.1  4",
        "unpatched  kinds  2.12.1  [1 2]",
        "unpatched  stores  2.12.1  1 -> nothing",
    )


@pytest.mark.parametrize(
    ("cause", "patch", "kept"),
    [
        (Cause.RAISED, None, True),
        (Cause.EXITED, None, True),
        (Cause.MACHINE, None, False),
        (Cause.HUNG, None, False),
        (Cause.OUT_OF_MEMORY, None, False),
        (Cause.CRASHED, None, False),
        (Cause.HUNG, "mine", True),
        (Cause.OUT_OF_MEMORY, "mine", True),
        (Cause.CRASHED, "mine", True),
        (Cause.MACHINE, "mine", False),
    ],
)
def test_what_the_machine_did_is_no_record(folder, cause, patch, kept):
    accept(folder, seen(loads=6))
    changes = plan_changes([seen(patch=patch, cause=cause)], RELEASES, folder)
    assert bool(changes) is kept
    facts = [change for change in changes if change.path.name != "accepted.txt"]
    assert all('failure  2.11.0  "boom"' in change.after for change in facts)


def test_a_patch_that_changes_no_fact_is_accepted_too(folder):
    accept(folder, seen(loads=6))
    assert accept(folder, seen(patch="mine", loads=6)) == ["accepted.txt"]
    known = golden.load_accepted(folder)
    assert golden.is_accepted(known, "mine", "2.11.0")
    assert not golden.is_accepted(known, "mine", "2.12.1")
    assert not golden.is_accepted(known, "another", "2.11.0")
    assert accept(folder, seen(patch="mine", loads=6)) == []


def test_of_a_narrow_run_only_the_judged_workloads_are_accepted(folder):
    both = seen(loads=6), seen(patch="mine", loads=4)
    write_changes(plan_changes(both, RELEASES, folder, {"mine"}), "why", folder)
    known = partial(golden.is_accepted, golden.load_accepted(folder), "mine", "2.11.0")
    assert known("stack", "h200")
    assert not known("stack", "cpu")
    assert not known("mlp", "h200")
    more = seen(workload="mlp", loads=1), seen(patch="mine", workload="mlp", loads=1)
    write_changes(plan_changes(more, RELEASES, folder, {"mine"}), "why", folder)
    known = partial(golden.is_accepted, golden.load_accepted(folder), "mine", "2.11.0")
    assert known("stack", "h200") and known("mlp", "h200")
    # A whole gate accepts all, and a narrow one afterwards takes nothing back.
    accept(folder, *both)
    assert plan_changes(more, RELEASES, folder, {"mine"}) == []
    assert golden.is_accepted(golden.load_accepted(folder), "mine", "2.11.0", "chain", "cpu")


def test_a_golden_file_that_cannot_be_read_stops_everything(folder):
    (folder / "stack.h200.txt").write_text("not golden\n")
    with pytest.raises(UsageError):
        accept(folder, seen(workload="mlp", loads=1), seen(loads=6))
    assert [path.name for path in folder.iterdir()] == ["stack.h200.txt"]


def test_a_file_that_cannot_be_written_keeps_its_old_text(folder, monkeypatch):
    accept(folder, seen(loads=6))
    (change,) = plan_changes([seen(loads=7)], RELEASES, folder)
    before, history = change.path.read_text(), (folder / HISTORY).read_text()

    def full(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        write_changes([Change(path=change.path, after="new", facts=())], "why", folder)
    assert (change.path.read_text(), (folder / HISTORY).read_text()) == (before, history)


def test_the_history_names_the_patches_and_the_files(folder):
    changes = plan_changes([seen(loads=6, patch="mine")], RELEASES, folder)
    write_changes(changes, "fewer loads", folder, ["mine"])
    entry = (folder / HISTORY).read_text().splitlines()[-1]
    assert entry.endswith(f" fewer loads (mine, {len(changes)} files)")


def test_every_reason_is_kept_in_the_history(folder):
    accept(folder, seen(loads=6), seen(workload="mlp", loads=1), reason="first")
    accept(folder, seen(loads=7), reason="second")
    first, second = (folder / HISTORY).read_text().splitlines()[2:]
    assert first.endswith(" first (2 files)")
    assert second.endswith(" second (stack.h200.txt)")


@pytest.mark.parametrize("text", [None, "", " \n "])
def test_a_reason_is_wanted(folder, text):
    with pytest.raises(UsageError) as refused:
        parse_reason(text)
    assert_expected_inline(
        str(refused.value),
        """\
--reason: no reason given: HISTORY.md records why golden changed
  got:  nothing
  next: patchgate accept --reason 'torch 2.13 fuses the last norm'""",
    )


def test_a_reason_is_put_on_one_line():
    assert parse_reason(" torch 2.13\n fuses   the norm ") == "torch 2.13 fuses the norm"


AS_SHIPPED = {"loads": 6, "bytes": 10, "aten.op.add": 2}


@pytest.fixture
def shipped(folder, monkeypatch):
    """Torch's own facts as they come with patchgate, for one workload; the project's folder is
    another.
    """
    monkeypatch.setattr(golden, "GOLDEN", folder / "shipped")
    accept(folder / "shipped", seen(**AS_SHIPPED), seen("2.12.1", loads=6, bytes=10))
    accept(folder / "shipped", seen(patch="mine", loads=3))
    return folder / "mine"


def read(folder, torch="2.11.0", patch=None):
    loaded = golden.load_golden("stack", "h200", folder)
    return golden.expectation(
        loaded, Case(torch=torch, device="h200", workload="stack", patch=patch)
    ).facts


def text_of(folder):
    return (folder / "stack.h200.txt").read_text().partition("schema 1\n")[2].strip()


def test_what_comes_with_patchgate_holds_and_is_not_repeated(shipped):
    assert read(shipped) == AS_SHIPPED
    assert (
        read(shipped, patch="mine")["loads"] == 6
    )  # a patch of ours that is called alike is another
    observed = seen(**AS_SHIPPED), seen(patch="mine", **(AS_SHIPPED | {"loads": 4}))
    assert accept(shipped, *observed) == ["stack.h200.txt", "accepted.txt"]
    assert text_of(shipped) == "[mine]\nloads  2.11.0  4"
    assert read(shipped, patch="mine")["loads"] == 4
    assert plan_changes([seen(**AS_SHIPPED)], RELEASES, shipped) == []


def test_facts_that_torch_has_left_are_the_project_s_own(shipped):
    assert accept(shipped, seen(loads=7, bytes=10)) == ["stack.h200.txt"]
    assert text_of(shipped) == "[unpatched]\naten.op.add  2.11.0  0\n\nloads  2.11.0  7"
    assert (
        read(shipped)["loads"],
        read(shipped)["aten.op.add"],
        read(shipped, "2.12.1")["loads"],
    ) == (7, 0, 6)


def test_a_release_that_patchgate_does_not_know_and_a_workload_of_the_project_are_recorded(shipped):
    accept(shipped, seen("2.13.0", loads=6), seen(workload="own", loads=1))
    assert text_of(shipped) == "[unpatched]\nloads  2.13.0  6"
    assert "loads  2.11.0  1" in (shipped / "own.h200.txt").read_text()


def test_where_all_equals_what_comes_with_patchgate_nothing_is_written(shipped):
    assert plan_changes([seen(**AS_SHIPPED)], RELEASES, shipped) == []
    assert not shipped.exists()
