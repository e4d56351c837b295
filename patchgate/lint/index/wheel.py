"""Reads Python sources of a torch release from its wheel on the package index. Of the wheel's half
gigabyte, only a few megabytes are downloaded.

unearth finds the wheel that pip would take. Ranges of the wheel are copied into a sparse temporary
file, which zipfile reads. Members close to each other share a range, because one range for each
member would need a thousand requests.
"""

from __future__ import annotations

import ast
import re
import ssl
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from packaging.version import Version
from unearth import PackageFinder
from unearth.auth import MultiDomainBasicAuth
from unearth.fetchers import PyPIClient

from patchgate.model.errors import UsageError
from patchgate.model.records import record

Wanted = Callable[[str], bool]
# Members with a smaller gap between them (in bytes) are read in one request, because another
# request costs about as much as the bytes of the gap.
_GAP = 1 << 18
# Bytes at the end of a wheel that are read first: torch's directory of some 20,000 members takes
# 2.5 MB.
_DIRECTORY = 3 << 20
# The most bytes before a member's data, without its name: a header of 30 bytes, and extra fields of
# at most 256.
_HEADER = 30 + 256
_NO_RANGES = "the package index does not support range requests"


@record
class PipSettings:
    """The settings by which pip finds a wheel, from pip's configuration files and environment
    variables.
    """

    index_urls: tuple[str, ...]
    #: Folders, or addresses of pages with links to wheels.
    find_links: tuple[str, ...]
    #: Hosts that may be asked by plain http, or with a certificate that cannot be verified.
    trusted_hosts: tuple[str, ...]
    #: A file of certificates; None means the system's certificates.
    cert: str | None
    #: None means the proxy of the environment (HTTPS_PROXY).
    proxy: str | None
    #: Seconds.
    timeout: float

    @classmethod
    def load(cls) -> PipSettings:
        """The settings of pip in this environment."""
        settings = _settings()
        words = {name: tuple(value.split()) for name, value in settings.items()}
        default = [
            source["url"] for source in PackageFinder().sources
        ]  # pip's default index, if the settings name no other
        indexes = (*words.get("index-url", default), *words.get("extra-index-url", ()))
        links = words.get("find-links", ())
        return cls(
            index_urls=()
            if settings.get("no-index", "").lower() in ("1", "true", "yes", "on")
            else indexes,
            find_links=tuple(each for each in links if "://" in each or Path(each).exists()),
            trusted_hosts=words.get("trusted-host", ()),
            cert=settings.get("cert") or None,
            proxy=settings.get("proxy") or None,
            timeout=float(settings.get("timeout") or settings.get("default-timeout") or 15),
        )


