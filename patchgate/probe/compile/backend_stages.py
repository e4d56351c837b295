"""The first rung of the compiler's ladder on which a workload fails: eager, aot_eager, decomposed, inductor.

Decides the rungs and what each adds. Refuses to know why it is asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
import torch._logging._internal as torch_logging

from patchgate.probe.compile.capture import Build, compiling, no_caches, standing_in
from patchgate.probe.simulate.fake_device import Profile

# Each adds one stage to the one before: Dynamo, AOTAutograd, decompositions, lowering and code.
RUNGS = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")


def climb(try_rung: Callable[[str], Any]) -> str:
    """The name of the first rung that fails; the last one, which is not tried, when all others hold."""
    for rung in RUNGS[:-1]:
        try:
            try_rung(rung)
        except Exception:
            return rung
    return RUNGS[-1]


def first_failing(build: Build, *, dtype: torch.dtype, profile: Profile, **how: Any) -> str:
    """Where a workload that `capture` could not compile fails first."""

    def try_rung(rung: str) -> None:
        torch._dynamo.reset()
        with no_caches(), standing_in(profile), compiling(build, dtype=dtype, profile=profile, **how) as run:
            run(rung)

    return climb(try_rung)


def trace_to(folder: str) -> None:
    """From here on torch writes the structured trace that tlparse reads, into `folder`."""
    with mock.patch.dict(os.environ, {torch_logging.TRACE_ENV_VAR: folder}):
        torch_logging.LOG_TRACE_HANDLER = None
        torch_logging._init_logs()
