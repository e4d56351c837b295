"""The stage at which a workload fails: its build, or of the compiler eager, aot_eager,
decompositions or inductor.
"""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

import torch
import torch._logging._internal as torch_logging

from patchgate.probe.compile.capture import Build, no_caches, workload_compiler
from patchgate.probe.protocol import Profile
from patchgate.probe.simulate.device_context import device_context

# Backends of torch.compile; each adds one stage: Dynamo, AOTAutograd, decompositions, lowering and
# code.
STAGES = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")


def failing_stage(build: Build, *, dtype: torch.dtype, profile: Profile, **options: Any) -> str:
    """The first backend with which a workload that `capture` could not compile fails; `options` as
    there.

    "build" where it could not even be made. The last one is not tried: it is the answer when all
    others succeed.
    """
    for backend in STAGES[:-1]:
        stage = "build"
        try:
            torch._dynamo.reset()
            with (
                no_caches(),
                device_context(profile),
                workload_compiler(build, dtype=dtype, profile=profile, **options) as run,
            ):
                stage = backend
                run(backend)
        except Exception:
            return stage
    return STAGES[-1]


def write_trace_to(folder: str) -> None:
    """From here on torch writes the structured trace that tlparse reads into `folder`."""
    with mock.patch.dict(os.environ, {torch_logging.TRACE_ENV_VAR: folder}):
        torch_logging.LOG_TRACE_HANDLER = None
        torch_logging._init_logs()
