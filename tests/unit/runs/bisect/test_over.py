"""A search goes on from a release to a nightly build and to a commit of torch, where there are any."""

import subprocess
from pathlib import Path

import pytest
from expecttest import assert_expected_inline

from patchgate.model.errors import UsageError
from patchgate.runner.environments import NIGHTLY_INDEX, Environments
from patchgate.runs.bisect import over as bisect_over
from patchgate.runs.bisect.over import Asking, over_releases, over_upstream
from patchgate.runs.bisect.question import Reading, parse_fact
from patchgate.runs.bisect.search import Answer

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
            answer=Answer.BAD if loads > 4 else Answer.GOOD, shown=f"loads.max = {loads}", facts={"loads.max": loads}
        )


@pytest.fixture
def asking(tmp_path, monkeypatch):
    """Asks of 2.13.0 and 2.14.0 with three builds between, the cure being one of them."""
    nights = [f"2.14.0.dev2026010{day}" for day in (1, 2, 3)]

    def make(cure, builds=3, checkout=None, order=()):
        monkeypatch.setenv(NIGHTLY_INDEX, "somewhere")
        monkeypatch.setattr(bisect_over, "nightlies", lambda first, last: nights[:builds])
        environments = Environments({"2.13.0": "python13", "2.14.0": "python14"}, checkout)
        instrument = Instrument(environments, list(order) or ["2.13.0", *nights, "2.14.0"], cure)
        return Asking(question=CASCADE, patch=None, side=None, instrument=instrument)

    return make


def told(asking, about=()):
    return "\n".join(over_releases(asking, "2.13.0..2.14.0", (1, 1), about, measure_all=True))


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


def test_nightly_builds_between_the_releases_are_searched_and_neither_release_is_asked_again(asking, homes):
    asked = asking("2.14.0.dev20260103")
    text = "class StorageBox:\n    def realize(self{}):\n        pass\n"
    homes({"2.14.0.dev20260102": text.format(""), "2.14.0.dev20260103": text.format(", hint")})
    assert_expected_inline(
        told(asked, ["torch._inductor.ir.StorageBox.realize"]),
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
    assert sorted(asked.instrument.asked) == sorted(set(asked.instrument.asked))


def test_an_index_without_builds_between_leaves_the_release_and_is_told(asking):
    lines = told(asking("2.14.0", builds=0)).splitlines()
    assert lines[0].endswith("no longer holds: 2.14.0")
    assert lines[3] == f"  asked 2 of 2; 0 environments made; no nightly build between in ${NIGHTLY_INDEX}"


def test_what_changed_is_told_around_what_the_patch_replaces(asking):
    asked = asking("2.14.0", builds=0)
    lines = told(Asking(question=CASCADE, patch=PATCH, side=None, instrument=asked.instrument)).splitlines()
    assert "    ~ StorageBox.should_realize_on_reuse: body" in lines


@pytest.fixture
def checkout(tmp_path):
    """A repository of four commits, the third of which changes no source of torch, and their names over 2.13.0."""

    def git(*arguments):
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "torch").mkdir()
    for number, name in enumerate(("torch/a.py", "torch/a.py", "torch/a.cpp", "torch/a.py")):
        (tmp_path / name).write_text(f"x = {number}\n")
        git("add", "-A")
        git("commit", "-qm", f"step {number}")
    return tmp_path, [git("rev-parse", f"HEAD~{back}") for back in (3, 2, 0)]


def test_then_the_commits_of_torch_between_both_sides_are_searched(asking, checkout, homes, monkeypatch):
    path, commits = checkout
    built = {"2.13.0": commits[0], "2.14.0": commits[-1]}
    monkeypatch.setattr(bisect_over, "commit_of", lambda home: built[home.name])
    named = [f"2.13.0+git{commit[:12]}" for commit in commits]
    asked = asking(named[1], builds=0, checkout=path, order=["2.13.0", *named, "2.14.0"])
    lines = told(asked).splitlines()
    assert lines[0].endswith("no longer holds: 2.14.0")
    (first,) = (line for line in lines if line.startswith("first commit of torch"))
    assert first.endswith(" step 1")
    assert asked.instrument.asked == ["2.13.0", "2.14.0", named[0], named[2], named[1]]
    assert lines[-1].endswith(f"--checkout {path} --row 2.13.0=python13 --torch {named[1]}")
    monkeypatch.setattr(bisect_over, "commit_of", lambda home: "0" * 40)
    lines = told(asked).splitlines()
    assert lines[-1].startswith("no commit of torch can be named; ")


def test_commits_of_torch_without_a_checkout_are_refused(asking):
    with pytest.raises(UsageError, match="no checkout of torch"):
        over_upstream(asking("2.14.0"), "a..b", (1, 1), (), "2.13.0")
