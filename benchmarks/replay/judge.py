"""A repair of a project, and what lint says before and after it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from patchgate.inputs.toml import load_toml_record
from patchgate.lint.ecosystem import history_of, write_tree
from patchgate.lint.findings import Finding, Severity, When
from patchgate.lint.index.release import load, releases
from patchgate.lint.run import Report, lint
from patchgate.model.records import record


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
    """Raises UsageError for what does not fit."""
    return load_toml_record(_Table, file).repair


def judged(repair: Repair, folder: Path) -> Judged:
    """Raises UsageError where the folder lacks the project, or the project a commit."""
    history = history_of(folder, repair.repository)
    with tempfile.TemporaryDirectory() as place:
        parent, after = (Path(place, name) for name in ("parent", "repair"))
        write_tree(history, repair.parent, parent)
        before = _says(_lint(parent / repair.file, repair.release), repair)
        unasked = _says(_lint(parent / repair.file), repair)
        write_tree(history, repair.repair, after)
        mended = _lint(after / repair.file, repair.release)
        return Judged(repair=repair, before=before, after=_says(mended, repair), unasked=unasked)


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
