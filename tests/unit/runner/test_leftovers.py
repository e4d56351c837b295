"""Nothing that a command starts outlives it, however it ends, and neither do its temporary
files.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from patchgate.runner.leftovers import temporary_files_below


def sleepers(seconds: str) -> list[str]:
    listed = subprocess.run(
        ["ps", "-eo", "stat,args"], capture_output=True, text=True, check=True
    ).stdout
    return [
        line
        for line in listed.splitlines()
        if f"sleep {seconds}" in line and not line.startswith("Z")
    ]


def cleaner_of(folder: Path) -> int:
    listed = subprocess.run(
        ["ps", "-wweo", "pid,args"], capture_output=True, text=True, check=True
    ).stdout
    (line,) = [line for line in listed.splitlines() if line.endswith(f"leftovers.py {folder}")]
    return int(line.split()[0])


def comes_true(holds: Callable[[], bool]) -> bool:
    return any(holds() or time.sleep(0.05) for _ in range(400))


@pytest.fixture
def unique() -> str:
    """A number of seconds that no other test sleeps."""
    return f"3{os.getpid()}.{time.monotonic_ns() % 10**6}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder below which the folder of temporary files is made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_temporary_files_and_what_was_started_end_with_the_command(
    place: Path, unique: str
) -> None:
    before = os.environ.get("TMPDIR")
    with temporary_files_below():
        own = subprocess.Popen(["sh", "-c", f"mkdir $TMPDIR/a; setsid sleep {unique}"])
        assert comes_true(lambda: bool(sleepers(unique)))
        with temporary_files_below():  # of a step of the command
            made = Path(tempfile.mkdtemp())
        assert made.is_dir()
        assert [made.parent] == list(place.iterdir())
    own.wait(60)
    assert (sleepers(unique), list(place.iterdir())) == ([], [])
    assert (os.environ.get("TMPDIR"), tempfile.tempdir) == (before, str(place))


def test_the_folder_goes_also_where_rights_were_taken_away(place: Path) -> None:
    with temporary_files_below():
        subprocess.run(
            "mkdir -p $TMPDIR/a/b; touch $TMPDIR/a/b/c; chmod 0 $TMPDIR/a/b", shell=True, check=True
        )
    assert list(place.iterdir()) == []


def test_where_there_is_no_space_for_the_folder_it_is_the_machine_s_trouble(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(os, "mkdir", Mock(side_effect=full))
    with pytest.raises(OSError, match="No space left"), temporary_files_below():
        raise AssertionError
    assert list(place.iterdir()) == []


_OWNER = """
import subprocess, sys, tempfile
from patchgate.runner.leftovers import temporary_files_below
with temporary_files_below():
    print(tempfile.gettempdir(), flush=True)
    subprocess.run(["sh", "-c", sys.argv[1]], start_new_session=True)
"""
_LEAVES = "setsid sleep {0} & touch $TMPDIR/file; sleep {0}"


@pytest.mark.parametrize(
    ("whom", "number"),
    [
        ("command", signal.SIGKILL),
        ("command", signal.SIGTERM),
        ("command", signal.SIGINT),
        ("both", signal.SIGKILL),
    ],
)
def test_nothing_outlives_a_command_that_is_killed(
    tmp_path: Path, unique: str, whom: str, number: int
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, _LEAVES.format(unique)],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # As in a terminal: whatever a shell starts in the background ignores it, and hands that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as owner:
        assert owner.stdout
        folder = Path(owner.stdout.readline().strip())
        try:
            assert comes_true((folder / "file").exists)
            if whom == "both":  # what would have cleaned up is gone: the command does it as it ends
                os.kill(cleaner_of(folder), signal.SIGKILL)
                number = signal.SIGINT
            os.kill(owner.pid, number)
            owner.wait(60)
        finally:
            owner.kill()  # or one that does not end would be waited for without an end
    assert comes_true(lambda: not sleepers(unique) and not folder.exists())
