"""Keeps the temporary files of a command in one folder, which is removed however the command ends.

A helper process waits for the command to end, even by SIGKILL. Then it kills each process whose
environment names the folder, and removes the folder. This file is its program.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

# Seconds after which a process that a kill does not end is left alone: it waits for a disk.
_PATIENCE = 10.0
# Seconds between two looks at the processes that are being killed.
_LOOK_SECONDS = 0.005
# The variable that names the folder for every process that the command starts.
_FOLDER = "TMPDIR"
# The folder of this process while it has one, otherwise empty.
_folders: list[Path] = []


@contextlib.contextmanager
def temporary_files_below() -> Iterator[None]:
    """Until the context ends, keep the temporary files of this process and its children in a
    folder; then remove it in any case.

    Raises OSError if there is no space for them.
    """
    if _folders:
        yield
        return
    # The name does not mention patchgate, so that a patch does not see that it is judged.
    folder = Path(tempfile.gettempdir(), f"run-{os.urandom(8).hex()}")
    # The helper starts before the folder exists, so that nothing is left if this process ends in
    # between.
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(folder)],
        stdin=subprocess.PIPE,  # closes when this process ends
        stdout=subprocess.DEVNULL,
        # Ctrl-C in a terminal is for this process, not for the helper.
        start_new_session=True,
    )
    try:
        os.mkdir(folder, 0o700)
        _folders.append(folder)
        with _temporary_folder(folder):
            yield
    finally:
        _folders.clear()
        _clean_now(process, folder)


@contextlib.contextmanager
def _temporary_folder(folder: Path) -> Iterator[None]:
    before = os.environ.get(_FOLDER), tempfile.tempdir
    os.environ[_FOLDER] = tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        os.environ.pop(_FOLDER)
        if before[0] is not None:
            os.environ[_FOLDER] = before[0]
        tempfile.tempdir = before[1]


def _clean_now(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Have the helper clean up; do it here if the helper was killed."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(2 * _PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if folder.exists():
        _clean(str(folder))


def _clean(folder: str) -> None:
    _kill_processes(folder)
    _remove(folder)


def _kill_processes(folder: str) -> None:
    """Kill each process whose environment names the folder."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        members = list(_members(folder.encode()))
        if not members:
            return
        for pid in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)


def _members(folder: bytes) -> Iterator[int]:
    own = os.getpid()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != own:
            with contextlib.suppress(OSError):  # it has ended, or is not ours
                if folder in Path("/proc", name, "environ").read_bytes():
                    yield int(name)


def _remove(folder: str) -> None:
    """Remove a folder, even if a patch has removed permissions."""
    for place, folders, _ in os.walk(folder):
        for each in folders:
            path = os.path.join(place, each)
            if not os.path.islink(path):
                with contextlib.suppress(OSError):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def main(folder: str) -> None:
    """The helper process: clean up once standard input closes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # only the command's end counts
    sys.stdin.buffer.read()
    _clean(folder)


if __name__ == "__main__":
    main(sys.argv[1])
