"""Answers about one compile: its facts, its machine code, the stage at which it fails.

For other modules, it also loads the workload of a request, and describes the environment on which
figures depend.
"""

from __future__ import annotations

import os
import platform
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import torch
import torch._inductor.config as inductor_config
import torch._logging._internal as torch_logging
from torch._dynamo.utils import counters

from patchgate.probe.compile import sentinel
from patchgate.probe.compile.capture import Build, capture, no_caches, workload_compiler
from patchgate.probe.compile.compiler_facts import Captured, graph_facts
from patchgate.probe.compile.generated_code import Kernel, code_facts, read_wrapper, without_places
from patchgate.probe.compile.kernel_resources import machine_code, resource_facts
from patchgate.probe.compile.public_model import model_builder
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.patch.coverage import covering
from patchgate.probe.patch.effects import value_text
from patchgate.probe.patch.load import built_outside, run_file
from patchgate.probe.patch.snapshot import config_values
from patchgate.probe.patch.stubs import uses
from patchgate.probe.protocol import (
    Compile,
    Facts,
    FailingStage,
    FindStage,
    Kernels,
    Observe,
    Observed,
    OptionFacts,
    Patched,
    ReadCode,
    Request,
    Sentinel,
    Stage,
)
from patchgate.probe.simulate.device_context import device_context, device_name, generates_triton
from patchgate.probe.simulate.needs_device import missing_answer

# Options of Inductor that affect fusion and stored values; they are shown with every figure.
_SHOWN_OPTIONS = (
    "realize_reads_threshold",
    "realize_opcount_threshold",
    "realize_acc_reads_threshold",
    "max_fusion_size",
    "max_autotune",
    "coordinate_descent_tuning",
    "triton.cudagraphs",
)


def environment() -> dict[str, str]:
    """Return the versions and options on which the figures of this process depend."""
    try:
        import triton

        triton_version = triton.__version__
    except ImportError:
        triton_version = "none"
    options = inductor_config.get_config_copy()
    return {
        "torch": torch.__version__,
        "torch_git": str(torch.version.git_version),
        "triton": triton_version,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cuda": str(torch.version.cuda),
        "config": " ".join(f"{name}={options.get(name)}" for name in _SHOWN_OPTIONS),
    }


def load_build(request: Request) -> Build:
    """Return the `build` function of a request's workload."""
    build: Build = _load_workload(request).build
    return build


def _load_workload(request: Request) -> Any:
    """Load the module of a request's workload. Its `build` runs outside the scope of a patch."""
    if request["workload"] == "sentinel":
        return sentinel
    if "model" in request:
        workload: Any = SimpleNamespace(build=model_builder(request["model"]))
    else:
        workload = run_file(request["workload_path"], "model_module")
    workload.build = built_outside()(workload.build)
    return workload


def _captured(request: Request) -> Captured:
    return capture(load_build(request), **capture_options(request))


def capture_options(request: Request) -> dict[str, Any]:
    """Return the arguments of `capture` that a request contains."""
    names = ("profile", "dynamic", "dynamic_dim", "training", "mode", "reads")
    named = {name: request[name] for name in names if name in request}
    return {"dtype": getattr(torch, request["dtype"]), **named}