def _settings() -> dict[str, str]:
    """The settings that pip itself prints. Environment variables have priority over pip's files."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    # Not in the working folder: an untrusted checkout may have a module `pip`.
    listed = subprocess.run(command, capture_output=True, text=True, cwd="/").stdout.splitlines()
    return {
        name.removeprefix(source): ast.literal_eval(value)
        for source in ("global.", ":env:.")
        for name, _, value in (line.partition("=") for line in listed)
        if name.startswith(source)
    }


@dataclass(kw_only=True)
class Fetched:
    """The files of one wheel that were read."""

    #: The version in its metadata, local part included.
    version: str = ""
    #: (path below site-packages, text) of each wanted member.
    files: list[tuple[str, str]] = field(default_factory=list)
    #: The lines `Requires-Dist: ...` of its metadata.
    requires: tuple[str, ...] = ()
    bytes_read: int = 0
    #: True if the whole wheel was downloaded, because the server does not answer ranges.
    whole: bool = False

    def __str__(self) -> str:
        how = f"downloaded whole: {_NO_RANGES}" if self.whole else "read by ranges"
        return f"{self.version}: {len(self.files)} sources, {self.bytes_read / 1e6:.1f} MB {how}"

    @property
    def triton_requirement(self) -> str:
        """The triton that a torch wheel requires, as a specifier; empty if it requires none."""
        lines = (
            re.match(r"Requires-Dist: triton\s*\(?([=~<>!][^;)]*)", line) for line in self.requires
        )
        return next((line[1].strip() for line in lines if line), "")


class RemoteWheel:
    """The newest wheel on the package index that the specifier `requirement` allows.

    Raises UsageError if there is no such wheel, or if it cannot be read.
    """

    def __init__(self, project: str, requirement: str, settings: PipSettings) -> None:
        self._name, self._requirement = project, requirement
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  open as long as the wheel is
        self.bytes_read = 0
        with self._usage_errors():
            self._client = PyPIClient(
                trusted_hosts=settings.trusted_hosts,
                verify=ssl.create_default_context(cafile=settings.cert) if settings.cert else True,
                timeout=settings.timeout,
                proxy=settings.proxy,
                follow_redirects=True,
            )
            self._client.auth = MultiDomainBasicAuth(
                prompting=False, index_urls=settings.index_urls
            )
            self._url = self._find(settings)
            head = self._client.head(self._url)
        self.answers_ranges = head.headers.get("Accept-Ranges") == "bytes"
        self._size = int(head.headers.get("Content-Length", 0))
        self._zip: zipfile.ZipFile | None = None

    def _find(self, settings: PipSettings) -> str:
        session: Any = self._client  # its `get` takes more than unearth's protocol says
        finder = PackageFinder(
            session,
            index_urls=settings.index_urls,
            find_links=settings.find_links,
            trusted_hosts=settings.trusted_hosts,
            only_binary=[":all:"],
        )
        sources = (
            settings.index_urls or settings.find_links
        )  # without sources, unearth would ask its default index
        wanted = f"{self._name}{self._requirement}"
        for each in finder.find_matches(wanted, allow_prereleases=True) if sources else ():
            # A torch with a local version (+cpu) requires no triton.
            if each.version is not None and Version(each.version).local is None:
                return each.link.url_without_fragment
        raise UsageError(
            f"no wheel of {self._name} on the package index",
            where="the package index",
            got=wanted,
            next=f"pip index versions {self._name}",
        )

    @contextmanager
    def _usage_errors(self) -> Iterator[None]:
        try:
            yield
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, zipfile.BadZipFile) as error:
            raise self._unreadable(f"{type(error).__name__}: {error}"[:200]) from None

    def _unreadable(self, got: str) -> UsageError:
        return UsageError(
            f"the wheel of {self._name} could not be read",
            where="the package index",
            got=got,
            next=f"pip download --no-deps {self._name}{self._requirement}   (says what is wrong)",
        )

    def members(self) -> list[zipfile.ZipInfo]:
        """The entries of the wheel's directory, in the order of their places in the file."""
        with self._usage_errors():
            if self._zip is None:
                if self.answers_ranges:
                    self._read(max(0, self._size - _DIRECTORY), self._size)
                else:
                    self._read(0, None)
                self._zip = zipfile.ZipFile(self._file)
        return sorted(self._zip.infolist(), key=lambda each: each.header_offset)

    def texts(self, members: Iterable[zipfile.ZipInfo]) -> list[str]:
        """The texts of these members, in the order given."""
        assert self._zip is not None, "members() opens the wheel"
        members = list(members)
        with self._usage_errors():
            for start, stop in spans_of(members) if self.answers_ranges else ():
                self._read(start, stop)
            return [self._zip.read(each).decode("utf-8", "replace") for each in members]

    def text(self, path: str) -> str | None:
        """The text of one file; None if the wheel has no such file. Raises UsageError if the whole
        wheel would have to be downloaded.
        """
        if not self.answers_ranges:
            raise self._unreadable(_NO_RANGES)
        return next(
            iter(self.texts(each for each in self.members() if each.filename == path)), None
        )

    def _read(self, start: int, stop: int | None) -> None:
        """Copy the bytes from `start` to `stop` to their place in the temporary file; without
        `stop`, copy the whole wheel.
        """
        span = {"Range": f"bytes={start}-{stop - 1}"} if stop is not None else {}
        with self._client.stream(
            "GET", self._url, headers={"Accept-Encoding": "identity", **span}
        ) as response:
            response.raise_for_status()
            if stop is not None and response.status_code != httpx2.codes.PARTIAL_CONTENT:
                raise OSError(_NO_RANGES)
            self._file.seek(start)
            for chunk in response.iter_raw():
                self.bytes_read += self._file.write(chunk)


def open_wheel(project: str, requirement: str) -> RemoteWheel:
    """Open a wheel, to read single files from it."""
    return RemoteWheel(project, requirement, PipSettings.load())


def fetch(project: str, requirement: str, wanted: Wanted) -> Fetched:
    """The wanted members of a wheel, and its metadata."""
    wheel = open_wheel(project, requirement)
    members = [
        each for each in wheel.members() if wanted(each.filename) or _is_metadata(each.filename)
    ]
    fetched = Fetched(whole=not wheel.answers_ranges)
    for member, text in zip(members, wheel.texts(members), strict=True):
        if _is_metadata(member.filename):
            lines = text.splitlines()
            fetched.version = next(
                (each[9:].strip() for each in lines if each.startswith("Version: ")), ""
            )
            fetched.requires = tuple(each for each in lines if each.startswith("Requires-Dist"))
        else:
            fetched.files.append((member.filename, text))
    fetched.bytes_read = wheel.bytes_read
    return fetched


def spans_of(members: Iterable[zipfile.ZipInfo]) -> list[tuple[int, int]]:
    """Return (start, stop) in bytes for each group of members close to each other. `members` come
    in the order of their places in the wheel.
    """
    spans: list[tuple[int, int]] = []
    for each in members:
        start = each.header_offset
        stop = each.header_offset + _HEADER + len(each.filename) + each.compress_size
        if spans and start - spans[-1][1] < _GAP:
            spans[-1] = spans[-1][0], max(stop, spans[-1][1])
        else:
            spans.append((start, stop))
    return spans


def _is_metadata(path: str) -> bool:
    return path.count("/") == 1 and path.endswith(".dist-info/METADATA")
