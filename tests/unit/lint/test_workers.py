"""Several processes find what one finds, in the same order; a process that dies loses nothing."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from toytorch import TORCHES

from patchgate.lint import run
from patchgate.lint.find_patches import Place
from patchgate.lint.interpret.values import OwnFiles
from patchgate.report.lint import LintProgress


@pytest.fixture(autouse=True)
def _small_files_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_WORTH", 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for at in range(7):
        lines = ("import torch._inductor.old\n", f"x = {at}\n" * at, "import torch._inductor.new\n")
        (tmp_path / f"p{at}.py").write_text("".join(lines))
    return tmp_path


def test_the_findings_are_the_same_in_the_same_order(folder: Path) -> None:
    alone = run.lint([folder], TORCHES)
    assert len(alone.findings) == 14
    assert run.lint([folder], TORCHES, jobs=3) == alone


def test_what_a_dead_process_was_to_judge_is_judged_here(folder: Path) -> None:
    here = os.getpid()

    def judge(place: Place) -> tuple[str, bool]:
        if os.getpid() != here and place.file.name == "p1.py":
            os._exit(9)
        return place.file.name, os.getpid() == here

    places = [Place(file=file, releases=(), own=OwnFiles()) for file in sorted(folder.iterdir())]
    answers = run.shared_out(judge, places, 3)
    assert [name for name, _ in answers] == [f"p{at}.py" for at in range(7)]
    assert {is_here for _, is_here in answers} == {True, False}


@pytest.mark.parametrize("jobs", [1, 3])
def test_all_processes_say_how_far_they_are(folder: Path, jobs: int) -> None:
    seen = []

    @contextmanager
    def watched(how_far: Callable[[], run.HowFar]) -> Iterator[None]:
        yield
        seen.append(how_far())

    run.lint([folder], TORCHES, jobs=jobs, watched=watched)
    assert seen == [(7, 7, 1.0)]


@pytest.mark.parametrize(("is_terminal", "shown"), [(False, "1 of 4 files, about "), (True, "\r")])
def test_a_long_lint_shows_how_far_it_is(is_terminal: bool, shown: str) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal  # type: ignore[method-assign]
    with LintProgress(stream, lambda: run.HowFar(1, 4, 0.5), every=0.01):
        time.sleep(0.2)
    text = stream.getvalue()
    assert shown in text
    assert text.endswith("\r\x1b[K" if is_terminal else " left\n")


def test_a_short_lint_shows_nothing() -> None:
    stream = io.StringIO()
    with LintProgress(stream, lambda: run.HowFar(1, 4, 0.5)):
        pass
    assert stream.getvalue() == ""
