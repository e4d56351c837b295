"""`patchgate models`: what is refused before anything is compiled, and what is left of a
comparison.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchgate.cli import models
from patchgate.cli.main import cli
from patchgate.inputs.project import Project
from patchgate.model.errors import UsageError
from patchgate.model.paths import MODELS, ROOT
from patchgate.model.public_model_figures import Impact, Part, impact_of
from patchgate.model.records import Case, Cause, Failure, Observation
from patchgate.runs.plan import rows_of, with_models

PATCH = str(ROOT / "fixtures" / "patches" / "vllm-42686")


def run(*arguments: str) -> None:
    cli.main(["models", *arguments], standalone_mode=False)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((), "nothing to compare"),
        (("--from", "2.11.0"), "nothing to compare"),
        ((PATCH, "--model", "llama-3-8"), "did you mean `llama-3-8b`?"),
        ((PATCH, "--device", "cuda"), "not a simulated device"),
        (("nowhere.py",), "nowhere.py"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    arguments: tuple[str, ...], what: str, folder: Path
) -> None:
    with pytest.raises(UsageError) as error:
        run(*arguments)
    assert what in str(error.value)


def test_an_interpreter_that_lacks_what_a_model_wants_is_refused(folder: Path) -> None:
    (folder / "python").write_text(
        """#!/bin/sh
case "$2" in *metadata.version*sys.argv*) echo '["4.57.0"]';; *) echo '{"torch": "2.11.0", "home": "here"}';; esac
"""
    )
    (folder / "python").chmod(0o755)
    project, _ = with_models(Project(), ["llama-3-8b"])
    assert rows_of(["2.11.0=./python"], Project())
    with pytest.raises(UsageError) as error:
        rows_of(["2.11.0=./python"], project)
    assert "with transformers 4.57.0; a model needs transformers>=5.17,<5.18" in str(error.value)
    assert "--torch 2.11.0" in str(error.value)


def test_a_model_stands_for_its_workloads_and_what_they_want() -> None:
    project, names = with_models(Project(requires=("einops",)), ["pointwise", "gemma-3-27b"])
    assert project.models == ("gemma-3-27b",)
    assert project.requires == ("einops", "transformers>=5.17,<5.18")
    assert names == ("pointwise", "gemma-3-27b-local", "gemma-3-27b-global")
    assert with_models(Project(), ["gemma-3-27b-local"])[1] == ("gemma-3-27b-local",)


def test_a_model_is_given_by_its_file_in_the_projects_own_folder(folder: Path) -> None:
    shutil.copy(MODELS / "gemma-3-27b.toml", folder / "own.toml")
    project, names = with_models(Project(root=str(folder)), ["own.toml"])
    assert (project.models, names) == (("own.toml",), ("own-local", "own-global"))


def test_a_model_of_the_table_that_there_is_not_is_refused_with_its_line(folder: Path) -> None:
    table = folder / "patchgate.toml"
    table.write_text('releases = ["2.11.0"]\nmodels = ["llama-3-8"]\n')
    with pytest.raises(UsageError) as error:
        with_models(Project(root=str(folder), table=str(table), models=("llama-3-8",)), [])
    assert "patchgate.toml:2" in str(error.value)


@pytest.fixture
def impact(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Stands in for the compiles: one model, of which these sides fail."""

    def stand_in(fails: str) -> None:
        def compared(run: Any, workers: int, done: Any) -> dict[str, Impact]:
            case = Case(torch="2.11.0", device="h200", workload="llama-3-8b")
            boom = Failure(cause=Cause.RAISED, stage="compile", signature="boom")
            failures = (boom if "unpatched" in fails else None, boom if fails else None)
            before, after = (
                Observation(case=case, facts={"bytes.total": 8}, failure=each) for each in failures
            )
            parts = {"llama-3-8b": [Part(count=32, before=before, after=after)]}
            return {"mine on torch 2.11.0": impact_of(parts, before="unpatched", after="patched")}

        monkeypatch.setattr(models, "impact_on_models", compared)
        monkeypatch.setattr(
            "patchgate.runs.plan.environments_of",
            lambda torches, project, say: ({"2.11.0": "python"}, {}),
        )

    return stand_in


@pytest.mark.parametrize(("fails", "code"), [("", 0), ("patched alone", 1), ("unpatched too", 4)])
def test_pages_are_left_and_the_exit_code_says_what_fails(
    impact: Callable[[str], None],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    fails: str,
    code: int,
) -> None:
    impact(fails)
    with pytest.raises(SystemExit) as ended:
        run(PATCH, "--torch", "2.11.0", "--model", "llama-3-8b")
    assert ended.value.code == code
    assert "llama-3-8b" in capsys.readouterr().out
    assert {path.suffix for path in (folder / ".patchgate" / "models").iterdir()} == {
        ".md",
        ".html",
    }
