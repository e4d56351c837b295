"""Cleans up after a child: copies its files to the host, removes its folder and kills the processes
it started.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator

from patchgate.probe.process.sandbox import largest_file
from patchgate.probe.protocol import Request

# Files that are removed within a second.
_MANY = 10_000
#: Keys of a request that name them: outputs, and a folder with a trace for tlparse.
NAMED = ("outputs", "trace")


def hand_over(folder: str, request: Request) -> str | None:
    """Copy the files that a child made to where the host wants them; why not, where they are
    none.
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
    """A file; of a link nothing is opened, and nothing waits for the other end of a pipe."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | flags, dir_fd=at)


def _below(folder: str) -> Iterator[tuple[int, str]]:
    """Each file below a folder, opened, and its place in it.

    No link is followed, not even in place of the folder.
    """
    top = _opened(folder, os.O_DIRECTORY)
    try:
        for place, _, names, at in os.fwalk(".", dir_fd=top):
            for name in sorted(names):
                yield _opened(name, at=at), f"{place[1:]}/{name}"
    finally:
        os.close(top)


def remove_folder(folder: str) -> subprocess.Popen[bytes] | None:
    """Remove a folder that a patch has filled: too deep for Python, or closed to its owner.

    Of very many files a process is left with it, which is returned: whoever removes them one by one
    does nothing else.
    """
    if _has_many_files(folder):
        script = 'chmod -R u+rwX "$0"; rm -rf "$0"'
        return subprocess.Popen(["/bin/sh", "-c", script, folder], stderr=subprocess.DEVNULL)
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        subprocess.run(["chmod", "-R", "u+rwX", folder], stderr=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", folder], stderr=subprocess.DEVNULL)
    return None


def _has_many_files(folder: str) -> bool:
    folders, files = [folder], 0
    while folders and files <= _MANY:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                files += 1
                if files > _MANY:
                    break
                folders += [entry.path] if entry.is_dir(follow_symlinks=False) else []
    return files > _MANY


def kill_children(known: set[int]) -> None:
    """End every child of this process but the `known`, and what becomes its child by that."""
    for _ in range(100):
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as listed:
            orphans = {int(pid) for pid in listed.read().split()} - known
        if not orphans:
            return
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
