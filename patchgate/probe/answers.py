"""What the probe can be asked, one function a question.

Decides how a request turns into work of the other probe modules. Runs inside
a forked child that belongs to this one request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from patchgate.probe.compile import caches, compile_calls, hooks, observe, options, recompiles, sentinel
from patchgate.probe.compile.capture import capture
from patchgate.probe.compile.observe import environment, load_build
from patchgate.probe.numerics import (
    decoder,
    first_divergence,
    metamorphic,
    numeric_metrics,
    outputs,
    parallel,
    ranks,
)
from patchgate.probe.patch import branch_coverage as branches
from patchgate.probe.patch import line_coverage as lines
from patchgate.probe.patch import live_api as surface
from patchgate.probe.patch import snapshot as patching
from patchgate.probe.patch.apply import Request, Stage, applies, apply, apply_patch, undone
from patchgate.probe.simulate.device import device_context, device_name
from patchgate.probe.simulate.fake_device import fake_device
from patchgate.probe.timing import compile_cost, paired, warmup

Answer = Callable[[Request, Stage], dict[str, Any]]


def sentinel_facts(request: Request, stage: Stage) -> dict[str, Any]:
    """The sentinel's facts, and those that it must have."""
    answer = observe.observe(request | {"workload": "sentinel", "dtype": "float32", "dynamic": False}, stage)
    return answer | {"expected": sentinel.expected_facts(request["profile"])}


def inspect_surface(request: Request, stage: Stage) -> dict[str, Any]:
    """Check the patch's targets, imports, attributes and signatures against this torch."""
    with open(request["patch"], encoding="utf-8") as file:
        source = file.read()
    findings = [*surface.check_targets(request["targets"]), *surface.check_imports(source)]
    with fake_device(request["profile"]):
        before = patching.snapshot()
        stage("patch")
        patching.run_patch(request["patch"], scope=request.get("scope"))
        changed = patching.changed(before, patching.snapshot())
    stage("surface")
    for name, (original, replacement) in sorted(changed.items()):
        is_static = isinstance(replacement, staticmethod)
        original, replacement = (getattr(value, "__func__", value) for value in (original, replacement))
        # An entry of a registry is called by its op's schema, whatever its parameters are called.
        if callable(original) and callable(replacement) and not name.endswith("]"):
            findings += surface.check_signature(name, original, replacement)
            try:
                owner = surface.resolve(name.rpartition(".")[0])
            except LookupError:
                continue
            if isinstance(owner, type) and not is_static:
                findings += surface.check_attributes(source, owner, replacement)
    return {"findings": findings, "changed": sorted(changed)}


def _leaving(write: Callable[..., None], *options: str) -> Answer:
    """Runs the workload on the CPU and leaves outputs in a file; `write` is told these `options` of the request."""

    def answer(request: Request, stage: Stage) -> dict[str, Any]:
        apply_patch(request, stage)
        stage("run")
        write(
            load_build(request),
            dtype=getattr(torch, request["dtype"]),
            dynamic=request["dynamic"],
            profile=request["profile"],
            seeds=request["seeds"],
            path=request["outputs"],
            **{name: request[name] for name in options},
        )
        return {"environment": environment()}

    return answer


def _comparing(compare: Callable[[str, str], dict[str, Any]]) -> Answer:
    """Figures of the difference between two files of outputs."""

    def answer(request: Request, stage: Stage) -> dict[str, Any]:
        stage("differ")
        return {"metrics": compare(request["unpatched"], request["patched"])}

    return answer


def time_pair(request: Request, stage: Stage) -> dict[str, Any]:
    """Paired times of a workload, unpatched against patched (or compiled twice, without a patch)."""
    stage("compile")
    device = request["profile"]["backend"]
    before = warmup.device_state(device)
    with device_context(request["profile"] | {"threads": 1}):
        pair = paired.Pair(
            load_build(request),
            dtype=getattr(torch, request["dtype"]),
            size=request["size"],
            device=device,
            change=lambda: apply_patch(request, stage),
            built=request["built"],
            mode=request.get("mode", "default"),
            tuned=request.get("tuned"),
        )
        stage("time")
        rounds = pair.rounds(rounds=request["rounds"], seconds=request["for_seconds"], seed=request["seed"])
    name = device_name(request["profile"])
    state = {"device": name, "device before": before, "device after": warmup.device_state(device)}
    return {
        "rounds": rounds,
        "first_call": pair.first_call,
        "peak_memory": pair.peak_memory,
        "elapsed": pair.elapsed,
        "warm_up": pair.warm_up,
        "tuned": pair.tuned,
        "environment": environment() | state,
    }


