"""The source text of a release's files, from installed trees, from the user's cache, or from the
wheel.

The index has only fingerprints of bodies, so lint needs these texts to show bodies and lines of
calls, and to place hunks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Protocol

from packaging.version import Version

from patchgate.model.errors import UsageError
from patchgate.model.files import write_atomically
from patchgate.model.paths import display_path

PROJECTS = ("torch", "triton")


class Wheel(Protocol):
    def text(self, path: str) -> str | None: ...


OpenWheel = Callable[[str, str], Wheel]  # project, requirement


class Sources:
    """The texts of files, by release and path below site-packages. `trouble` says why a wheel could
    not be read.

    Raises UsageError for a folder that has no torch.
    """

    def __init__(
        self,
        folders: Sequence[Path] = (),
        *,
        open_wheel: OpenWheel | None = None,
        triton: Mapping[str, str] | None = None,
        cache: Path | None = None,
    ) -> None:
        self._folders = {_version_of(folder): folder for folder in folders}
        self._open, self._triton = open_wheel, triton or {}
        self._cache = cache
        self._wheels: dict[tuple[str, str], Wheel] = {}
        self._reading: dict[tuple[str, str], Lock] = {}
        self.trouble = ""

    def text(self, version: str, path: str) -> str | None:
        """The text of a file in one release; empty if the release has no such file, None if no
        source for the text is available.
        """
        parts = PurePosixPath(path).parts
        if ".." in parts or not parts or parts[0] not in PROJECTS:
            return None
        if version in self._folders:
            return _read(self._folders[version] / path) or ""
        if self._open is None:
            return None
        kept = self._cache / version / path if self._cache is not None else None
        text = _read(kept) if kept is not None else None
        if text is None:
            text = self._from_wheel(version, parts[0], path)
            if text is not None and kept is not None:
                with contextlib.suppress(OSError):  # a cache that cannot be written costs time only
                    write_atomically(kept, text)
        return text

    def texts(self, versions: Sequence[str], path: str) -> dict[str, str | None]:
        """The text of a file in several releases; wheels are read in parallel."""
        if self._open is None or len(versions) < 2:
            return {version: self.text(version, path) for version in versions}
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(len(versions)) as pool:
            return dict(
                zip(
                    versions,
                    pool.map(lambda version: self.text(version, path), versions),
                    strict=True,
                )
            )

    def _from_wheel(self, version: str, project: str, path: str) -> str | None:
        requirement = version if project == "torch" else self._triton.get(version, "")
        if self.trouble or not requirement or self._open is None:
            return None
        key = project, requirement
        try:
            with self._reading.setdefault(
                key, Lock()
            ):  # several releases may require the same triton
                if key not in self._wheels:
                    self._wheels[key] = self._open(project, f"=={requirement}")
                return self._wheels[key].text(path) or ""
        except UsageError as error:
            self.trouble = f"{error.what}: {error.got}"
            return None


def _version_of(folder: Path) -> str:
    version = version_in(folder)
    if version is None:
        raise UsageError(
            "no torch in it",
            where=display_path(folder),
            got="no torch/version.py",
            next="--sources ENVIRONMENT/lib/python3.12/site-packages",
        )
    return version


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


@lru_cache(maxsize=64)
def version_in(folder: Path) -> str | None:
    """The release of an installed torch, from torch/version.py."""
    text = _read(folder / "torch" / "version.py") or ""
    line = next((each for each in text.splitlines() if each.startswith("__version__")), "")
    return Version(line.split("=")[1].strip(" '\"")).public if "=" in line else None
