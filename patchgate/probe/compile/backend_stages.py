"""The stage at which a workload fails: its build, or of the compiler eager, aot_eager,
decompositions or inductor.
"""

from __future__ import annotations

import os
from unittest import mock

import torch
import torch._logging._internal as torch_logging

from patchgate.probe.compile.capture import no_caches, workload_compiler
from patchgate.probe.compile.observe import capture_options, load_build
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.protocol import FailingStage, FindStage, Stage
from patchgate.probe.simulate.device_context import device_context

# Backends of torch.compile; each adds one stage: Dynamo, AOTAutograd, decompositions, lowering and
# code.
STAGES = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")


def find_failing_stage(request: FindStage, stage: Stage) -> FailingStage:
    """The first backend with which an `observe` of the same request fails; leaves a trace for
    tlparse.

    "build" where the workload could not even be made. The last backend is not tried: it is the
    answer when all others succeed.
    """
    _write_trace_to(request["trace"])
    apply_patch(request, stage)
    stage("ladder")
    options = capture_options(request)
    options.pop("mode", None)
    build = load_build(request)
    for backend in STAGES[:-1]:
        reached = "build"
        try:
            torch._dynamo.reset()
            with (
                no_caches(),
                device_context(request["profile"]),
                workload_compiler(build, **options) as run,
            ):
                reached = backend
                run(backend)
        except Exception:
            return {"stage": reached}
    return {"stage": STAGES[-1]}


def _write_trace_to(folder: str) -> None:
    """From here on torch writes the structured trace that tlparse reads into `folder`."""
    with mock.patch.dict(os.environ, {torch_logging.TRACE_ENV_VAR: folder}):
        torch_logging.LOG_TRACE_HANDLER = None
        torch_logging._init_logs()
