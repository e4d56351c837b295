"""Searches: the turn or the refusal; on from a release to a nightly build and a commit of torch, if
there are any.
"""

import subprocess
from pathlib import Path

import pytest
from expecttest import assert_expected_inline

from patchgate.model.errors import UsageError
from patchgate.model.results import Answer, Reading
from patchgate.report.bisect import changed_facts, render_turn
from patchgate.runner.torch_environments import NIGHTLY_INDEX, Environments
from patchgate.runs.bisect.bisection import Bisection, Search, recorded_readings
from patchgate.runs.bisect.question import parse_fact

GOOD, BAD, UNKNOWN = Answer

CASCADE = parse_fact("residual_stack.h200.loads.max > 4", ["residual_stack"], ["h200"])
PATCH = Path(__file__).parents[4] / "fixtures" / "patches" / "vllm-42686"


class Instrument:
    """Reads six loads until `cure` is asked, and two from there on."""

    workloads = ()

    def __init__(self, environments, order, cure):
        self.environments, self.cured, self.asked = environments, order[order.index(cure) :], []

    def read(self, question, torch, patch):
        self.asked.append(torch)
        loads = 2 if torch in self.cured else 6
        return Reading(
            answer=Answer.BAD if loads > 4 else Answer.GOOD,
            shown=f"loads.max = {loads}",
            facts={"loads.max": loads},
        )


@pytest.fixture
def bisection(tmp_path, monkeypatch):
    """Asks of 2.13.0 and 2.14.0 with three builds between, the cure being one of them."""
    nights = [f"2.14.0.dev2026010{day}" for day in (1, 2, 3)]

    def make(cure, builds=3, checkout=None, order=(), **rest):
        monkeypatch.setenv(NIGHTLY_INDEX, "somewhere")
        monkeypatch.setattr("patchgate.runs.bisect.bisection.recorded_readings", lambda *given: {})
        monkeypatch.setattr(
            "patchgate.runs.bisect.bisection.nightlies", lambda first, last: nights[:builds]
        )
        environments = Environments({"2.13.0": "python13", "2.14.0": "python14"}, checkout)
        instrument = Instrument(environments, list(order) or ["2.13.0", *nights, "2.14.0"], cure)
        options = {
            "question": CASCADE,
            "patch": None,
            "applied": None,
            "progress": lambda line: None,
        } | rest
        return Bisection(instrument=instrument, **options)

    return make


def rendered(bisection):
    return "\n".join(render_turn(bisection.over_releases("2.13.0..2.14.0")))


@pytest.fixture
def homes(tmp_path, monkeypatch):
    """Writes sources of torch/_inductor/ir.py, and makes each torch at home where its own are."""

    def write(texts):
        for torch, text in texts.items():
            path = tmp_path / "homes" / torch / "torch" / "_inductor" / "ir.py"
            path.parent.mkdir(parents=True)
            path.write_text(text)

    monkeypatch.setattr(Environments, "home", lambda self, torch: tmp_path / "homes" / torch)
    return write


def test_nightly_builds_between_the_releases_are_searched_and_neither_release_is_asked_again(
    bisection, homes
):
    search = bisection("2.14.0.dev20260103", about=("torch._inductor.ir.StorageBox.realize",))
    text = "class StorageBox:\n    def realize(self{}):\n        pass\n"
    homes({"2.14.0.dev20260102": text.format(""), "2.14.0.dev20260103": text.format(", hint")})
    assert_expected_inline(
        rendered(search),
        """\
first nightly build in which `residual_stack.h200.loads.max > 4` no longer holds: 2.14.0.dev20260103
  last before: 2.14.0.dev20260102  loads.max = 6
  first after: 2.14.0.dev20260103  loads.max = 2
  asked 4 of 5; 0 environments made
facts that changed:
  loads.max: 6 -> 2
torch's API around it:
  torch._inductor.ir
    ~ StorageBox.realize(self) -> realize(self, hint)
see both sides:
  patchgate ask --fact 'residual_stack.h200.loads.max > 4' --torch 2.14.0.dev20260102
  patchgate ask --fact 'residual_stack.h200.loads.max > 4' --torch 2.14.0.dev20260103""",
    )
    asked = search.instrument.asked
    assert sorted(asked) == sorted(set(asked))


def test_an_index_without_builds_between_leaves_the_release_and_is_reported(bisection):
    lines = rendered(bisection("2.14.0", builds=0)).splitlines()
    assert lines[0].endswith("no longer holds: 2.14.0")
    assert (
        lines[3]
        == f"  asked 2 of 2; 0 environments made; no nightly build between in ${NIGHTLY_INDEX}"
    )


def test_what_changed_is_reported_around_what_the_patch_replaces(bisection):
    lines = rendered(bisection("2.14.0", builds=0, patch=PATCH)).splitlines()
    assert "    ~ StorageBox.should_realize_on_reuse: body" in lines


@pytest.fixture
def checkout(tmp_path):
    """A repository of four commits, the third of which changes no source of torch, and their names
    over 2.13.0.
    """

    def git(*arguments):
        command = [
            "git",
            "-C",
            str(tmp_path),
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b.c",
            *arguments,
        ]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "torch").mkdir()
    for number, name in enumerate(("torch/a.py", "torch/a.py", "torch/a.cpp", "torch/a.py")):
        (tmp_path / name).write_text(f"x = {number}\n")
        git("add", "-A")
        git("commit", "-qm", f"step {number}")
    return tmp_path, [git("rev-parse", f"HEAD~{back}") for back in (3, 2, 0)]


