"""Carries out one run: pytest over every check, in a process of its own, with the verdicts left in the run's folder."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import all_checks
from patchgate.checks.framework.instances import cell_name, instances_of, stopped_verdicts
from patchgate.checks.machine import judge_broken, judge_environment
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import workloads_with
from patchgate.model.errors import UsageError
from patchgate.model.files import reserve_space
from patchgate.model.paths import SUITE
from patchgate.model.records import Verdict
from patchgate.model.results import CellEvent
from patchgate.model.serialization import from_dict
from patchgate.runner.client import Runner
from patchgate.runner.resume_journal import Journal, save_results
from patchgate.runner.run_settings import VERDICTS, Run, load_verdicts, save_run, save_verdicts
from patchgate.runner.start_server import connect_through, shared_servers
from patchgate.runner.supervise import supervisor

# Of pytest: all passed, some failed (a red verdict fails its test), nothing was collected.
_JUDGED = (0, 1, 5)
# Ours alone: neither the caller's pytest options nor the settings of the project they stand in.
_INI = "[pytest]\naddopts = --import-mode=importlib -p no:terminal -p no:cacheprovider -p no:benchmark\n"


def judge_patch(
    run: Run,
    *,
    workers: int,
    progress: Callable[[CellEvent], None] = lambda event: None,
    servers: Mapping[str, Any] | None = None,
) -> list[Verdict]:
    """The verdicts of every check; a pytest that broke becomes a verdict too. `progress` is called in a thread.

    Whatever ends it early, what was judged is left in the run's folder, with a verdict for each cell that was not.
    `servers` is what `shared_servers` of the run's environments gives, where they outlast the run.
    """
    try:
        # They start first, since to import torch takes longest.
        with nullcontext(servers) if servers else shared_servers(run.rows) as shared:
            command = plan(run, workers)
            with tempfile.TemporaryFile() as output:
                status = _carry_out(command, output.fileno(), progress, shared)
                output.seek(0)
                return verdicts_left(run, status, output.read().decode(errors="replace").strip())
    except UsageError:
        raise
    except BaseException as error:
        leave_partial(run, ended_by(error))
        raise


def plan(run: Run, workers: int) -> list[str]:
    """Empty the run's folder, write what the run is into it, and return the command that carries it out."""
    journal = Journal(run)
    red = tuple(sorted(cell.ended for cell in journal.cells() if cell.red))
    journal.put_aside()
    folder, path = Path(run.folder), save_run(replace(run, sooner=red))
    reserve_space(folder)
    settings = folder / "pytest.ini"
    settings.write_text(_INI, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", str(SUITE), "-c", str(settings), "--rootdir", str(SUITE)]
    # Every worker would load the plugins that happen to be installed, and compile our own modules for their asserts.
    command += ["--assert=plain", "-p", "xdist.plugin", "-p", "patchgate.runs.plugin"]
    command += ["--patchgate-run", str(path), "-n", str(workers), "--dist", "load", "--maxschedchunk", "1"]
    # Where one is killed, pytest-xdist would give its cells to another, and wait for ever for what it loses count of.
    command += ["--max-worker-restart", "0"]
    return command


def _carry_out(
    command: list[str], output: int, progress: Callable[[CellEvent], None], servers: Mapping[str, Any]
) -> int:
    """The status of pytest, which reads from one pipe how to ask the servers, and writes events to another."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    source, events = os.pipe()
    asked, ask = os.pipe()
    with os.fdopen(ask, "w", encoding="utf-8") as pipe:
        json.dump(servers, pipe)
    reader = threading.Thread(target=_read_events, args=(source, progress), daemon=True)
    reader.start()
    try:
        return supervisor().run([*command, "--patchgate-pipes"], environment, output, [asked, events])
    finally:
        os.close(asked)
        os.close(events)  # the last one, so that its end is seen
        reader.join()


def _read_events(source: int, progress: Callable[[CellEvent], None]) -> None:
    with os.fdopen(source, encoding="utf-8") as lines:
        for line in lines:
            progress(from_dict(CellEvent, json.loads(line), where="the events of pytest"))


def verdicts_left(run: Run, status: int, output: str) -> list[Verdict]:
    """What pytest left in the run's folder, with one verdict more where it broke."""
    folder = Path(run.folder)
    if status in _JUDGED and (folder / VERDICTS).is_file():
        return load_verdicts(folder)
    last = output.splitlines()[-1] if output else "it printed nothing"
    actual = f"it ended with status {status}: {last}"
    if not (folder / VERDICTS).is_file():
        leave_partial(run, f"pytest {actual.removeprefix('it ')}")
    verdicts = load_verdicts(folder)
    verdicts.append(judge_broken("pytest", "pytest to end with a verdict for each check", actual))
    save_verdicts(folder, verdicts)
    return verdicts


def leave_partial(run: Run, reason: str) -> list[Verdict]:
    """The verdicts of a run that did not end: those of the cells that it judged, and one for each other cell."""
    cells = Journal(run).cells()
    patch = load_patch(Path(run.patch))
    runner = Runner(run=run, connect=connect_through({}), logs={})  # of no server
    context = CheckContext(run, patch, workloads_with(Path(run.patch), run.project), runner)
    planned = {cell_name(check, at) for check in all_checks().values() for at in instances_of(check, context)}
    stopped = stopped_verdicts(context, planned.difference(cell.ended for cell in cells), reason)
    missing = [judge_environment(torch, problem) for torch, problem in run.problems.items()]
    save_results(run, cells, [*stopped, *missing])
    return load_verdicts(Path(run.folder))


def ended_by(error: BaseException) -> str:
    """The reason, for a report: a signal, or what went wrong."""
    what = " ".join(str(error).split())[:200]
    if isinstance(error, KeyboardInterrupt):
        return f"the run was ended by {what or 'SIGINT'}"
    if isinstance(error, OSError):
        return f"the machine failed: {what}"
    return f"patchgate failed: {type(error).__name__}: {what}"
