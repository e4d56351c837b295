"""The Python sources of a torch release, straight from its wheel: megabytes, not the whole half gigabyte.

pip is the client: it finds the wheel, with its own configuration, and reads ranges of it. Where the server
answers no ranges the wheel is downloaded and deleted again. Decides only which bytes to ask for.
"""

from __future__ import annotations

import re
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from patchgate.model.errors import UsageError

Wanted = Callable[[str], bool]
# Two members this near are read in one request.
_GAP = 1 << 18
# Enough for the directory of a torch wheel, which lies at its end.
_TAIL = 3 << 20


@dataclass(kw_only=True)
class Fetched:
    """(path, text) of each wanted member; `whole` tells that the wheel had to be downloaded."""

    version: str = ""
    files: list[tuple[str, str]] = field(default_factory=list)
    requires: tuple[str, ...] = ()
    bytes_read: int = 0
    whole: bool = False


class Client:
    """pip's finder and session. Its internals are no promise of pip's, so nothing else here touches them."""

    def __init__(self) -> None:
        try:
            from pip._internal import commands
            from pip._internal.exceptions import PipError
            from pip._internal.network import lazy_wheel
            from pip._vendor import requests
            from pip._vendor.packaging.specifiers import SpecifierSet
        except ImportError as error:
            raise UsageError(
                "no pip to read the package index with",
                where="the package index",
                got=str(error),
                next="python -m ensurepip",
            ) from None
        self._lazy: Any = lazy_wheel
        http: Any = requests
        self._failures: tuple[Any, ...] = (PipError, http.RequestException, OSError)
        self._specifiers: Any = SpecifierSet
        pip_commands: Any = commands
        self._command: Any = pip_commands.create_command("index")  # it has a session and a finder, and does nothing yet
        self._options, _ = self._command.parse_args(["versions", "torch"])
        self._options.disable_pip_version_check = True
        self.context: Any = self._command.main_context

    def url(self, finder: Any, project: str, wish: str) -> str:
        """The newest wheel that `wish` allows; one with a local version (+cpu) asks for no triton, so never that."""
        allowed = self._specifiers(wish)
        found = [
            each
            for each in finder.find_all_candidates(project)
            if each.link.is_wheel
            and each.version.local is None
            and allowed.contains(str(each.version), prereleases=True)
        ]
        if not found:
            raise UsageError(
                f"no wheel of {project} on the package index",
                where="the package index",
                got=f"{project}{wish}",
                next=f"pip index versions {project}",
            )
        best = max(found, key=lambda each: (each.version, each.link.filename))
        return str(best.link.url_without_fragment)

    @contextmanager
    def told(self, project: str, wish: str) -> Iterator[None]:
        """Whatever goes wrong inside becomes a usage error."""
        try:
            with self.context():
                yield
        except self._lazy.HTTPRangeRequestUnsupported:
            raise self._unreadable(project, wish, "the package index answers no ranges") from None
        except self._failures as error:
            raise self._unreadable(project, wish, f"{type(error).__name__}: {error}"[:200]) from None

    def _unreadable(self, project: str, wish: str, got: str) -> UsageError:
        return UsageError(
            f"the wheel of {project} could not be read",
            where="the package index",
            got=got,
            next=f"pip download --no-deps {project}{wish}   (says what is wrong)",
        )

    def fetch(self, project: str, wish: str, wanted: Wanted) -> Fetched:
        with self.told(project, wish):
            session, url = self._found(project, wish)
            try:
                remote = self._lazy.LazyZipOverHTTP(url, session, _TAIL)
            except self._lazy.HTTPRangeRequestUnsupported:
                with _downloaded(session, url) as file:
                    return _read(file, wanted, Fetched(whole=True, bytes_read=_length(file)))
            with remote:
                return _read(remote, wanted, Fetched(), ask=_counting(remote))

    def open(self, project: str, wish: str) -> OpenWheel:
        """The wheel to read single files from. Raises UsageError also where only the whole could be had."""
        with self.told(project, wish):
            session, url = self._found(project, wish)
            remote = self._lazy.LazyZipOverHTTP(url, session, _TAIL)
            wheel = OpenWheel(self, project, wish, zipfile.ZipFile(remote))
            remote._chunk_size = _GAP  # the directory is here now, and a file is small
            return wheel

    def _found(self, project: str, wish: str) -> tuple[Any, str]:
        session = self._command._build_session(self._options)
        finder = self._command._build_package_finder(
            options=self._options, session=session, target_python=None, ignore_requires_python=True
        )
        return session, self.url(finder, project, wish)


