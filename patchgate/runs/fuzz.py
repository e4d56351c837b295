"""Rounds of random programs: one with a patch is a run of the gate, one of torch alone is not."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from patchgate.model.errors import UsageError
from patchgate.model.results import Progress
from patchgate.model.serialization import Answer, failure_of
from patchgate.runner.client import runner_of
from patchgate.runner.run_settings import Run
from patchgate.runner.start_server import Servers
from patchgate.runs.gate import JudgedRun, PlannedRun, judge_runs

# The most seconds of a round: its programs are compiled together, and again by halves.
_SECONDS = 600.0
# A name of no object: it decides which programs are made, and that all are compiled to code.
_ANY = "torch"


def judged_round(planned: PlannedRun, workers: int, servers: Servers, failed: Any) -> JudgedRun:
    """Judge one round of a patch. Nothing is shown while it lasts."""
    (judged,) = judge_runs(
        [planned],
        folder=Path(planned.run.folder),
        workers=workers,
        progress=lambda *_: nullcontext(Progress()),
        ended=lambda *_: None,
        failed=failed,
        servers=servers,
    )
    return judged


def round_of_torch(run: Run, torch: str, servers: Servers) -> Mapping[str, Any]:
    """Compile the programs of the run's seed with torch alone, and compare them with eager mode.

    Raises UsageError if the programs end the process or the time limit.
    """
    profile = run.profile("cpu")
    ask = partial(runner_of(run, servers).ask, torch, profile=profile)
    making = {"names": [_ANY], "kernels": [_ANY], "mentions": [], "seed": run.seed}
    making |= {kind: [] for kind in ("passes", "joint", "compiler", "training", "keys", "offers")}
    again: dict[str, Any] = {"as_patched": True, "simulated": None, "offers": []}
    with TemporaryDirectory() as folder:
        made, compiled = (str(Path(folder, name)) for name in ("made", "compiled"))
        operators = partial(ask, "operators", _SECONDS, patch=None)
        answers: list[Answer] = [operators(outputs=made, **making)]
        answers.append(operators(unpatched=made, outputs=compiled, **again))
        answers.append(ask("differ samples", unpatched=made, patched=compiled))
        for answer in answers:
            if failure := failure_of(answer):
                raise UsageError(
                    "a round that did not end",
                    where=f"--seed {run.seed}, torch {torch}",
                    got=failure.text,
                    next="another --seed",
                )
        metrics: Mapping[str, Any] = answers[-1]["metrics"]
    return metrics
