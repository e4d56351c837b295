"""Torch environments: existing ones, the user's own that all projects share, and others made on
demand.

uv installs a release, or a nightly build from an index of its own. A commit is laid as sources over
an installed release. Environments made for a search or a sweep are deleted at the end.
"""

from __future__ import annotations

import contextlib
import fcntl
import filecmp
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import Version

from patchgate.model.git import GitFailed, files_in_git, write_files
from patchgate.model.paths import user_cache
from patchgate.runner.cache_keys import files_digest, read_environment

# The environment variable that names the package index of nightly builds.
NIGHTLY_INDEX = "PATCHGATE_NIGHTLY_INDEX"
_COMMIT = "+git"
# numpy: torch warns without it; packaging: version checks in patches need it; setuptools: torch
# 2.10 needs it to find a C++ compiler.
BESIDE_TORCH = ("numpy", "packaging", "setuptools")
# uv's messages for a release or a package that the index lacks.
_NOT_OFFERED = re.compile(
    r"there is no version of ([\w.-]+)|only ([\w.-]+)\S* is available"
    r"|([\w.-]+) was not found in the package registry"
)


class NotInstallable(Exception):
    """An environment cannot be made on this machine; `str` says why.

    `package` is the package that the index lacks, in the wanted release or altogether; None if the
    index is not the reason.
    """

    @property
    def package(self) -> str | None:
        found = _NOT_OFFERED.search(str(self))
        return next(filter(None, found.groups())) if found else None


@dataclass
class Environments:
    """Torch environments by release. `rows` maps a release to the interpreter of an existing one.

    A commit of the git repository `checkout` is called `2.13.0+git0123456789ab`: its sources are
    laid over that release.
    """

    rows: dict[str, str]
    checkout: Path | None = None
    made: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    _folder: tempfile.TemporaryDirectory[str] | None = None

    def python(self, torch: str) -> str:
        """The interpreter for a release.

        Raises NotInstallable; a later call for the same release repeats the reason.
        """
        known = self.made | self.rows
        if torch in known:
            return known[torch]
        if torch not in self.failed:
            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="patchgate-rows-")
            make = self._lay if _COMMIT in torch else _install
            try:
                self.made[torch] = make(torch, Path(self._folder.name) / torch)
                return self.made[torch]
            except NotInstallable as error:
                self.failed[torch] = str(error)
        raise NotInstallable(self.failed[torch])

    def _lay(self, torch: str, home: Path) -> str:
        """Make an environment below `home` with the torch of a release and the commit's sources
        over it; return its interpreter.
        """
        if self.checkout is None:
            raise NotInstallable("a commit of torch needs a checkout of torch (--checkout)")
        release, _, commit = torch.partition(_COMMIT)
        python = self.python(release)
        try:
            subprocess.run(
                [python, "-m", "venv", "--without-pip", str(home)], check=True, capture_output=True
            )
            (place,) = home.glob("lib/python*/site-packages")
            write_files(self.checkout, commit, place, lambda name: name.endswith(".py"), "torch")
            beside = self.home(release)
            link_missing(beside / "torch", place / "torch")
            (place / "beside.pth").write_text(_BESIDE.format(beside=str(beside)), encoding="utf-8")
            return str(home / "bin" / "python")
        except (GitFailed, FileNotFoundError) as error:
            raise NotInstallable(_said(str(error))) from None
        except subprocess.CalledProcessError as error:
            raise NotInstallable(
                _said(error.stderr.decode(errors="replace")) or str(error)
            ) from None

    def home(self, torch: str) -> Path:
        """The folder in which the torch of a release is installed."""
        return Path(read_environment(self.python(torch))["home"])

    def close(self) -> None:
        """Delete the environments that were made."""
        if self._folder is not None:
            self._folder.cleanup()


def cached_home(torch: str, requires: Sequence[str] = (), package: Path | None = None) -> Path:
    """The folder of the user's environment with this release. The environment is ready if the
    folder holds a file `complete`.
    """
    content = (platform.python_version(), f"torch=={torch}", *BESIDE_TORCH, *sorted(requires))
    content += (str(package.resolve()),) if package else ()
    digest = hashlib.sha256("\n".join(content).encode()).hexdigest()[:12]
    return user_cache("environments") / f"torch-{torch}-{digest}"


