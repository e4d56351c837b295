"""What is left of a child: the files that it made for the host, its folder, and processes that it started."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess

from patchgate.probe.process.sandbox import largest_file
from patchgate.probe.protocol import Request

#: Keys of a request that name them: outputs, and a folder with a trace for tlparse.
NAMED = ("outputs", "trace")


def hand_over(folder: str, request: Request) -> str | None:
    """Copy the files that a child made to where the host wants them; why not, where they are none."""
    allowed = left = largest_file(request["limits"])
    for name in NAMED:
        made, wanted = f"{folder}/{name}", request.get(name)
        if not wanted:
            continue
        pairs = [(made, wanted)] if name == "outputs" else [(f"{made}/{i}", f"{wanted}/{i}") for i in _below(made)]
        for source, target in pairs:
            try:
                file = open(source, "rb", opener=_open_unlinked)  # noqa: SIM115 - what opening says is the answer
            except FileNotFoundError:  # not every answer has outputs
                continue
            except OSError as error:
                return f"`{name}`: {error.strerror}"
            with file:
                status = os.fstat(file.fileno())
                left -= status.st_size
                if not stat.S_ISREG(status.st_mode) or left < 0:
                    return f"`{name}` is no file of at most {allowed >> 20} MiB"
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as copy:
                    shutil.copyfileobj(file, copy)
    return None


def _open_unlinked(path: str, flags: int) -> int:
    """Of a link nothing is opened, and nothing waits for the other end of a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _below(folder: str) -> list[str]:
    found = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    return sorted(os.path.relpath(path, folder) for path in found)


def remove_folder(folder: str) -> None:
    """Remove a folder that a patch has filled: too deep for Python, or closed to its owner."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        subprocess.run(["chmod", "-R", "u+rwX", folder], stderr=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", folder], stderr=subprocess.DEVNULL)


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
