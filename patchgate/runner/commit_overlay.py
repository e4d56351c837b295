"""The Python sources of one commit of torch over an installed release, as an environment of its
own.

The installed torch is linked to and never written. What is compiled is the release's, so a commit
that needs other C++ does not import.
"""

from __future__ import annotations

import filecmp
import io
import subprocess
import tarfile
from pathlib import Path

SOURCES = ":(glob)torch/**/*.py"
# What the release's environment adds to the path is added here too, behind the torch laid over it.
_BESIDE = "import site; site.addsitedir({beside!r})\n"


def make_overlay(python: str, installed: Path, checkout: Path, commit: str, home: Path) -> str:
    """An interpreter below `home` whose torch is that of `python`, installed in `installed`, with
    the commit's sources.

    Raises subprocess.CalledProcessError where there is no such commit, or no environment can be
    made.
    """
    command = ["git", "-C", str(checkout), "archive", commit, "--", SOURCES]
    packed = subprocess.run(command, check=True, capture_output=True).stdout
    subprocess.run(
        [python, "-m", "venv", "--without-pip", str(home)], check=True, capture_output=True
    )
    (place,) = home.glob("lib/python*/site-packages")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(place, filter="data")
    link_missing(installed / "torch", place / "torch")
    (place / "beside.pth").write_text(_BESIDE.format(beside=str(installed)), encoding="utf-8")
    return str(home / "bin" / "python")


def link_missing(installed: Path, laid: Path) -> None:
    """Link all of `installed` that `laid` lacks or has alike; a folder without sources is one
    link.
    """
    for each in installed.iterdir():
        there = laid / each.name
        if there.is_dir():
            link_missing(each, there)
        elif each.name != "__pycache__" and (
            not there.exists() or filecmp.cmp(each, there, shallow=False)
        ):
            there.unlink(missing_ok=True)
            there.symlink_to(each)


def built_commit(installed: Path) -> str | None:
    """The commit that an installed torch was built from, as its version.py says."""
    for line in (installed / "torch" / "version.py").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        if name.strip().partition(":")[0] == "git_version":
            return value.strip().strip("'\"") or None
    return None
