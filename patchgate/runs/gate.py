"""Carries out one run: pytest over every check, in a process of its own, with the verdicts left in the run's folder."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from patchgate.checks.machine import judge_broken
from patchgate.model.paths import SUITE
from patchgate.model.records import Verdict
from patchgate.model.results import CellEvent
from patchgate.model.serialization import from_dict
from patchgate.runner.run import VERDICTS, Run, load_verdicts, save_run, save_verdicts

# Of pytest: all passed, some failed (a red verdict fails its test), nothing was collected.
_JUDGED = (0, 1, 5)
_PR_SET_PDEATHSIG = 1
# Seconds that pytest has to end its workers and probes, once it is interrupted.
_PATIENCE = 20.0
# Ours alone: neither the caller's pytest options nor the settings of the project they stand in.
_INI = "[pytest]\naddopts = --import-mode=importlib -p no:terminal -p no:cacheprovider -p no:benchmark\n"


def judge_patch(run: Run, *, workers: int, progress: Callable[[CellEvent], None] | None = None) -> list[Verdict]:
    """The verdicts of every check; a pytest that broke becomes a verdict too. `progress` is called in a thread."""
    command, events, reader = plan(run, workers), -1, None
    if progress:
        source, events = os.pipe()
        command += ["--patchgate-events", str(events)]
        reader = threading.Thread(target=_read_events, args=(source, progress), daemon=True)
    process = start(command, events)
    if reader:
        os.close(events)  # the other end is pytest's alone, so that its end is seen
        reader.start()
    output = outcome(process, run)
    if reader:
        reader.join()
    return verdicts_left(run, process.returncode, output)


def _read_events(source: int, progress: Callable[[CellEvent], None]) -> None:
    with os.fdopen(source, encoding="utf-8") as lines:
        for line in lines:
            progress(from_dict(CellEvent, json.loads(line), where="the events of pytest"))


def plan(run: Run, workers: int) -> list[str]:
    """Empty the run's folder, write what the run is into it, and return the command that carries it out."""
    folder = Path(run.folder)
    shutil.rmtree(folder, ignore_errors=True)
    path = save_run(run)
    settings = folder / "pytest.ini"
    settings.write_text(_INI, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", str(SUITE), "-c", str(settings), "--rootdir", str(SUITE)]
    command += ["--patchgate-run", str(path), "-n", str(workers), "--dist", "loadgroup"]
    return command


def start(command: list[str], events: int = -1) -> subprocess.Popen[str]:
    """Start pytest; it ends with this process. It writes what happens to the file descriptor `events`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.Popen(
        command,
        env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        pass_fds=() if events < 0 else (events,),
        # Ctrl-C is for us: its workers would all be interrupted at once, and leave what they had open.
        start_new_session=True,
        preexec_fn=_end_with_parent,
    )


def outcome(process: subprocess.Popen[str], run: Run) -> str:
    """Wait for the end and return what was printed."""
    try:
        printed, _ = process.communicate()
    except BaseException:
        _interrupt(process)
        (Path(run.folder) / VERDICTS).unlink(missing_ok=True)  # a part of a run must not be taken for one
        raise
    return (printed or "").strip()


def verdicts_left(run: Run, status: int, output: str) -> list[Verdict]:
    """What pytest left in the run's folder, with one verdict more where it broke."""
    folder = Path(run.folder)
    has_verdicts = (folder / VERDICTS).is_file()
    verdicts = load_verdicts(folder) if has_verdicts else []
    if status not in _JUDGED or not has_verdicts:
        last = output.splitlines()[-1] if output else "it printed nothing"
        actual = f"it ended with status {status}: {last}"
        verdicts.append(judge_broken("pytest", "pytest to end with a verdict for each check", actual))
        save_verdicts(folder, verdicts)
    return verdicts


def _interrupt(process: subprocess.Popen[str]) -> None:
    """Let pytest end its workers and probes and remove its folders; for as long as anybody waits for that."""
    print("interrupted: probes are being ended; once more ends at once", file=sys.stderr, flush=True)
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=_PATIENCE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.communicate()


def _end_with_parent() -> None:
    """A sweep that is killed must not leave a pytest behind that writes into the next one's folder."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
