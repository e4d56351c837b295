"""An index on disk of a few sources, for the tests of the index."""

from __future__ import annotations

from pathlib import Path

from patchgate.lint.index.build import Sources, build_files
from patchgate.lint.index.release import Index
from patchgate.lint.index.write import write


def built(version: str, sources: dict[str, str]) -> Sources:
    return build_files([(f"{name.replace('.', '/')}.py", text) for name, text in sources.items()], version)


def index_of(folder: Path, releases: dict[str, dict[str, str]]) -> Index:
    write(folder, [built(version, sources) for version, sources in releases.items()])
    return Index(folder)
