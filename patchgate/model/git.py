"""All commands of git. No command runs a program that a repository names, fetches anything, or
obeys an environment variable that leads to another repository.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

# Settings that override the settings of a repository.
_SETTINGS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "log.showSignature=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
)
# No protocol is allowed, so that a missing object is not fetched.
_VARIABLES = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
# Variables of the user that are kept: they limit the search for a repository, and name the files
# of settings.
_KEPT = (
    "GIT_CEILING_DIRECTORIES",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
)
# The most seconds of a command; a file of the repository may be a pipe without a writer.
_PATIENCE = 300
# A tree that was made by hand can hold any name.
_LEADS_OUT = {"..", "/", "//", ".git"}


class GitFailed(Exception):
    """A command of git failed; the text is git's own."""


def run_git(folder: Path, *arguments: str, given: str = "") -> bytes:
    """Run a command of git in a folder, and return its output.

    Raises GitFailed, and FileNotFoundError if there is no git.
    """
    import subprocess

    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or not name.startswith("GIT_")
    }
    options = [word for setting in _SETTINGS for word in ("-c", setting)]
    try:
        ended = subprocess.run(
            ["git", "--no-pager", *options, "-C", str(folder), *arguments],
            input=given.encode(),
            capture_output=True,
            env=environment | _VARIABLES,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise GitFailed(f"no answer within {_PATIENCE} seconds") from None
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip()
        raise GitFailed(said or f"git ended with status {ended.returncode}")
    return ended.stdout


def is_in_repository(folder: Path) -> bool:
    """True for a folder that contains `.git`, or that lies below such a folder."""
    place = folder.resolve()
    return any(os.path.lexists(each / ".git") for each in (place, *place.parents))


def files_in_git(folder: Path, *which: str) -> list[str] | None:
    """The files below a folder that git knows; None without git or a repository."""
    try:
        listed = run_git(folder, "ls-files", "-z", *which)
    except (GitFailed, OSError):
        return None
    return [name for name in listed.decode(errors="replace").split("\0") if name]


def last_commit(path: Path) -> str:
    """The short commit that last changed a file or folder; empty if git knows none."""
    try:
        said = run_git(path.parent, "log", "-1", "--format=%h", "--", path.name)
    except (GitFailed, OSError):
        return ""
    return said.decode(errors="replace").strip()


def write_files(
    repository: Path,
    commit: str,
    into: Path,
    is_wanted: Callable[[str], bool],
    *which: str,
    is_git_folder: bool = False,
) -> None:
    """Write files of a commit as they are stored: no filter that a repository names is run.

    Links, and files that a partial clone lacks, are left out. Raises GitFailed if git fails, as for
    an unknown commit.
    """
    ask = partial(run_git, repository, *(["--git-dir=."] if is_git_folder else []))
    listed = ask("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit, *which)
    lines = listed.decode(errors="surrogateescape").split("\0")
    wanted = [
        (name, entry.split()[2])
        for entry, _, name in (line.partition("\t") for line in lines)
        if entry.startswith("100") and not _LEADS_OUT & {*Path(name).parts} and is_wanted(name)
    ]
    text = ask("cat-file", "--batch", given="".join(f"{each}\n" for _, each in wanted))
    at = 0
    for name, _ in wanted:
        head = text[at : text.index(b"\n", at)]
        at += len(head) + 1
        if not head.endswith(b"missing"):
            size = int(head.split()[-1])
            file = into / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text[at : at + size])
            at += size + 1
