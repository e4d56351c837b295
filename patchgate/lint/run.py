"""Paths and releases -> findings: reads each patch once per release and asks every rule.

Decides what is linted and what a file that cannot be read says. Refuses to know how findings are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet

from patchgate.inputs.manifest import load_claims
from patchgate.inputs.source import Unreadable, parse, read_anyhow, read_source
from patchgate.lint.findings import Finding, Severity, View, lines_of, merged, show_releases
from patchgate.lint.hunks import UNPLACED, lint_diff
from patchgate.lint.ignores import apply_ignores
from patchgate.lint.index.release import Release
from patchgate.lint.index.sources import Sources
from patchgate.lint.interpret.references import Presence, Span
from patchgate.lint.interpret.statements import interpret
from patchgate.lint.rules import RULES
from patchgate.model.errors import UsageError
from patchgate.model.paths import shown

_DIFFS = (".diff", ".patch")


@dataclass(frozen=True, kw_only=True)
class NameTold:
    """One name of torch that a patch needs, and the releases in which it is there, may be, or is not."""

    name: str
    present: str
    maybe: str
    missing: str


@dataclass(frozen=True, kw_only=True)
class Report:
    files: tuple[str, ...]
    releases: tuple[str, ...]
    findings: tuple[Finding, ...]
    names: tuple[NameTold, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 nothing red, 1 red, 3 nothing that could be judged."""
        if any(each.severity is Severity.RED for each in self.findings):
            return 1
        untold = {each.path for each in self.findings if each.code == UNPLACED}
        return 0 if set(self.files) - untold else 3


def lint(
    paths: Iterable[Path],
    releases: Sequence[Release],
    sources: Sources | None = None,
    matrix: Collection[str] = (),
) -> Report:
    """Findings for every patch at `paths`; `matrix` has the releases that it runs on.

    Raises UsageError for a path that is not there.
    """
    known = tuple(release.version for release in releases)
    files, findings, names = [], [], []
    for file in [file for path in paths for file in files_of(path)]:
        name = shown(file)
        files.append(name)
        claimed = _claimed(file)
        if file.suffix in _DIFFS:
            findings += lint_diff(read_source(file), name, known, sources or Sources(), claimed)
            continue
        try:
            found, views = lint_source(read_source(file), name, releases, claimed=claimed, matrix=matrix)
        except Unreadable as error:
            found, views = [_unreadable(error.line, error.reason, name, read_anyhow(file))], []
        findings += found
        names += names_told(views)
    return Report(files=tuple(files), releases=known, findings=tuple(findings), names=tuple(names))


def files_of(path: Path) -> Iterator[Path]:
    """The patch files at `path`: itself, a folder's patch.py or patch.diff, or all in it and its subfolders'."""
    if path.exists() and not path.is_dir():
        if not path.is_file() or path.suffix not in (".py", *_DIFFS):
            raise UsageError(
                "not a patch",
                where=shown(path),
                got=f"a {path.suffix or 'nameless'} file" if path.is_file() else "neither a file nor a folder",
                next="give a folder with patch.py or patch.diff, a .py file, or a .diff file",
            )
        yield path
    elif path.is_dir():
        own = [path / f"patch{suffix}" for suffix in (".py", *_DIFFS) if (path / f"patch{suffix}").is_file()]
        below = [*path.glob("*"), *path.glob("*/patch.*")]
        yield from own or sorted(file for file in below if file.is_file() and file.suffix in (".py", *_DIFFS))
    else:
        raise UsageError(
            "no such patch",
            where=shown(path),
            got="nothing at that path",
            next="patchgate lint fixtures/patches/vllm-42686   (or the path of your own patch.py)",
        )


def _claimed(file: Path) -> SpecifierSet | None:
    manifest = file.with_suffix(".toml")
    claims = load_claims(manifest) if manifest.is_file() else None
    return SpecifierSet(claims.applies_to) if claims is not None and claims.applies_to else None


def lint_source(
    source: str,
    path: str,
    releases: Sequence[Release],
    claimed: SpecifierSet | None = None,
    matrix: Collection[str] = (),
) -> tuple[list[Finding], list[View]]:
    """The findings of one Python file, ignores applied, and what it does in each release."""
    try:
        tree = parse(source)
        views = [
            View(
                release=release,
                usage=interpret(tree, release),
                claimed=claimed is None or claimed.contains(release.version, prereleases=True),
                in_matrix=release.version in matrix,
                source=source,
            )
            for release in releases
            if "torch" in source or "triton" in source
        ]
        remarks = [remark for rule in RULES for remark in rule(views)]
    except Unreadable as error:
        return [_unreadable(error.line, error.reason, path, source)], []
    except (RecursionError, MemoryError):
        return [_unreadable(1, "nested too deeply", path, source)], []
    known = [release.version for release in releases]
    return apply_ignores(merged(remarks, path, known, source), source, path), views


def _unreadable(line: int, reason: str, path: str, source: str) -> Finding:
    lines = lines_of(source)
    return Finding(
        code="PG140",
        severity=Severity.RED,
        path=path,
        span=Span(line=line, column=1),
        releases=(),
        shown_releases="",
        message=f"not readable as Python: {reason}",
        line=lines[line - 1] if line <= len(lines) else "",
    )


def names_told(views: Sequence[View]) -> list[NameTold]:
    """For each name that a patch touches: where it is, where an owner may answer it, where it is not."""
    told: dict[str, dict[str, Presence]] = {}
    for view in views:
        for reference in view.usage.references:
            told.setdefault(reference.dotted, {}).setdefault(view.version, reference.presence)
    known = [view.version for view in views]

    def ranges(answers: dict[str, Presence], wanted: Presence) -> str:
        found = [version for version, presence in answers.items() if presence is wanted]
        return show_releases(found, known) if found else ""

    return [
        NameTold(
            name=name,
            present=ranges(answers, Presence.PRESENT),
            maybe=ranges(answers, Presence.MAYBE),
            missing=ranges(answers, Presence.MISSING),
        )
        for name, answers in sorted(told.items())
    ]
