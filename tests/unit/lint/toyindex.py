"""Small torch releases for the tests of lint, built from source texts as `index add` builds the
shipped ones.
"""

from __future__ import annotations

import atexit
from pathlib import Path
from tempfile import TemporaryDirectory

from patchgate.lint.index.build import build
from patchgate.lint.index.format import write
from patchgate.lint.index.records import ReleaseRecords, in_extension
from patchgate.lint.index.release import Index, Release
from patchgate.lint.index.sources import Sources

_FOLDERS = TemporaryDirectory(prefix="patchgate-toys-")
atexit.register(_FOLDERS.cleanup)


def files_of(modules: dict[str, str]) -> dict[str, str]:
    """Path below site-packages -> text of modules, and of the packages above them; `torch` itself
    has none.
    """
    parents = {
        each.rsplit(".", depth)[0] for each in modules for depth in range(1, each.count("."))
    }
    texts = {**dict.fromkeys(parents, ""), **modules}
    return {
        f"{name.replace('.', '/')}{'/__init__' * (name in parents)}.py"
        + "i" * in_extension(name): text
        for name, text in texts.items()
    }


def built(version: str, modules: dict[str, str]) -> ReleaseRecords:
    """The records of one release of these modules, {dotted name: text}, without the packages above
    them.
    """
    return build(
        [(f"{name.replace('.', '/')}.py", text) for name, text in modules.items()], version
    )


def index_of(folder: Path, releases: dict[str, dict[str, str]]) -> Index:
    write(folder, [built(version, modules) for version, modules in releases.items()])
    return Index(folder)


class _Wheel:
    """A wheel in memory."""

    def __init__(self, files: dict[str, str]) -> None:
        self._files = files

    def text(self, path: str) -> str | None:
        return self._files.get(path)


def toy_releases(releases: dict[str, dict[str, str]]) -> tuple[Release, ...]:
    """Releases of one index, {version: {dotted name: text}}, each with its source texts at hand."""
    folder = Path(_FOLDERS.name) / str(len(list(Path(_FOLDERS.name).iterdir())))
    files = {version: files_of(modules) for version, modules in releases.items()}
    write(folder, [build(each.items(), version) for version, each in files.items()])
    texts = Sources(
        open_wheel=lambda project, requirement: _Wheel(files[requirement.removeprefix("==")])
    )
    index = Index(folder)
    return tuple(index.release(version, texts) for version in releases)


def toy_release(version: str, modules: dict[str, str]) -> Release:
    [release] = toy_releases({version: modules})
    return release
