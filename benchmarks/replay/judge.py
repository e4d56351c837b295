"""A repair of a project, and what lint says before and after it."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from patchgate.inputs.toml import read_toml
from patchgate.lint.findings import Finding, Severity, When
from patchgate.lint.index.release import load, releases
from patchgate.lint.run import Report, lint
from patchgate.model.errors import UsageError
from patchgate.model.records import record
from patchgate.model.serialization import structure

# What lint reads of a project: its code, and what states a range of torch.
_READ = ("*.py", "*.toml", "*.cfg", "*.txt", "*.in", "*.yml", "*.yaml", "*README*")


@record
class Repair:
    """A commit that mends `file`, which used `name` in a way that `release` of torch breaks."""

    repository: str
    parent: str
    repair: str
    file: str
    name: str
    release: str
    kind: str


@record
class Judged:
    """`before`: lint is red at the parent, on that name and release; `after`: at the repair too;
    `unasked`: it says so at the parent by the project's own range, in red or as what breaks next.
    """

    repair: Repair
    before: bool
    after: bool
    unasked: bool


@record
class _Table:
    repair: tuple[Repair, ...]


def read_repairs(file: Path) -> tuple[Repair, ...]:
    return structure(read_toml(file), _Table).repair


def judged(repair: Repair, folder: Path) -> Judged:
    """Raises UsageError where the folder lacks the project, or the project a commit."""
    history = _history(folder, repair.repository)
    with tempfile.TemporaryDirectory() as place:
        parent, after = (Path(place, name) for name in ("parent", "repair"))
        _tree(history, repair.parent, parent)
        before = _says(_lint(parent / repair.file, repair.release), repair)
        unasked = _says(_lint(parent / repair.file), repair)
        _tree(history, repair.repair, after)
        mended = _lint(after / repair.file, repair.release)
        return Judged(repair=repair, before=before, after=_says(mended, repair), unasked=unasked)


def _history(folder: Path, repository: str) -> Path:
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
        next=f"git clone --bare a copy of it to {places[0]}",
    )


def _tree(history: Path, commit: str, into: Path) -> None:
    git = ["git", f"--git-dir={history}", "archive", commit, "--", *_READ]
    ended = subprocess.run(git, capture_output=True, check=False)
    if ended.returncode:
        trouble = ended.stderr.decode(errors="replace").strip()
        raise UsageError("no such commit", where=str(history), got=trouble, next="git fetch there")
    with tarfile.open(fileobj=io.BytesIO(ended.stdout)) as archive:
        archive.extractall(into, filter="data")


def _lint(file: Path, release: str = "") -> Sequence[Finding]:
    """On one release, or on those that the project's own range says."""
    if not file.is_file():
        return ()
    known = [load(each) for each in ([release] if release else releases())]
    report: Report = lint([file], known, whole=bool(release))
    return report.findings


def _says(findings: Sequence[Finding], repair: Repair) -> bool:
    word = re.compile(rf"\b{re.escape(repair.name.rpartition('.')[2])}\b")
    return any(
        repair.release in each.releases and word.search(f"{each.name} {each.message} {each.line}")
        for each in findings
        if each.severity is Severity.RED or each.when is When.NEXT
    )
