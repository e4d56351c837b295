"""Answers of one compile: its facts, those of a script of sizes, its machine code, the stage at
which it fails.

Also what other answers need of a request: its workload, and the environment that its figures depend
on.
"""

from __future__ import annotations

import platform
import types
from collections.abc import Callable
from typing import Any, cast

import torch
import torch._inductor.config as inductor_config
from torch._dynamo.utils import counters

from patchgate.probe.compile import sentinel, shapes
from patchgate.probe.compile.backend_stages import failing_stage, write_trace_to
from patchgate.probe.compile.capture import Build, Captured, capture
from patchgate.probe.compile.generated_code import Kernel, code_facts, read_wrapper
from patchgate.probe.compile.graph_facts import graph_facts
from patchgate.probe.compile.public_model import model_builder
from patchgate.probe.compile.resources import machine_code, resource_facts
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.patch.effects import value_text
from patchgate.probe.patch.line_coverage import tracing
from patchgate.probe.patch.line_events import LinesRun
from patchgate.probe.patch.load import run_file
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
    ReadCode,
    Request,
    ShapeFacts,
    Stage,
)
from patchgate.probe.simulate.device_context import device_context, device_name, generates_triton
from patchgate.probe.simulate.needs_device import missing_answer

# Inductor options that decide what is fused and stored; shown with every figure.
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
    """Versions and options that the figures of this process depend on."""
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


def capture_options(request: Request) -> dict[str, Any]:
    """The arguments of `capture` that a request names."""
    named: dict[str, Any] = {
        name: request[name]
        for name in ("dynamic", "dynamic_dim", "training", "mode", "reads")
        if name in request
    }
    return {"dtype": getattr(torch, request["dtype"]), "profile": request["profile"], **named}


def load_build(request: Request) -> Build:
    """The `build` function of a request's workload."""
    build: Build = _load_workload(request).build
    return build


def _load_workload(request: Request) -> Any:
    if request["workload"] == "sentinel":
        return sentinel
    if "model" in request:
        return types.SimpleNamespace(build=model_builder(request["model"]))
    return run_file(request["workload_path"], "model_module")


def observe(request: Observe, stage: Stage) -> Observed:
    """Facts of one workload on one device, with or without the patch.

    Raises RuntimeError when no graph reached Inductor.
    """
    profile, ran = request["profile"], LinesRun()
    _compile_before(request, stage)
    apply_patch(request, stage)
    options = _options(request)
    stage("compile")
    workload = _load_workload(request)
    covered = request.get("patch") if request.get("cover") else None
    # What no compile shows, a workload may state by itself.
    state_facts: Callable[..., Facts] = getattr(workload, "facts", lambda backend, dtype: {})
    try:
        with tracing(covered, ran):
            captured = capture(workload.build, **capture_options(request))
            # Before the workload compiles something itself, which Inductor's counters would count
            # too.
            measured = (
                graph_facts(captured, triton=generates_triton(profile)) if captured.lowered else {}
            )
            stated = state_facts(profile["backend"], getattr(torch, request["dtype"]))
    except Exception as error:
        missing = missing_answer(error) if profile["kind"] == "simulated" else None
        if missing is None:
            raise
        facts: Facts = {"compiles": {"unmeasured": missing}}
        unmeasured: ShapeFacts = {
            "facts": facts,
            "environment": environment(),
            **ran.coverage(covered),
        }
        return cast(Observed, unmeasured)
    if not captured.lowered:
        breaks = "; ".join(reason.splitlines()[0] for reason in counters["graph_break"])
        why = f" ({breaks})" if breaks else ""
        raise RuntimeError(
            f"no graph reached Inductor: nothing was compiled, so nothing was counted{why}"
        )
    triton = generates_triton(profile)
    facts = measured | stated | _left_options(options, _options(request))
    if not request.get("patch"):
        facts |= code_facts(captured.code, triton=triton)
    if request.get("resources") and generates_triton(profile):
        stage("resources")
        with device_context(profile):
            facts |= resource_facts(_kernels(captured), profile)
    return {
        "facts": facts,
        "environment": environment() | {"device": device_name(profile)},
        "code": captured.code,
        "stubbed": uses(),
        **ran.coverage(covered),
    }


def _options(request: Observe) -> dict[str, str]:
    """The options of torch as text, where a patch may change them while it compiles; a value may
    change in place.
    """
    return (
        {name: value_text(value) for name, value in config_values().items()}
        if request.get("patch")
        else {}
    )


def _left_options(before: dict[str, str], after: dict[str, str]) -> Facts:
    """Options that have another value after a compile: the next graph of the process is compiled
    with it.
    """
    return {
        f"left.{name}": f"{old} -> {after[name]}"
        for name, old in before.items()
        if after.get(name, old) != old
    }


def read_code(request: ReadCode, stage: Stage) -> OptionFacts:
    """The facts of code that another process has generated; nothing of it is run."""
    stage("read")
    return {
        "facts": code_facts(
            request["code"], triton=generates_triton({"backend": request["backend"]})
        ),
        "environment": environment(),
    }


def _compile_before(request: Observe, stage: Stage) -> None:
    """Compile the workload without the patch, where the request asks for it."""
    if request.get("late"):
        stage("compile before")
        capture(load_build(request), **capture_options(request))
        # What Dynamo has compiled is compiled again; what the compiler keeps for later compiles
        # stays.
        torch._dynamo.reset_code_caches()


def observe_shapes(request: Observe, stage: Stage) -> ShapeFacts:
    """Facts of a workload called with a script of sizes."""
    _compile_before(request, stage)
    apply_patch(request, stage)
    stage("shapes")
    dtype, ran = getattr(torch, request["dtype"]), LinesRun()
    covered = request.get("patch") if request.get("cover") else None
    with tracing(covered, ran):
        facts = shapes.shape_facts(load_build(request), dtype=dtype, profile=request["profile"])
    return {"facts": facts, "environment": environment(), **ran.coverage(covered)}


def build_kernels(request: Compile, stage: Stage) -> Kernels:
    """The machine code of the workload's Triton kernels, by their source; may come from Triton's
    own cache.
    """
    apply_patch(request, stage)
    stage("compile")
    captured = capture(load_build(request), **capture_options(request))
    stage("kernels")
    with device_context(request["profile"]):
        return {"kernels": machine_code(_kernels(captured)), "environment": environment()}


def _kernels(captured: Captured) -> list[Kernel]:
    return [kernel for text in captured.code for kernel in read_wrapper(text).distinct]


def find_failing_stage(request: FindStage, stage: Stage) -> FailingStage:
    """The stage of the compiler at which an `observe` of the same request fails; leaves a trace for
    tlparse.
    """
    write_trace_to(request["trace"])
    apply_patch(request, stage)
    stage("ladder")
    options = {name: value for name, value in capture_options(request).items() if name != "mode"}
    return {"stage": failing_stage(load_build(request), **options)}
