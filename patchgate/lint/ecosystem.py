"""Lint many projects, each at a named commit."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from patchgate.inputs.toml import load_toml_record
from patchgate.lint.index.release import load, releases
from patchgate.lint.run import Report, lint
from patchgate.model.errors import UsageError
from patchgate.model.git import GitFailed, write_files
from patchgate.model.records import record

# Lint reads these files of a project: its code, and what states a range of torch.
_READ = re.compile(r"\.(py|toml|cfg|txt|in|ya?ml)$|(^|/)(README[^/]*|\.gitmodules)$")


@record
class Project:
    """A project at a commit. If `below` names a folder, only this folder is judged."""

    repository: str
    commit: str
    below: str = ""


@record
class _List:
    project: tuple[Project, ...]


def judge_projects(file: Path, folder: Path, jobs: int) -> Iterator[tuple[Project, Report, str]]:
    """Yield each project of the list, its report, and the folder with which the paths in its
    findings begin.

    Raises UsageError if the folder lacks a project, or a project lacks its commit.
    """
    known = [load(each) for each in releases()]
    for project in load_toml_record(_List, file).project:
        history = history_of(folder, project.repository)
        with tempfile.TemporaryDirectory() as place:
            tree = Path(place, project.repository.rpartition("/")[2])
            write_tree(history, project.commit, tree)
            yield project, lint([tree / project.below], known, jobs=jobs), f"{tree}/"


def history_of(folder: Path, repository: str) -> Path:
    """Return the git directory of a project in a folder of projects. Raises UsageError if there is
    none.
    """
    owner, _, name = repository.partition("/")
    places = (folder / repository, folder / f"{owner}+{name}", folder / name)
    for place in places:
        for git in (place / ".git", place / "repo", place):
            if (git / "HEAD").is_file():
                return git
    raise UsageError(
        "no history of a project",
        where=str(folder),
        got=repository,
        next=f"clone it to {places[0]}",
    )


def write_tree(history: Path, commit: str, into: Path) -> None:
    """Write the files of a commit that lint reads; files that a partial copy lacks are left out.

    Raises UsageError if there is no such commit.
    """
    (into / ".git").mkdir(parents=True)  # the top of a project, as in a checkout
    try:
        write_files(
            history, commit, into, lambda name: bool(_READ.search(name)), is_git_folder=True
        )
    except (GitFailed, FileNotFoundError) as error:
        raise UsageError(
            "no such commit", where=str(history), got=str(error), next="git fetch there"
        ) from None