def test_then_the_commits_of_torch_between_both_sides_are_searched(
    bisection, checkout, homes, monkeypatch
):
    path, commits = checkout
    built = {"2.13.0": commits[0], "2.14.0": commits[-1]}
    monkeypatch.setattr(
        "patchgate.runs.bisect.bisection.built_commit", lambda home: built[home.name]
    )
    named = [f"2.13.0+git{commit[:12]}" for commit in commits]
    search = bisection(named[1], builds=0, checkout=path, order=["2.13.0", *named, "2.14.0"])
    lines = rendered(search).splitlines()
    assert lines[0].endswith("no longer holds: 2.14.0")
    (first,) = (line for line in lines if line.startswith("first commit of torch"))
    assert first.endswith(" step 1")
    assert search.instrument.asked == ["2.13.0", "2.14.0", named[0], named[2], named[1]]
    assert lines[-1].endswith(f"--checkout {path} --row 2.13.0=python13 --torch {named[1]}")
    monkeypatch.setattr("patchgate.runs.bisect.bisection.built_commit", lambda home: "0" * 40)
    lines = rendered(search).splitlines()
    assert lines[-1].startswith("no commit of torch can be named; ")


def test_commits_of_torch_without_a_checkout_are_refused(bisection):
    with pytest.raises(UsageError, match="no checkout of torch"):
        bisection("2.14.0").over_upstream("a..b", "2.13.0")


def reading(answer):
    return Reading(
        answer=answer, shown=answer.value, facts={"loads.max": 6 if answer is BAD else 2}
    )


@pytest.mark.parametrize(
    ("answers", "holds"), [([BAD, BAD, GOOD, GOOD], False), ([GOOD, GOOD, BAD, BAD], True)]
)
def test_a_search_finds_the_turn_in_either_direction(answers, holds):
    told = []
    search = Search(lambda item: reading(answers[int(item)]), told.append)
    outcome = search.turn(["0", "1", "2", "3"], {})
    assert (outcome.last, outcome.first, outcome.holds, len(outcome.readings)) == (
        "1",
        "2",
        holds,
        len(told),
    )
    assert changed_facts(outcome) == (["loads.max: 2 -> 6"] if holds else ["loads.max: 6 -> 2"])


def test_what_is_known_is_not_asked_but_both_sides_of_the_turn_are():
    asked = []

    def read(item):
        asked.append(item)
        return reading(BAD if int(item) < 13 else GOOD)

    items = [str(n) for n in range(20)]
    known = {str(n): reading(BAD if n < 13 else GOOD) for n in (0, 12, 14, 19)}
    outcome = Search(read, lambda line: None).turn(items, known)
    assert (outcome.first, sorted(asked)) == ("13", ["12", "13", "14"])


def test_a_record_that_does_not_hold_here_is_said_and_narrows_nothing():
    known, told = (
        {"0": reading(BAD), "1": reading(BAD), "2": reading(GOOD), "3": reading(GOOD)},
        list[str](),
    )
    search = Search(lambda item: reading(BAD if item == "0" else GOOD), told.append)
    outcome = search.turn(["0", "1", "2", "3"], known)
    assert (outcome.last, outcome.first) == ("0", "1")
    assert [line for line in told if "golden does not agree, 1 is recorded with" in line]


@pytest.mark.parametrize("recorded", [[], ["0"], ["0", "1", "2"]])
@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (GOOD, "it holds at neither end, so nothing changes between"),
        (BAD, "it holds at both ends, so nothing changes between"),
        (UNKNOWN, "one end of the range gives no answer"),
    ],
)
def test_a_search_without_two_ends_is_refused(answer, what, recorded):
    known = {item: reading(answer) for item in recorded if answer is not UNKNOWN}
    with pytest.raises(UsageError, match=what):
        Search(lambda item: reading(answer), lambda line: None).turn(["0", "1", "2"], known)


def test_two_of_five_that_do_it_together_are_found():
    def read(subset):
        return reading(GOOD if {"b", "d"} <= set(subset) else BAD)

    told = []
    assert Search(reading, told.append).culprits(list("abcde"), read).items == ("b", "d")
    assert told[0] == "  none of them  holds  bad"


def test_parts_that_change_nothing_are_refused():
    with pytest.raises(UsageError, match="nothing to search"):
        Search(reading, lambda line: None).culprits(["a"], lambda subset: reading(GOOD))


def test_golden_answers_for_the_releases_that_it_was_recorded_for():
    known = recorded_readings(CASCADE, None, ["2.13.0", "2.14.1", "9.9.0"])
    assert {torch: found.answer for torch, found in known.items()} == {
        "2.13.0": BAD,
        "2.14.1": GOOD,
    }
    assert recorded_readings(CASCADE, "no-such-patch", ["2.13.0"]) == {}


def test_both_ends_alike_are_shown():
    with pytest.raises(UsageError) as refused:
        Search(lambda item: reading(GOOD), lambda line: None).turn(["2.10.0", "2.11.0"], {})
    assert_expected_inline(
        str(refused.value),
        """\
bisect: it holds at neither end, so nothing changes between them
  got:  2.10.0: good, 2.11.0: good
  next: widen the range, or ask another question""",
    )
