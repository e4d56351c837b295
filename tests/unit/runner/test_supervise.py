"""Nothing that a supervised command starts outlives its owner, however that ends, and neither does their folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patchgate.runner.supervise import Supervisor

# It leaves a child in a session of its own, and one more without its environment; then waits.
_LEAVES = "setsid sleep {0} & env -i setsid sleep {0} & touch $TMPDIR/file; echo said; "


@pytest.fixture
def supervised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    started = Supervisor()
    yield started
    started.close()


def run(supervisor: Supervisor, script: str) -> tuple[int, str]:
    with tempfile.TemporaryFile() as output:
        status = supervisor.run(["sh", "-c", script], dict(os.environ), output.fileno())
        output.seek(0)
        return status, output.read().decode()


def sleepers(seconds: str) -> list[str]:
    listed = subprocess.run(["ps", "-eo", "stat,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if f"sleep {seconds}" in line and not line.startswith("Z")]


def comes_true(holds: Callable[[], bool]) -> bool:
    return any(holds() or time.sleep(0.05) for _ in range(400))


@pytest.fixture
def unique() -> str:
    """A number of seconds that no other test sleeps."""
    return f"3{os.getpid()}.{time.monotonic_ns() % 10**6}"


def test_a_command_says_what_it_has_to_say_and_what_it_leaves_is_ended(supervised, unique):
    assert run(supervised, _LEAVES.format(unique) + "exit 3") == (3, "said\n")
    assert sleepers(unique) == []
    assert run(supervised, "kill -9 $$") == (-signal.SIGKILL, "")


def test_a_descriptor_is_passed_on_as_the_last_argument(supervised):
    source, target = os.pipe()
    with os.fdopen(source) as reading, tempfile.TemporaryFile() as output:
        supervised.run(["sh", "-c", 'echo hello >&"$1"', "sh"], dict(os.environ), output.fileno(), [target])
        os.close(target)
        assert reading.read() == "hello\n"


def test_what_the_owner_has_started_goes_on_after_a_command_whose_files_are_gone(supervised, unique):
    with subprocess.Popen(["sleep", unique], env=os.environ | {"TMPDIR": str(supervised.folder)}) as own:
        run(supervised, "touch $TMPDIR/file")
        assert (own.poll(), list(supervised.folder.iterdir())) == (None, [])
        supervised.close()
        assert comes_true(lambda: own.poll() == -signal.SIGKILL)


def test_the_folder_goes_also_where_rights_were_taken_away(supervised):
    run(supervised, "mkdir -p $TMPDIR/a/b; touch $TMPDIR/a/b/c; chmod 0 $TMPDIR/a/b")
    supervised.close()
    assert not supervised.folder.exists()


_OWNER = """
import os, sys, tempfile
from patchgate.runner.supervise import supervisor
print(supervisor().folder, supervisor()._process.pid, flush=True)
with tempfile.TemporaryFile() as output:
    supervisor().run(["sh", "-c", sys.argv[1]], dict(os.environ), output.fileno())
"""


@pytest.mark.parametrize(
    ("whom", "number"),
    [("owner", signal.SIGKILL), ("owner", signal.SIGTERM), ("owner", signal.SIGINT), ("between", signal.SIGKILL)],
)
def test_nothing_outlives_a_killed_owner_or_a_killed_process_between(tmp_path, unique, number, whom):
    # Without the process between, processes are known by the folder's name in their environment.
    leaves = _LEAVES if whom == "owner" else _LEAVES.replace("env -i ", "")
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER, leaves.format(unique) + f"sleep {unique}"],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # As in a terminal: whatever a shell starts in the background ignores it, and hands that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as owner:
        assert owner.stdout
        folder, between = owner.stdout.readline().split()
        try:
            assert comes_true(lambda: Path(folder, "command", "file").exists())
            os.kill(owner.pid if whom == "owner" else int(between), number)
            owner.wait(60)
        finally:
            owner.kill()  # or one that does not end would be waited for without an end
    assert comes_true(lambda: not sleepers(unique) and not Path(folder).exists())
