"""Rounds of random programs. A round with a patch is a run of the gate; a round without a patch
compares torch with eager mode.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from patchgate.model.records import Cause
from patchgate.model.results import Progress
from patchgate.model.serialization import Answer, failure_of
from patchgate.runner.client import runner_of
from patchgate.runner.run_settings import Run
from patchgate.runner.start_server import Servers
from patchgate.runs.gate import JudgedRun, PlannedRun, judge_runs

# The maximum seconds of a round: its programs are compiled together, and again by halves.
_SECONDS = 600.0
# Not an object's name: it decides which programs are made, and that all are compiled to code.
_ANY = "torch"


def seeds(first: int, minutes: float) -> Iterator[int]:
    """Count up from the first seed until the time is over; at least one seed."""
    ends = time.monotonic() + 60 * minutes
    for number in itertools.count(first):
        yield number
        if time.monotonic() >= ends:
            return


class Unjudged(Exception):
    """A round of torch alone did not end, for a reason that does not lie in the compiled code."""


def judged_round(
    planned: PlannedRun,
    workers: int,
    servers: Servers | None,
    failed: Callable[[BaseException], None],
) -> JudgedRun:
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


def differences_of_torch(run: Run, torch: str, servers: Servers) -> tuple[int, list[str]]:
    """Compile the programs of the run's seed with torch alone. Return how many were compared, and a
    text for each program whose results differ from eager mode, or for compiled code that crashes.

    Raises Unjudged for any other failure.
    """
    ask = partial(runner_of(run, servers).ask, torch, profile=run.profile("cpu"))
    making = {"names": [_ANY], "kernels": [_ANY], "mentions": [], "seed": run.seed}
    making["random_calls"] = False
    making |= {kind: [] for kind in ("passes", "joint", "compiler", "training", "keys", "offers")}
    again: dict[str, Any] = {"as_patched": True, "simulated": None, "offers": []}
    with TemporaryDirectory() as folder:
        made, compiled = (str(Path(folder, name)) for name in ("made", "compiled"))
        operators = partial(ask, "operators", _SECONDS, patch=None)
        _require(operators(outputs=made, **making))
        answer = operators(unpatched=made, outputs=compiled, **again)
        failed = failure_of(answer)
        if failed and failed.cause is Cause.CRASHED:
            return 0, [failed.text]
        _require(answer)
        metrics = _require(ask("differ samples", unpatched=made, patched=compiled))["metrics"]
    return metrics["judged"], [f"{each['sample']}: {each['what']}" for each in metrics["differing"]]


def _require(answer: Answer) -> Answer:
    """The answer. Raises Unjudged if it is a failure, or if samples cannot be made."""
    failed = failure_of(answer)
    if failed or answer.get("unmeasured"):
        raise Unjudged(failed.text if failed else answer["unmeasured"])
    return answer
