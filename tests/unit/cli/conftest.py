"""Fixtures for tests of commands: a command as it is typed, and the results of a run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from patchgate.cli import main as cli
from patchgate.inputs.project import Project
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Verdict
from patchgate.runner.run_settings import Run, save_run, save_verdicts


@pytest.fixture
def command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Types a command: its exit code, what it printed, and what it said was wrong."""
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    (folder / "mine.py").write_text("ready = True\n")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["patchgate", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        code = ended.value.code
        assert isinstance(code, int)
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def results(folder: Path) -> Callable[..., None]:
    """Leaves the results of a run that found the given kinds."""

    def leave(*kinds: Kind) -> None:
        project = Project(root=str(folder), releases=("2.11.0",))
        patch = str(folder / "mine.py")
        save_run(
            Run(folder=str(folder / "out"), patch=patch, rows={"2.11.0": "python"}, project=project)
        )
        case = Case(torch="2.11.0", device="h200", workload="stack", patch="mine")
        verdicts = [
            Verdict(
                code="PG301", kind=kind, check="kernels", case=case, item=case.name, fact=kind.value
            )
            for kind in kinds
        ]
        save_verdicts(folder / "out", verdicts)

    return leave
