"""What the probe can be asked, one function a question.

Decides how a request turns into work of the other probe modules. Runs inside
a forked child that belongs to this one request.
"""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch._inductor.config as inductor_config

from patchgate.probe import caching, compilework, numerics, patching, sentinel, surface, timing
from patchgate.probe.capture import Build, capture, facts_of, standing_in
from patchgate.probe.standin import stand_in

Request = dict[str, Any]
Stage = Callable[[str], None]


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


def _workload(request: Request) -> Build:
    if request["workload"] == "sentinel":
        return sentinel.build
    spec = importlib.util.spec_from_file_location("patchgate_workload", request["workload_path"])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where Dynamo looks up the globals of a function that it inlines
    spec.loader.exec_module(module)
    build: Build = module.build
    return build


def _apply(request: Request, stage: Stage) -> None:
    if request.get("patch"):
        stage("patch")
        # On a GPU machine the patch would see the device while it is imported.
        if request["profile"]["kind"] == "simulated":
            with stand_in(request["profile"]):
                patching.run_patch(request["patch"])
        else:
            patching.run_patch(request["patch"])


def observe(request: Request, stage: Stage) -> dict[str, Any]:
    """Facts of one workload on one device, with or without the patch."""
    _apply(request, stage)
    stage("compile")
    dtype = getattr(torch, request["dtype"])
    captured = capture(_workload(request), dtype=dtype, dynamic=request["dynamic"], profile=request["profile"])
    if not captured.lowered:
        raise RuntimeError("no graph reached Inductor: nothing was compiled, so nothing was counted")
    facts = facts_of(captured)
    name = torch.cuda.get_device_name() if request["profile"]["kind"] == "real" else request["profile"]["name"]
    return {"facts": facts, "environment": environment() | {"device": name}, "code": captured.code}


def sentinel_facts(request: Request, stage: Stage) -> dict[str, Any]:
    """The sentinel's facts, and those that it must have."""
    answer = observe(request | {"workload": "sentinel", "dtype": "float32", "dynamic": False}, stage)
    return answer | {"expected": sentinel.expected(request["profile"]["backend"])}


def apply(request: Request, stage: Stage) -> dict[str, Any]:
    """Run the patch under a faked version, on a stand-in device, and tell everything that it changed."""
    calls: list[str] = []
    with stand_in(request["profile"], calls), patching.faked_version(request["version"]):
        before, env, config = patching.snapshot(), patching.environment(), patching.configs()
        stage("patch")
        patching.run_patch(request["patch"])
        stage("compare")
        changed = patching.changed(before, patching.snapshot())
        effects = {
            "device": sorted(set(calls)),
            "environment": patching.differing(env, patching.environment()),
            "config": patching.differing(config, patching.configs()),
        }
        stage("patch again")
        patching.run_patch(request["patch"], patching.MODULE + "_again")
        again = patching.changed(before, patching.snapshot())
    nested = [name for name in changed if name in again and patching.keeps(again[name][1], changed[name][1])]
    return {"changed": sorted(changed), "effects": effects, "nested": sorted(nested)}


def inspect_surface(request: Request, stage: Stage) -> dict[str, Any]:
    """Check the patch's targets, imports, attributes and signatures against this torch."""
    with open(request["patch"], encoding="utf-8") as file:
        source = file.read()
    findings = [*surface.check_targets(request["targets"]), *surface.check_imports(source)]
    with stand_in(request["profile"]):
        before = patching.snapshot()
        stage("patch")
        patching.run_patch(request["patch"])
        changed = patching.changed(before, patching.snapshot())
    stage("surface")
    for name, (original, replacement) in sorted(changed.items()):
        if callable(original) and callable(replacement):
            findings += surface.check_signature(name, original, replacement)
            try:
                owner = surface.resolve(name.rpartition(".")[0])
            except LookupError:
                continue
            if isinstance(owner, type):
                findings += surface.check_attributes(source, owner, replacement)
    return {"findings": findings, "changed": sorted(changed)}


def run(request: Request, stage: Stage) -> dict[str, Any]:
    """Run the workload on the CPU and leave its outputs in a file."""
    _apply(request, stage)
    stage("run")
    numerics.run(
        _workload(request),
        dtype=getattr(torch, request["dtype"]),
        dynamic=request["dynamic"],
        profile=request["profile"],
        seed=request["seed"],
        path=request["outputs"],
    )
    return {"environment": environment()}


def differ(request: Request, stage: Stage) -> dict[str, Any]:
    """Figures of the difference between two files of outputs."""
    stage("differ")
    return {"metrics": numerics.differ(request["unpatched"], request["patched"])}


def time_pair(request: Request, stage: Stage) -> dict[str, Any]:
    """Paired times of a workload, unpatched against patched (or compiled twice, without a patch)."""
    stage("compile")
    before = timing.device_state()
    with standing_in(request["profile"] | {"threads": 1}):
        pair = timing.Pair(
            _workload(request),
            dtype=getattr(torch, request["dtype"]),
            size=request["size"],
            device=request["profile"]["backend"],
            change=lambda: _apply(request, stage),
        )
        stage("time")
        rounds = pair.rounds(rounds=request["rounds"], seconds=request["for_seconds"], seed=request["seed"])
    name = torch.cuda.get_device_name() if request["profile"]["kind"] == "real" else request["profile"]["name"]
    state = {"device": name, "device before": before, "device after": timing.device_state()}
    return {
        "rounds": rounds,
        "first_call": pair.first_call,
        "peak_memory": pair.peak_memory,
        "environment": environment() | state,
    }


def compile_cached(request: Request, stage: Stage) -> dict[str, Any]:
    """Compile the workload with the caches on: what they answered, and the code that they gave."""
    _apply(request, stage)
    stage("compile")
    dtype = getattr(torch, request["dtype"])
    return caching.compile_cached(
        _workload(request), dtype=dtype, dynamic=request["dynamic"], profile=request["profile"], tag=request["tag"]
    )


def count_calls(request: Request, stage: Stage) -> dict[str, Any]:
    """Python calls of one compile, by module."""
    _apply(request, stage)
    stage("compile")
    dtype = getattr(torch, request["dtype"])
    calls = compilework.count_calls(
        _workload(request), dtype=dtype, dynamic=request["dynamic"], profile=request["profile"]
    )
    return {"calls": calls, "environment": environment()}


ANSWERS: dict[str, Callable[[Request, Stage], dict[str, Any]]] = {
    "observe": observe,
    "sentinel": sentinel_facts,
    "apply": apply,
    "surface": inspect_surface,
    "run": run,
    "differ": differ,
    "time": time_pair,
    "cached": compile_cached,
    "calls": count_calls,
}
