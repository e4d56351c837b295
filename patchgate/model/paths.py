"""The folders of fixtures and golden files: the folders of a checkout, or the copy in an installed
wheel.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
_SHIPPED = PACKAGE / "_shipped"
ROOT = _SHIPPED if _SHIPPED.is_dir() else PACKAGE.parent

WORKLOADS = ROOT / "fixtures" / "workloads"
MODELS = ROOT / "fixtures" / "models"
DEVICES = ROOT / "fixtures" / "devices"
GOLDEN = ROOT / "golden"
# Every folder whose subfolders may hold a corpus.toml.
CORPUS = (
    ROOT / "fixtures" / "patches",
    ROOT / "fixtures" / "faults",
    ROOT / "fixtures" / "hostile",
)
# The output of codes for cases of the corpus; `python -m benchmarks.corpus --examples` writes it.
EXAMPLES = ROOT / "fixtures" / "examples.json"
#: The pages that messages name.
PAGES = {
    name: ROOT / "docs" / f"{name}.md"
    for name in ("claims", "devices", "project", "quick-start", "workloads")
}
MATRIX = ROOT / "ci" / "matrix.toml"


def display_path(path: Path | str) -> str:
    """A path on one line as the user would type it: relative to the working folder if it lies below
    that folder.
    """
    path = Path(path)
    with contextlib.suppress(ValueError):
        path = path.resolve().relative_to(Path.cwd())
    return str(path).replace("\n", "\\n")


def leaves_project(path: Path, place: Path) -> bool:
    """True if a path, with links followed, lies outside the repository around `place` (without a
    repository: outside the project around `place`; without a project: outside `place`).
    """
    marks = (".git", "pyproject.toml", "patchgate.toml")
    around = (place.resolve(), *place.resolve().parents)
    found = (folder for mark in marks for folder in around if (folder / mark).exists())
    return not path.resolve().is_relative_to(next(found, around[0]))


def split_entry(path: Path) -> tuple[Path, str]:
    """Split `pkg/patch.py::install(True)`, which has the form of pytest's names of tests. The
    second part is empty if there is no `::`.
    """
    file, _, entry = str(path).partition("::")
    return Path(file), entry


def user_cache(part: str) -> Path:
    """The user's folder, common to all projects, for files that can be fetched or made again."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "patchgate" / part