class OpenWheel:
    """A wheel on the package index whose directory has been read."""

    def __init__(self, client: Client, project: str, wish: str, opened: zipfile.ZipFile) -> None:
        self._client, self._project, self._wish = client, project, wish
        self._opened = opened

    def text(self, path: str) -> str | None:
        """One file; None when the wheel has none of that name."""
        with self._client.told(self._project, self._wish):
            try:
                return self._opened.read(path).decode("utf-8", "replace")
            except KeyError:
                return None


def open_wheel(project: str, wish: str) -> OpenWheel:
    """The newest wheel that `wish`, a specifier, allows, to read single files from."""
    return _client().open(project, wish)


def fetch(project: str, wish: str, wanted: Wanted) -> Fetched:
    """The wanted members of the newest wheel that `wish`, a specifier, allows."""
    return _client().fetch(project, wish, wanted)


@cache
def _client() -> Client:
    return Client()


def triton_of(fetched: Fetched) -> str:
    """The triton that a torch wheel asks for, as a specifier, or nothing."""
    for line in fetched.requires:
        found = re.match(r"Requires-Dist: triton\s*\(?([=~<>!][^;)]*)", line)
        if found:
            return found[1].strip()
    return ""


def _read(file: Any, wanted: Wanted, fetched: Fetched, ask: Callable[[int, int], int] | None = None) -> Fetched:
    with zipfile.ZipFile(file) as wheel:
        members = sorted(
            (each for each in wheel.infolist() if wanted(each.filename) or _metadata(each.filename)),
            key=lambda each: each.header_offset,
        )
        if ask is not None:
            fetched.bytes_read += _TAIL + sum(ask(start, stop) for start, stop in _ranges(members))
        for each in members:
            text = wheel.read(each).decode("utf-8", "replace")
            if _metadata(each.filename):
                lines = text.splitlines()
                fetched.version = next((each[9:].strip() for each in lines if each.startswith("Version: ")), "")
                fetched.requires = tuple(each for each in lines if each.startswith("Requires-Dist"))
            else:
                fetched.files.append((each.filename, text))
    return fetched


def _metadata(path: str) -> bool:
    return path.count("/") == 1 and path.endswith(".dist-info/METADATA")


def _ranges(members: list[zipfile.ZipInfo]) -> Iterator[tuple[int, int]]:
    """The members' places in the wheel, near ones joined: few requests instead of one for each file."""
    start = stop = -1
    for each in members:
        # What stands before a member's bytes: 30 bytes, its name, and extra fields no longer than this.
        end = each.header_offset + struct.calcsize("<30x") + len(each.filename) + 256 + each.compress_size
        if start >= 0 and each.header_offset - stop < _GAP:
            stop = max(stop, end)
            continue
        if start >= 0:
            yield start, stop
        start, stop = each.header_offset, end
    if start >= 0:
        yield start, stop


def _counting(remote: Any) -> Callable[[int, int], int]:
    def ask(start: int, stop: int) -> int:
        remote.seek(start)
        return len(remote.read(stop - start))

    return ask


@contextmanager
def _downloaded(session: Any, url: str) -> Iterator[Any]:
    with tempfile.TemporaryFile() as file, session.get(url, stream=True) as response:
        response.raise_for_status()
        for chunk in response.iter_content(1 << 20):
            file.write(chunk)
        file.seek(0)
        yield file


def _length(file: Any) -> int:
    at = file.seek(0, 2)
    file.seek(0)
    return int(at)
