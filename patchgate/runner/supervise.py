"""Runs commands below a supervising process, so that none of them outlives patchgate, even where it is killed.

That process has one temporary folder for all of them, and one in it for each. When its socket to us closes, it ends
every process below it, and each whose environment names the folder, then removes it. It runs this file by itself.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

# From linux/prctl.h.
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG = 1
# Of a command and its environment.
_MESSAGE_BYTES = 1 << 20
# Seconds after which a process that cannot be killed (it waits for a disk) is left alone.
_PATIENCE = 10.0
_STOPPED = b"stopped"


class Supervisor:
    """The process between, seen from ours. It is started at once, and ends with `close` or with us."""

    def __init__(self) -> None:
        # Without our name: a patch must not see that it is judged.
        self.folder = Path(tempfile.gettempdir(), f"run-{os.urandom(8).hex()}")
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._socket, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MESSAGE_BYTES)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(self.folder)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                # Ctrl-C in a terminal is for us.
                start_new_session=True,
            )
        self._socket.recv(1)  # the folder is there

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], output: int, passed: Sequence[int] = ()
    ) -> int:
        """The status with which a command ends, once all that it started has ended too; it writes to `output`.

        The numbers of the file descriptors that are `passed` to it are its last arguments. What interrupts us ends it.
        """
        message = json.dumps({"command": list(command), "environment": dict(environment)}).encode()
        socket.send_fds(self._socket, [message], [output, *passed])
        try:
            return int(self._reply() or -signal.SIGKILL)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the command that runs, and all that it started."""
        with contextlib.suppress(OSError):
            self._socket.send(_STOPPED)
            while self._reply() not in (b"", _STOPPED):
                pass

    def close(self) -> None:
        """End everything and remove the folder."""
        self._socket.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._take_over()

    def _reply(self) -> bytes:
        """What the process says next; nothing where somebody has killed it, and then its work is ours."""
        reply = self._socket.recv(64)
        if not reply:
            self._take_over()
        return reply

    def _take_over(self) -> None:
        if self.folder.exists():
            _end_processes(str(self.folder), of=None)
            _remove(str(self.folder))


@functools.cache
def supervisor() -> Supervisor:
    """The one of this process; it ends with it."""
    started = Supervisor()
    atexit.register(started.close)
    return started


@contextlib.contextmanager
def temporary_files_below() -> Iterator[None]:
    """Within it this process, and what it starts, has its temporary files where they are removed for certain."""
    before = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = str(supervisor().folder)
    try:
        yield
    finally:
        os.environ.pop("TMPDIR")
        if before[0] is not None:
            os.environ["TMPDIR"] = before[0]
        tempfile.tempdir = before[1]


# -- in the process between


def main(folder: str) -> None:
    """Run what comes over standard input, a socket, until that closes."""
    owner = socket.socket(fileno=0)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # the owner decides; a command has the defaults again
    os.mkdir(folder, 0o700)
    with contextlib.suppress(OSError):  # the owner is gone
        owner.send(b".")
        _serve(owner, folder)
    _end_processes(folder, of=os.getpid())
    _remove(folder)


def _serve(owner: socket.socket, folder: str) -> None:
    while True:
        message, descriptors, _, _ = socket.recv_fds(owner, _MESSAGE_BYTES, 8)
        if not message:
            return
        # Of its own: what the owner has started meanwhile names the folder around it, and goes on.
        own = f"{folder}/command"
        reply = _STOPPED if message == _STOPPED else _run(message, descriptors, owner, own)
        if reply:
            _end_processes(own, of=os.getpid())
            _remove(own)
            owner.send(reply)


def _run(message: bytes, descriptors: list[int], owner: socket.socket, folder: str) -> bytes:
    """The status of one command; nothing where the owner sends something meanwhile, or is gone."""
    request = json.loads(message)
    output, *passed = descriptors
    os.makedirs(folder, 0o700, exist_ok=True)
    process = subprocess.Popen(
        [*request["command"], *map(str, passed)],
        env=request["environment"] | {"TMPDIR": folder},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=passed,
        start_new_session=True,
        preexec_fn=_end_with_parent,
    )
    for descriptor in descriptors:
        os.close(descriptor)
    ended = os.pidfd_open(process.pid)
    ready, _, _ = select.select([ended, owner.fileno()], [], [])
    os.close(ended)
    return b"" if owner.fileno() in ready else str(process.wait()).encode()


def _end_with_parent() -> None:
    """Also where somebody kills the process between."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_processes(folder: str, *, of: int | None) -> None:
    """Kill each process whose environment names the folder, and the children `of` a process, which is this one.

    Orphans become children of it.
    """
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        with contextlib.suppress(ChildProcessError):
            while of and os.waitpid(-1, os.WNOHANG)[0]:
                pass
        members = list(_members(folder.encode(), of))
        if not members:
            return
        for pid in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _members(folder: bytes, parent: int | None) -> Iterator[int]:
    own = os.getpid()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == own:
            continue
        with contextlib.suppress(OSError):  # it has ended, or is not ours
            stat = Path("/proc", name, "stat").read_bytes()
            is_child = int(stat.rpartition(b")")[2].split()[1]) == parent
            if is_child or folder in Path("/proc", name, "environ").read_bytes():
                yield int(name)


def _remove(folder: str) -> None:
    """Remove a folder, also where a patch has taken rights away."""
    for place, folders, _ in os.walk(folder):
        for each in folders:
            path = os.path.join(place, each)
            if not os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