def cached_environment(
    torch: str, requires: Sequence[str] = (), package: Path | None = None
) -> str:
    """The interpreter of the user's environment with this release, which is made once for all
    projects.

    Raises NotInstallable.

    `requires` and the folder of a `package` are installed next to torch. The package is installed
    again if its files have changed.
    """
    home = cached_home(torch, requires, package)
    home.parent.mkdir(parents=True, exist_ok=True)
    complete = home / "complete"  # holds the digest of the package
    with open(home.with_name(f"{home.name}.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # if two gates start at once, only one makes it
        with _copy_of(package) as (copy, digest):
            if not complete.is_file():
                shutil.rmtree(home, ignore_errors=True)  # left by an interrupted gate
            elif complete.read_text(encoding="utf-8") != digest:
                complete.unlink()
            if not complete.is_file():
                _install(torch, home, (*requires, *copy))
                complete.write_text(digest, encoding="utf-8")
    return str(home / "bin" / "python")


@contextlib.contextmanager
def _copy_of(package: Path | None) -> Iterator[tuple[list[str], str]]:
    """Copy the package's files, because a build writes next to its sources. Yield the copy and a
    digest of the files.
    """
    if package is None:
        yield [], ""
        return
    with tempfile.TemporaryDirectory(prefix="patchgate-package-") as folder:
        for name in _files_of(package):
            target = Path(folder, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(package / name, target)
        yield [folder], files_digest(Path(folder))


def _files_of(package: Path) -> list[str]:
    """The files of the package that git does not ignore; without git, all that are not hidden."""
    found = files_in_git(package, "--cached", "--others", "--exclude-standard")
    found = (
        [str(path.relative_to(package)) for path in package.rglob("*")] if found is None else found
    )
    return [
        name
        for name in found
        if name and name[0] != "." and "/." not in name and (package / name).is_file()
    ]


def commit_version(release: str, commit: str) -> str:
    """The version name of a commit's sources over a release."""
    return f"{release}{_COMMIT}{commit[:12]}"


def installed_release(torch: str) -> str:
    """The installed torch under a commit's sources; any other torch is returned unchanged."""
    return torch.partition(_COMMIT)[0]


def nightlies(first: str, last: str) -> list[str]:
    """The nightly builds between two releases in the index that $PATCHGATE_NIGHTLY_INDEX names,
    oldest first.
    """
    index = os.environ.get(NIGHTLY_INDEX)
    if not index:
        return []
    command = [
        sys.executable,
        "-m",
        "pip",
        "index",
        "versions",
        "torch",
        "--pre",
        "--index-url",
        index,
    ]
    ended = subprocess.run(command, capture_output=True, text=True)
    listed = re.search(r"(?m)^Available versions: (.*)$", ended.stdout)
    found = {Version(version).public for version in listed[1].split(", ")} if listed else set()
    inside = [
        each
        for each in map(Version, found)
        if each.is_devrelease and Version(first) < each < Version(last)
    ]
    return [str(each) for each in sorted(inside)]


def _install(torch: str, home: Path, more: Sequence[str] = ()) -> str:
    uv = shutil.which(
        "uv", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    )
    if uv is None:
        raise NotInstallable("no `uv` to make an environment with (pip install uv)")
    python = str(home / "bin" / "python")
    if not home.is_dir():
        _call(uv, "venv", "--quiet", "--python", sys.executable, str(home))
    install = (uv, "pip", "install", "--quiet", "--python", python)
    if ".dev" not in torch:
        _call(*install, f"torch=={torch}", *BESIDE_TORCH, *more)
        return python
    index = os.environ.get(NIGHTLY_INDEX)
    if not index:
        raise NotInstallable(f"{NIGHTLY_INDEX} names no index of nightly builds")
    _call(*install, *BESIDE_TORCH, *more)
    _call(*install, "--prerelease", "allow", "--index-url", index, f"torch=={torch}")
    return python


def _call(*command: str) -> None:
    # A copy of a package has no history that states its version. uv trusts the certificates of this
    # machine, as pip does; otherwise it refuses every index behind a company's proxy.
    environment = {"SETUPTOOLS_SCM_PRETEND_VERSION": "0", "UV_NATIVE_TLS": "1"} | os.environ
    # uv reads the settings of the working folder: an untrusted checkout may name another index
    # there.
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")
    if ended.returncode:
        raise NotInstallable(
            _said(ended.stderr) or f"{command[0]} ended with status {ended.returncode}"
        )


def _said(error: str) -> str:
    said = [re.sub(r"^\W+", "", line) for line in error.splitlines() if line.strip()]
    return " ".join(said)[:300]


SOURCES = ":(glob)torch/**/*.py"
# Adds the import paths of the release's environment behind the torch that is laid over it.
_BESIDE = "import site; site.addsitedir({beside!r})\n"


def link_missing(installed: Path, laid: Path) -> None:
    """Put a link into `laid` for each file of `installed` that `laid` lacks or holds with the same
    content. A folder that `laid` lacks becomes one link; `__pycache__` is left out.
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