def observe(request: Observe, stage: Stage) -> Observed:
    """Return the facts of one workload on one device, with or without the patch.

    Raises RuntimeError if no graph reached Inductor.
    """
    compile_before(request, stage)
    apply_patch(request, stage)
    options = _options(request)
    stage("compile")
    profile = request["profile"]
    workload = _load_workload(request)
    triton = generates_triton(profile)
    try:
        with covering(request) as coverage:
            captured = capture(workload.build, **capture_options(request))
            # The facts are read before `workload.facts` runs, because Inductor's counters would
            # count its compiles too.
            facts = graph_facts(captured, triton=triton) if captured.lowered else {}
            if hasattr(workload, "facts"):  # a workload may add facts that no compile shows
                facts |= workload.facts(profile["backend"], getattr(torch, request["dtype"]))
    except Exception as error:
        missing = missing_answer(error) if profile["kind"] == "simulated" else None
        if missing is None:
            raise
        unmeasured: Facts = {"compiles": {"unmeasured": missing}}
        return cast(Observed, {"facts": unmeasured, "environment": environment(), **coverage})
    if not captured.lowered:
        raise RuntimeError(_nothing_compiled())
    # Options that are still changed would apply to the next graph of the process.
    after = _options(request)
    facts |= {
        f"left.{name}": f"{old} -> {after[name]}"
        for name, old in options.items()
        if after.get(name, old) != old
    }
    if not request.get("patch"):
        facts |= code_facts(captured.code, triton=triton)
    if request.get("resources") and triton:
        stage("resources")
        with device_context(profile):
            facts |= resource_facts(_kernels(captured), profile)
    return {
        "facts": facts,
        "environment": environment() | {"device": device_name(profile)},
        "code": [*map(without_places, captured.code)],
        "stubbed": uses(),
        **coverage,
    }


def _nothing_compiled() -> str:
    breaks = "; ".join(reason.splitlines()[0] for reason in counters["graph_break"])
    why = f" ({breaks})" if breaks else ""
    return f"no graph reached Inductor: nothing was compiled, so nothing was counted{why}"


def _options(request: Observe) -> dict[str, str]:
    """Return the options of torch as texts, because a value may be changed in place. Empty
    without a patch, because only a patch could change options during a compile.
    """
    values = config_values() if request.get("patch") else {}
    return {name: value_text(value) for name, value in values.items()}


def observe_sentinel(request: Patched, stage: Stage) -> Sentinel:
    """Return the facts of the sentinel, a graph with known facts, and their expected values."""
    workload = {"workload": "sentinel", "workload_path": "", "dtype": "float32", "dynamic": False}
    observed = observe(cast(Observe, {**request, **workload}), stage)
    return {**observed, "expected": sentinel.expected_facts(request["profile"]), "confinement": {}}


def read_code(request: ReadCode, stage: Stage) -> OptionFacts:
    """Return the facts of code that another process has generated. The code is not run."""
    stage("read")
    triton = generates_triton({"backend": request["backend"]})
    return {"facts": code_facts(request["code"], triton=triton), "environment": environment()}


def compile_before(request: Observe, stage: Stage) -> None:
    """Compile the workload without the patch, if the request asks for it."""
    if request.get("late"):
        stage("compile before")
        _captured(request)
        # Only Dynamo forgets its compiled code; the rest of the compiler keeps its caches.
        torch._dynamo.reset_code_caches()


def build_kernels(request: Compile, stage: Stage) -> Kernels:
    """Return digests of the machine code of the workload's Triton kernels, by digests of their
    source. The code may come from Triton's own cache.
    """
    apply_patch(request, stage)
    stage("compile")
    captured = _captured(request)
    stage("kernels")
    with device_context(request["profile"]):
        return {"kernels": machine_code(_kernels(captured)), "environment": environment()}


def _kernels(captured: Captured) -> list[Kernel]:
    return [kernel for text in captured.code for kernel in read_wrapper(text).distinct]


# Backends of torch.compile. Each adds one stage to the one before: Dynamo, AOTAutograd,
# decompositions, lowering with code generation.
STAGES = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")


def find_failing_stage(request: FindStage, stage: Stage) -> FailingStage:
    """Find the first backend with which an `observe` of the same request fails, and leave a trace
    for tlparse.

    The answer is "build" if the workload could not be built. The last backend is not tried: it is
    the answer if all other backends succeed.
    """
    # From here on torch writes the structured trace that tlparse reads.
    with mock.patch.dict(os.environ, {torch_logging.TRACE_ENV_VAR: request["trace"]}):
        torch_logging.LOG_TRACE_HANDLER = None
        torch_logging._init_logs()
    apply_patch(request, stage)
    stage("ladder")
    options = {key: value for key, value in capture_options(request).items() if key != "mode"}
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
