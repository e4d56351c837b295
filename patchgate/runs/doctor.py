"""Checks the machine for everything that a gate needs: Python, a compiler, the sandbox, torch, disk
and GPUs.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from patchgate.inputs.project import Project
from patchgate.inputs.torch_range import default_releases
from patchgate.model.paths import PACKAGE, display_path, user_cache
from patchgate.runner.torch_environments import cached_home

# Bytes of one environment of torch, and of a run's results and caches.
_TORCH, _RESULTS = 5 << 30, 1 << 30
# This program runs in a process of its own, because it forks to try what the kernel allows. It
# imports nothing from the working folder.
_SANDBOX = """
import sys
sys.path.insert(0, sys.argv[2])
from patchgate.probe.process.sandbox import strongest_sandbox
print(", ".join(strongest_sandbox(sys.argv[1], "", gpu=False).missing()))
"""
# Seconds for a command to answer.
_WAIT = 120
_GPUS = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")


class Finding(NamedTuple):
    """One thing that a gate uses, and its state."""

    name: str
    found: str
    fix: str = ""  #: how to mend it, if something is missing or could be better
    is_missing: bool = False  #: a gate cannot do its work without it


def examine(project: Project, results: Path) -> Iterator[Finding]:
    """Examine each thing that a gate of the project uses, and yield what was found."""
    yield _python()
    yield _compiler()
    yield _sandbox()
    releases = default_releases(project)
    homes = {torch: cached_home(torch, project.requires) for torch in releases}
    absent = [torch for torch, home in homes.items() if not (home / "complete").is_file()]
    for torch, home in homes.items():
        later = "not installed; the first gate does that"
        yield Finding(f"torch {torch}", later if torch in absent else display_path(home))
    cache = user_cache("environments")
    yield _disk("disk for torch", cache, _TORCH * len(absent) + _RESULTS)
    yield _disk("disk for results", results, _RESULTS)
    yield _gpus()


def _python() -> Finding:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    fits = (3, 10) <= sys.version_info[:2] <= (3, 13)
    fits = fits and (platform.system(), platform.machine()) == ("Linux", "x86_64")
    fix = "use Python 3.10 to 3.13 on Linux, x86-64; `patchgate lint` works elsewhere too"
    return Finding("Python", found, "" if fits else fix, not fits)


def _compiler() -> Finding:
    """The compiler that Inductor calls for code on the CPU."""
    name = os.environ.get("CXX", "g++")
    command = [*shlex.split(name), "--version"]
    if not shutil.which(command[0]):
        fix = "apt-get install g++, or set CXX to another C++ compiler"
        return Finding("C++ compiler", f"no {name}", fix, True)
    return Finding("C++ compiler", _output(command).partition("\n")[0])


def _sandbox() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-I", "-c", _SANDBOX, folder, str(PACKAGE.parent)]
        missing = _output(command).strip()
    fix = "SECURITY.md says what each part keeps a patch from; judge your own patches only"
    return (
        Finding("sandbox", f"without {missing}", fix) if missing else Finding("sandbox", "complete")
    )


def _disk(name: str, folder: Path, needed: int) -> Finding:
    place = next(each for each in (folder.resolve(), *folder.resolve().parents) if each.exists())
    free = shutil.disk_usage(place).free
    found = f"{free >> 30} GiB free at {display_path(place)}, {needed >> 30} GiB needed"
    fix = f"free {(needed - free >> 30) + 1} GiB there; XDG_CACHE_HOME moves what torch needs"
    return Finding(name, found, fix if free < needed else "", free < needed)


def _gpus() -> Finding:
    if not shutil.which(_GPUS[0]):
        return Finding("GPU", "none: kernels are judged on a simulated GPU, times are not")
    return Finding("GPU", "; ".join(_output([*_GPUS]).split("\n")).rstrip("; "))


def _output(command: list[str]) -> str:
    """The output of a command, or the last line of its error."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_WAIT)
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not end within {_WAIT} s"
    return done.stdout if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2]
