"""The items of a search: releases of torch, commits of a repository, hunks of a diff, targets of a
patch.

Functions here list the items, and write an item or a subset to disk as a patch that every command
can judge.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.version import Version

from patchgate.inputs.diff import parse_hunks
from patchgate.inputs.manifest import Patch
from patchgate.inputs.patch_source import read_source
from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.git import GitFailed, run_git, write_files
from patchgate.model.paths import PACKAGE, display_path
from patchgate.runner.cache_keys import patch_digest
from patchgate.runner.client import loading

_SUBSET = PACKAGE / "probe" / "patch" / "subset_patch.txt"
# The lines of a manifest for calls and scopes; a list may span several lines.
_CALLED = re.compile(r"(?m)^(scope|apply)\s*=\s*(\[([^]\"']|\"[^\"]*\"|'[^']*')*\]|.*)$")


def releases_in(text: str, known: Sequence[str]) -> list[str]:
    """The known releases in `2.10.0..2.15.0`, both ends included. Raises UsageError."""
    first, dots, last = text.partition("..")
    try:
        bounds = Version(first), Version(last)
    except ValueError:
        raise UsageError(
            "not a range of releases", where="--torch", got=text, next="--torch 2.10.0..2.15.0"
        ) from None
    inside = {torch for torch in known if bounds[0] <= Version(torch) <= bounds[1]} | {first, last}
    if not dots or len(inside) < 2:
        raise UsageError(
            "a range has two ends", where="--torch", got=text, next="--torch 2.10.0..2.15.0"
        )
    return sorted(inside, key=Version)


def commits_in(text: str, repository: Path, *paths: str) -> list[str]:
    """The commits in `GOOD..BAD`, oldest first, GOOD included, along first parents. With
    `paths`, commits after GOOD that change none of these paths are left out.

    Raises UsageError with git's words.
    """
    first, dots, last = text.partition("..")
    if not dots:
        raise UsageError(
            "not a range of commits", where="--commits", got=text, next="--commits GOOD..BAD"
        )
    start = _git(repository, "rev-parse", "--verify", f"{first}^{{commit}}").decode().strip()
    span = f"{start}..{last or 'HEAD'}"
    listed = _git(repository, "rev-list", "--reverse", "--first-parent", span, "--", *paths)
    commits = listed.decode().split()
    if not commits:
        raise UsageError(
            "no commits in that range", where="--commits", got=text, next="--commits GOOD..BAD"
        )
    return [start, *commits]


def title_of(commit: str, repository: Path) -> str:
    """The name of a commit for a reader, `1a2b3c4d5e Subject`."""
    return _git(repository, "log", "-1", "--format=%h %s", commit).decode().strip()


def files_changed(first: str, last: str, repository: Path, *paths: str) -> list[str]:
    """The changes between two commits as `git diff --stat` shows them: `torch/_inductor/ir.py | 8
    ++++----`.
    """
    lines = _git(repository, "diff", "--stat=100", first, last, "--", *paths).decode().splitlines()
    return [line.strip() for line in lines[:-1]]


def repository_of(path: Path) -> Path:
    """The repository that `path` lies in. Raises UsageError."""
    folder = path if path.is_dir() else path.parent
    return Path(_git(folder, "rev-parse", "--show-toplevel").decode().strip())


def patch_at(commit: str, path: Path, repository: Path, folder: Path) -> Path | None:
    """The patch at `path` as of `commit`, written below `folder`; None if it did not exist."""
    inside = path.resolve().relative_to(repository.resolve())
    # The manifest of a single file is next to it.
    wanted = [str(inside), *([str(inside.with_suffix(".toml"))] if inside.suffix else [])]
    with _refusals(repository):
        write_files(repository, commit, folder / commit, lambda name: True, *wanted)
    written = folder / commit / inside
    return written if written.exists() else None


def _git(repository: Path, *arguments: str) -> bytes:
    with _refusals(repository):
        return run_git(repository, *arguments)


@contextlib.contextmanager
def _refusals(repository: Path) -> Iterator[None]:
    """Turn an error of git into a UsageError with git's words."""
    try:
        yield
    except FileNotFoundError:
        raise UsageError(
            "no git on the PATH", where="bisect", got="it reads commits", next="install git"
        ) from None
    except GitFailed as error:
        raise UsageError(
            "git refuses",
            where=display_path(repository),
            got=str(error),
            next="the commits of a repository that git reads here",
        ) from None


def write_targets(patch: Patch, names: Sequence[str], folder: Path) -> Path:
    """Write a patch that makes only the changes of `patch` that concern `names`."""
    text = _SUBSET.read_text(encoding="utf-8").format(
        title=patch.id,
        digest=patch_digest(patch),
        path=patch.path,
        names=", ".join(map(repr, names)) or "*()",
        how=loading(patch),
    )
    written = _write_patch(patch, text, "patch.py", folder)
    if patch.claims.scope or patch.claims.apply:  # the text above enters and calls them
        manifest = written / "patch.toml"
        write_atomically(manifest, _CALLED.sub("", manifest.read_text(encoding="utf-8")))
    return written


def diff_of(path: Path) -> Path:
    """The diff at `path`, a diff or a folder with a diff. Raises UsageError if there is none."""
    diff = path / "patch.diff" if path.is_dir() else path
    if diff.suffix == ".py" or not diff.is_file():
        raise UsageError(
            "hunks are searched in a diff",
            where=display_path(path),
            got="no diff",
            next="--targets, for a patch.py",
        )
    return diff


def hunks_of(diff: Path) -> list[str]:
    """`path:line` of each hunk. Raises UsageError."""
    text = read_source(diff)
    return [
        f"{path}:{start}"
        for path, hunks in parse_hunks(text, display_path(diff)).items()
        for start, *_ in hunks
    ]


def write_hunks(patch: Patch, diff: Path, names: Sequence[str], folder: Path) -> Path:
    """Write a patch with only the hunks of the diff that `names` lists."""
    from unidiff.patch import PatchSet  # slow to import

    texts = []
    for file in PatchSet(read_source(diff)):
        hunks = [str(hunk) for hunk in file if f"{file.path}:{hunk.source_start}" in names]
        if hunks:
            texts += [f"--- {file.source_file}\n+++ {file.target_file}\n", *hunks]
    return _write_patch(patch, "".join(texts), "patch.diff", folder)


def _write_patch(patch: Patch, text: str, name: str, folder: Path) -> Path:
    own = folder / patch.id
    write_atomically(own / name, text)
    if patch.manifest:
        manifest = Path(patch.manifest)
        write_atomically(own / "patch.toml", manifest.read_bytes())
        for workload in (manifest.parent / "workloads").glob("*.py"):
            write_atomically(own / "workloads" / workload.name, workload.read_bytes())
    return own
