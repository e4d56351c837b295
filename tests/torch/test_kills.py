"""Gate, sweep and accept are killed thirty times: nothing recorded is lost, nothing is left, and
the verdicts stay.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchgate.model.policy import Kind
from patchgate.runner.run_settings import load_verdicts

# On each release it changes facts, which makes red verdicts, and something to accept.
PATCH = """from torch._inductor.scheduler import Scheduler

Scheduler.can_fuse = lambda self, *_, **__: False
"""
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
SECONDS = 2.0


class Killing:
    """One folder with a patch, in which a command is started again and again."""

    def __init__(self, folder: Path, torch: str, python: str) -> None:
        self.folder, self.row = folder, f"{torch}={python}"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        (folder / "mine.py").write_text(PATCH)
        (folder / "patchgate.toml").write_text('golden = "golden"\n')
        (folder / "golden").mkdir()
        self.environment = os.environ | {"TMPDIR": str(self.temporary)}
        for name in ("CI", "PYTEST_XDIST_WORKER", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
            self.environment.pop(name, None)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "patchgate", *words]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            # As in a terminal: a shell in the background would have them ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def end(self, *words: str) -> int:
        process = self.start(*words)
        process.communicate()
        return process.returncode

    def kill(self, number: signal.Signals, after: float, *words: str) -> int:
        """The exit status of a command that gets a signal, once nothing of it is left."""
        process = self.start(*words)
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        _, said = process.communicate()
        assert b"Traceback" not in said
        time.sleep(SECONDS)
        assert (self.processes(), list(self.temporary.iterdir())) == ([], [])
        return process.returncode

    def processes(self) -> list[str]:
        """The commands whose environment names our temporary folder."""
        found = []
        for path in Path("/proc").iterdir():
            try:
                if (
                    path.name.isdigit()
                    and f"TMPDIR={self.temporary}".encode() in (path / "environ").read_bytes()
                ):
                    found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                pass
        return found


JUDGED = (
    "--check",
    "kernels,graph,holders",
    "--workload",
    "residual_stack",
    "--device",
    "h200",
    "-n",
    "2",
)


def keys(folder: Path) -> set[tuple[str, str, str]]:
    """Return code, kind and subject of each verdict, without figures that move from run to run."""
    return {
        (verdict.code, verdict.kind.value, verdict.subject) for verdict in load_verdicts(folder)
    }


def judged_cells(folder: Path) -> set[str]:
    """The cells in the journals of runs that did not end."""
    lines = [
        line for path in folder.rglob("judged*.jsonl") for line in path.read_text().splitlines()[1:]
    ]
    return {json.loads(line)["name"] for line in lines if line.endswith("}")}


@pytest.fixture
def killing(torch: str, run: Any, tmp_path: Path) -> Killing:
    return Killing(tmp_path, torch, run.rows[torch])


def timed(run: Callable[[], int]) -> tuple[int, float]:
    began = time.monotonic()
    return run(), time.monotonic() - began


@pytest.mark.nightly
@pytest.mark.parametrize("command", ["gate", "sweep"])
@pytest.mark.parametrize("number", SIGNALS)
def test_a_killed_run_goes_on_where_it_was_and_ends_with_the_same_verdicts(
    killing: Killing, command: str, number: signal.Signals
) -> None:
    narrow = JUDGED if command == "gate" else (*JUDGED[2:],)
    words = (command, "mine.py", "--row", killing.row, "--folder", "out", *narrow)
    folder = killing.folder / "out"
    code = killing.end(*words)
    whole = keys(folder)
    shutil.rmtree(folder)
    # As the killed runs it finds again what was measured.
    _, seconds = timed(lambda: killing.end(*words))
    shutil.rmtree(folder)
    moments = random.Random(f"{command} {number}")
    before: set[str] = set()
    for _ in range(4 if command == "gate" else 3):
        status = killing.kill(number, moments.uniform(0.3, seconds), *words)
        if number is signal.SIGKILL and status == -number and command == "gate":
            if (folder / "verdicts.json").exists():  # written at once, when all was judged
                assert keys(folder) == whole
                status = code
        elif status == 4 and (folder / "verdicts.json").exists():
            # Or the signal came once all was judged.
            assert (
                Kind.STOPPED in {verdict.kind for verdict in load_verdicts(folder)}
                or keys(folder) == whole
            )
            assert (folder / "report.html").stat().st_size > 0
        if status != code:  # else it was too late to be killed
            assert judged_cells(folder) >= before
            before = judged_cells(folder)
        else:
            before = set()
    assert killing.end(*words) == code
    assert keys(folder) == whole


@pytest.mark.nightly
def test_a_killed_accept_goes_on_where_it_was_with_its_reason(killing: Killing) -> None:
    words = ("gate", "mine.py", "--row", killing.row, "--folder", "out", *JUDGED)
    killing.end(*words)
    accept = ("accept", "--folder", "out", "--reason", "fewer kernels", "--yes")
    golden = killing.folder / "golden"
    kept = killing.folder / "kept"
    shutil.copytree(golden, kept)
    code, seconds = timed(lambda: killing.end(*accept))
    whole = {path.name: path.read_text() for path in golden.iterdir()}
    assert (code, whole["HISTORY.md"].count("fewer kernels")) == (0, 1)
    assert len(whole) > 1
    moments = random.Random(7)
    for number in SIGNALS * 3:
        shutil.rmtree(golden)
        shutil.copytree(kept, golden)
        killing.kill(number, moments.uniform(seconds / 2, seconds), *accept)
        assert {path.name for path in golden.iterdir()} <= whole.keys()
        assert all(
            path.read_text() == whole[path.name]
            for path in golden.iterdir()
            if path.suffix == ".txt"
        )
        assert killing.end(*accept) == 0
        assert {path.name: path.read_text() for path in golden.iterdir()} == whole