def compile_cached(request: Request, stage: Stage) -> dict[str, Any]:
    """Compile the workload with the caches on: what they answered, and the code that they gave."""
    apply_patch(request, stage)
    stage("compile")
    dtype = getattr(torch, request["dtype"])
    ran = lines.Ran()
    with lines.traced(request.get("patch"), ran):
        told = caches.compile_cached(
            load_build(request),
            dtype=dtype,
            dynamic=request["dynamic"],
            profile=request["profile"],
            tag=request["tag"],
        )
    return told | ran.told(request.get("patch"))


def count_calls(request: Request, stage: Stage) -> dict[str, Any]:
    """Python calls of one compile, by module."""
    apply_patch(request, stage)
    stage("compile")
    calls = compile_calls.count_calls(load_build(request), **_whole(request))
    return {"calls": calls, "environment": environment()}


def compile_costs(request: Request, stage: Stage) -> dict[str, Any]:
    """CPU time and instructions of a compile, in pairs of one unpatched and one patched."""
    stage("compile")
    costs = compile_cost.compile_costs(
        lambda: compile_calls.warm_compile(load_build(request), **_whole(request)),
        lambda: apply_patch(request, stage),
        request["pairs"],
    )
    return costs | {"environment": environment()}


def _whole(request: Request) -> dict[str, Any]:
    """How the compile work of a workload is measured."""
    return {"dtype": getattr(torch, request["dtype"]), "dynamic": request["dynamic"], "profile": request["profile"]}


def list_options(request: Request, stage: Stage) -> dict[str, Any]:
    """Facts of the options and modes of torch.compile."""
    apply_patch(request, stage)
    stage("options")
    return {"facts": options.option_facts(), "environment": environment()}


def count_recompiles(request: Request, stage: Stage) -> dict[str, Any]:
    """Graphs compiled in several calls of several instances of a workload."""
    apply_patch(request, stage)
    stage("compile")
    dtype = getattr(torch, request["dtype"])
    return {"counts": recompiles.count_graphs(load_build(request), dtype=dtype, dynamic=request["dynamic"])}


def ask_hooks(request: Request, stage: Stage) -> dict[str, Any]:
    """Which of the user's own hooks into the compiler are called, with or without the patch."""
    called = hooks.install_counters()
    apply_patch(request, stage)
    stage("compile")
    capture(sentinel.build, dtype=torch.float32, dynamic=False, profile=request["profile"])
    return {"called": dict(called)}


def ask_functions(request: Request, stage: Stage) -> dict[str, Any]:
    """The functions of the patch, their lines and how their branches can come out; nothing of it is run."""
    return {"functions": lines.functions(request["patch"]), "outcomes": branches.outcomes(request["patch"])}


def sample(request: Request, stage: Stage) -> dict[str, Any]:
    """Sample from the small decoder on the CPU and leave its tokens in a file."""
    apply_patch(request, stage)
    stage("run")
    decoder.sample(profile=request["profile"], path=request["outputs"])
    return {"environment": environment()}


def run_ranks(request: Request, stage: Stage) -> dict[str, Any]:
    """Run the stack of two ranks and leave its outputs in a file; "unmeasured" tells why there can be no ranks."""
    missing = ranks.missing(request["profile"])
    if missing:
        return {"unmeasured": missing}
    failure = parallel.run(request, stage)
    return {"failure": failure} if failure else {"environment": environment()}


ANSWERS: dict[str, Answer] = {
    "observe": observe.observe,
    "ladder": observe.find_failing_stage,
    "sentinel": sentinel_facts,
    "apply": apply,
    "applies": applies,
    "surface": inspect_surface,
    "run": _leaving(outputs.run, "training", "small"),
    "differ": _comparing(numeric_metrics.differ),
    "forms": _leaving(metamorphic.run_variants),
    "differ forms": _comparing(metamorphic.differ_variants),
    "trace": _leaving(first_divergence.trace),
    "differ traces": _comparing(first_divergence.diverging_operation),
    "sample": sample,
    "ranks": run_ranks,
    "differ tokens": _comparing(decoder.differ),
    "time": time_pair,
    "cached": compile_cached,
    "kernels": observe.build_kernels,
    "calls": count_calls,
    "costs": compile_costs,
    "recompiles": count_recompiles,
    "shapes": observe.observe_shapes,
    "options": list_options,
    "undone": undone,
    "hooks": ask_hooks,
    "functions": ask_functions,
}
