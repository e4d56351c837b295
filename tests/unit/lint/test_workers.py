"""Several processes find what one finds, in the same order; a process that dies loses nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from toytorch import TORCHES

from patchgate.lint import run
from patchgate.lint.find_patches import Place
from patchgate.lint.interpret.values import OwnFiles


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
