"""Carries out a run: pytest over the suite, in a process of its own, with the verdicts left in the run's folder.

Decides pytest's options and what its end means, ours included. Refuses to judge or to show results.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from patchgate.checks.codes import verdict_of
from patchgate.model.paths import SUITE
from patchgate.model.records import Kind, Verdict
from patchgate.runner.run import VERDICTS, Run, load_verdicts, save_run, save_verdicts

_NOTHING_COLLECTED = 5
_PR_SET_PDEATHSIG = 1
_PATIENCE = 20.0
_JUDGED = (0, 1, _NOTHING_COLLECTED)
# Ours alone: neither the caller's pytest options nor the settings of the project they stand in.
_INI = "[pytest]\naddopts = --import-mode=importlib -p no:cacheprovider -p no:benchmark\n"


def launch(run: Run, *, workers: int, quiet: bool) -> list[Verdict]:
    """Run every cell and return all verdicts; a pytest that broke becomes a verdict too."""
    folder = Path(run.folder)
    shutil.rmtree(folder, ignore_errors=True)
    path = save_run(run)
    (folder / "pytest.ini").write_text(_INI, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", str(SUITE), "-c", str(folder / "pytest.ini")]
    command += ["--rootdir", str(SUITE), "--patchgate-run", str(path)]
    command += ["-n", str(workers), "--dist", "loadgroup", "-q", "--tb=no", "--no-header", "--no-summary"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    process = subprocess.Popen(
        command,
        env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        # Ctrl-C is for us: its workers would all be interrupted at once, and leave what they had open.
        start_new_session=True,
        preexec_fn=_end_with_us,
    )
    try:
        said, _ = process.communicate()
    except BaseException:
        _interrupt(process)
        (folder / VERDICTS).unlink(missing_ok=True)  # a part of a run is no run: nobody may take it for one
        raise
    verdicts = load_verdicts(folder) if (folder / VERDICTS).is_file() else []
    if process.returncode not in _JUDGED or not (folder / VERDICTS).is_file():
        verdicts.append(_broken(process.returncode, (said or "").strip()))
        save_verdicts(folder, verdicts)
    return verdicts


def _interrupt(process: subprocess.Popen[str]) -> None:
    """Let pytest end its workers and probes and take its folders away; for as long as anybody waits for that."""
    print("interrupted: probes are being ended; once more ends at once", file=sys.stderr, flush=True)
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=_PATIENCE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.communicate()


def _end_with_us() -> None:
    """A sweep that is killed must not leave a pytest behind that writes into the next one's folder."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _broken(status: int, output: str) -> Verdict:
    last = output.splitlines()[-1] if output else "see its output above"
    expected = "pytest to end with a verdict for each cell"
    return verdict_of("machine", "PG904", Kind.INFRA, "", "pytest", expected, f"it ended with status {status}: {last}")
