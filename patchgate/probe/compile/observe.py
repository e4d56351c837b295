"""Takes the facts of one case, or tells in which stage of the compiler it fails.

Decides how a request becomes a compile and what is told beside the facts. Refuses to know which
questions there are.
"""

from __future__ import annotations

import importlib.util
import platform
import sys
import types
from typing import Any

import torch
import torch._inductor.config as inductor_config

from patchgate.probe.compile import backend_stages as ladder
from patchgate.probe.compile import sentinel, shapes
from patchgate.probe.compile.capture import Build, Captured, capture, standing_in
from patchgate.probe.compile.facts import facts_of
from patchgate.probe.compile.kernels import Kernel
from patchgate.probe.compile.resources import machine_code, resource_facts
from patchgate.probe.patch import line_coverage as lines
from patchgate.probe.patch.apply import Request, Stage, apply_patch
from patchgate.probe.simulate.fake_device import needs_device

# Inductor options that decide what is fused and stored; shown with every figure.
_CONFIG = (
    "realize_reads_threshold",
    "realize_opcount_threshold",
    "realize_acc_reads_threshold",
    "max_fusion_size",
    "max_autotune",
    "coordinate_descent_tuning",
    "triton.cudagraphs",
)


def environment() -> dict[str, str]:
    """What a figure of this process depends on besides its case."""
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
        "config": " ".join(f"{name}={options.get(name)}" for name in _CONFIG),
    }


def compiled_as(request: Request) -> dict[str, Any]:
    """How a request wants its workload compiled, as `capture` takes it."""
    named: dict[str, Any] = {
        name: request[name] for name in ("dynamic", "dynamic_dim", "training", "mode", "reads") if name in request
    }
    return {"dtype": getattr(torch, request["dtype"]), "profile": request["profile"], **named}


def workload_of(request: Request) -> Build:
    build: Build = _module_of(request).build
    return build


def _module_of(request: Request) -> types.ModuleType:
    if request["workload"] == "sentinel":
        return sentinel
    spec = importlib.util.spec_from_file_location("patchgate_workload", request["workload_path"])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where Dynamo looks up the globals of a function that it inlines
    spec.loader.exec_module(module)
    return module


def observe(request: Request, stage: Stage) -> dict[str, Any]:
    """Facts of one workload on one device, with or without the patch."""
    apply_patch(request, stage)
    stage("compile")
    workload, ran = _module_of(request), lines.Ran()
    covered = request.get("patch") if request.get("cover") else None
    own = getattr(workload, "facts", None)
    try:
        with lines.traced(covered, ran):
            captured = capture(workload.build, **compiled_as(request))
            # What no compile of it shows, the workload tells by itself.
            told = own(request["profile"]["backend"], getattr(torch, request["dtype"])) if own else {}
    except Exception as error:
        missing = needs_device(error) if request["profile"]["kind"] == "simulated" else None
        if missing is None:
            raise
        return {"facts": {"compiles": {"unmeasured": missing}}, "environment": environment(), **ran.told(covered)}
    if not captured.lowered:
        raise RuntimeError("no graph reached Inductor: nothing was compiled, so nothing was counted")
    facts = facts_of(captured) | told
    if request.get("resources") and request["profile"]["backend"] == "cuda":
        stage("resources")
        with standing_in(request["profile"]):
            facts |= resource_facts(_kernels(captured), request["profile"])
    name = torch.cuda.get_device_name() if request["profile"]["kind"] == "real" else request["profile"]["name"]
    return {
        "facts": facts,
        "environment": environment() | {"device": name},
        "code": captured.code,
        "launches": [launch for graph in captured.lowered for launch in graph.launches],
        **ran.told(covered),
    }


def play_shapes(request: Request, stage: Stage) -> dict[str, Any]:
    """Facts of a workload that is called with a script of sizes."""
    apply_patch(request, stage)
    stage("shapes")
    dtype, ran = getattr(torch, request["dtype"]), lines.Ran()
    with lines.traced(request.get("patch"), ran):
        facts = shapes.shape_facts(workload_of(request), dtype=dtype, profile=request["profile"])
    return {"facts": facts, "environment": environment(), **ran.told(request.get("patch"))}


def build_kernels(request: Request, stage: Stage) -> dict[str, Any]:
    """The machine code of the workload's Triton kernels, by their source; Triton's own cache may answer."""
    apply_patch(request, stage)
    stage("compile")
    captured = capture(workload_of(request), **compiled_as(request))
    stage("kernels")
    with standing_in(request["profile"]):
        return {"kernels": machine_code(_kernels(captured)), "environment": environment()}


def _kernels(captured: Captured) -> list[Kernel]:
    return [kernel for graph in captured.lowered for kernel in graph.wrapper.distinct]


def first_failing_stage(request: Request, stage: Stage) -> dict[str, Any]:
    """The stage of the compiler at which an `observe` of the same request fails; leaves a trace for tlparse."""
    ladder.trace_to(request["trace"])
    apply_patch(request, stage)
    stage("ladder")
    how = {name: value for name, value in compiled_as(request).items() if name != "mode"}
    return {"stage": ladder.first_failing(workload_of(request), **how)}
