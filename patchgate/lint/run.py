"""Patches and releases -> findings: each file is read once for each release, and every rule is asked.

A file that cannot be read is a finding of its own. Diffs are judged hunk by hunk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.specifiers import SpecifierSet

from patchgate.inputs.manifest import load_claims
from patchgate.inputs.patch import DIFFS, source_and_manifest
from patchgate.inputs.source import Unreadable, parse, read_lossy, read_source
from patchgate.lint.findings import Finding, Severity, View, merged
from patchgate.lint.index.release import Release
from patchgate.lint.index.sources import Sources
from patchgate.lint.interpret.references import Presence
from patchgate.lint.interpret.statements import interpret
from patchgate.lint.rules import RULES
from patchgate.lint.rules.misplaced_hunk import NOT_PLACED, lint_diff
from patchgate.lint.rules.not_python import not_python
from patchgate.lint.rules.unused_ignore import apply_ignores
from patchgate.model.paths import shown
from patchgate.model.versions import show_releases


@dataclass(frozen=True, kw_only=True)
class NamePresence:
    """One name of torch that a patch needs, and the ranges of releases in which it is there, may be, or is not."""

    name: str
    present: str
    maybe: str
    missing: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """What lint has to say: the files and releases that it read, findings in the order of the files, names."""

    files: tuple[str, ...]
    releases: tuple[str, ...]
    findings: tuple[Finding, ...]
    names: tuple[NamePresence, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 nothing red, 1 red, 3 nothing that could be judged."""
        if any(each.severity is Severity.RED for each in self.findings):
            return 1
        not_judged = {each.path for each in self.findings if each.code == NOT_PLACED.code}
        return 0 if set(self.files) - not_judged else 3


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
    for file in [file for path in paths for file in patch_files(path)]:
        name = shown(file)
        files.append(name)
        claimed = _claimed(file)
        if file.suffix in DIFFS:
            findings += lint_diff(read_source(file), name, known, sources or Sources(), claimed)
            continue
        try:
            in_file, views = lint_source(read_source(file), name, releases, claimed=claimed, matrix=matrix)
        except Unreadable as error:
            in_file, views = [not_python(error.line, error.reason, name, read_lossy(file))], []
        findings += in_file
        names += names_in(views)
    return Report(files=tuple(files), releases=known, findings=tuple(findings), names=tuple(names))


def patch_files(path: Path) -> list[Path]:
    """The patches at `path`: itself, a folder's patch.py or patch.diff, or all in it and its subfolders'."""
    if not path.is_dir():
        return [source_and_manifest(path)[0]]
    suffixes = (".py", *DIFFS)
    own = [path / f"patch{suffix}" for suffix in suffixes if (path / f"patch{suffix}").is_file()]
    below = [*path.glob("*"), *path.glob("*/patch.*")]
    return own or sorted(file for file in below if file.is_file() and file.suffix in suffixes)


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
            )
            for release in releases
            if "torch" in source or "triton" in source
        ]
        by_release = [finding for rule in RULES for finding in rule(views)]
    except Unreadable as error:
        return [not_python(error.line, error.reason, path, source)], []
    except (RecursionError, MemoryError):
        return [not_python(1, "nested too deeply", path, source)], []
    known = [release.version for release in releases]
    return apply_ignores(merged(by_release, path, known, source), source, path), views


def names_in(views: Sequence[View]) -> list[NamePresence]:
    """For each name that a patch refers to: where it is, where an owner may answer for it, where it is not."""
    by_name: dict[str, dict[str, Presence]] = {}
    for view in views:
        for reference in view.usage.references:
            by_name.setdefault(reference.dotted, {}).setdefault(view.version, reference.presence)
    known = [view.version for view in views]

    def ranges(by_version: dict[str, Presence], wanted: Presence) -> str:
        versions = [version for version, presence in by_version.items() if presence is wanted]
        return show_releases(versions, known) if versions else ""

    return [
        NamePresence(
            name=name,
            present=ranges(by_version, Presence.PRESENT),
            maybe=ranges(by_version, Presence.MAYBE),
            missing=ranges(by_version, Presence.MISSING),
        )
        for name, by_version in sorted(by_name.items())
    ]
