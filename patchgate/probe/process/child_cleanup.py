"""Cleans up after a child: copies its files to the host, removes its folder and kills the processes
it started.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import suppress

from patchgate.probe.process.cpu_wait_clock import children_of
from patchgate.probe.process.sandbox import largest_file
from patchgate.probe.protocol import Request

#: Keys of a request that name files for the host: outputs, and a folder with a trace for tlparse.
NAMED = ("outputs", "trace")
# A patch may have removed the owner's permissions from folders.
_REMOVE = 'rm -rf "$0" || { chmod -R u+rwX "$0"; rm -rf "$0"; }'


def hand_over(folder: str, request: Request) -> str | None:
    """Copy the files made by a child to the places that the host named; return an error if one is
    not a regular file.
    """
    allowed = left = largest_file(request["limits"])
    for name in NAMED:
        made, wanted = f"{folder}/{name}", request.get(name)
        if not wanted:
            continue
        try:
            for opened, place in [(_opened(made), "")] if name == "outputs" else _below(made):
                with os.fdopen(opened, "rb") as file:
                    status, target = os.fstat(opened), f"{wanted}{place}"
                    left -= status.st_size
                    if not stat.S_ISREG(status.st_mode) or left < 0:
                        return f"`{name}` is no file of at most {allowed >> 20} MiB"
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    with open(target, "wb") as copy:
                        shutil.copyfileobj(file, copy)
        except FileNotFoundError:  # not every answer has outputs
            continue
        except OSError as error:
            return f"`{name}`: {error.strerror}"
    return None


def _opened(path: str, flags: int = 0, at: int | None = None) -> int:
    """Open a file, but no link, and without waiting for the other end of a pipe."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | flags, dir_fd=at)


def _below(folder: str) -> Iterator[tuple[int, str]]:
    """Each file below a folder, opened, and its relative place.

    No link is followed, even if one replaces the folder.
    """
    top = _opened(folder, os.O_DIRECTORY)
    try:
        for place, _, names, at in os.fwalk(".", dir_fd=top):
            for name in sorted(names):
                yield _opened(name, at=at), f"{place[1:]}/{name}"
    finally:
        os.close(top)


def remove_folder(folder: str) -> subprocess.Popen[bytes]:
    """Start a process that removes a folder, which a patch may have filled with millions of files
    or nested too deep for Python.
    """
    return subprocess.Popen(["/bin/sh", "-c", _REMOVE, folder], stderr=subprocess.DEVNULL)


def kill_children(known: set[int]) -> None:
    """Kill every child of this process except those in `known`, and the orphaned descendants that
    become its children meanwhile.
    """
    for _ in range(100):
        orphans = set(children_of(os.getpid())) - known
        if not orphans:
            return
        for pid in orphans:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
