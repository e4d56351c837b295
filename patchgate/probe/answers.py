"""What the probe can be asked, one function a question.

Decides how a request turns into work of the other probe modules. Runs inside
a forked child that belongs to this one request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from patchgate.probe.compile import caches as caching
from patchgate.probe.compile import compile_calls as compilework
from patchgate.probe.compile import hooks, options, recompiles, sentinel
from patchgate.probe.compile import observe as observing
from patchgate.probe.compile.capture import capture, standing_in
from patchgate.probe.compile.observe import environment, workload_of
from patchgate.probe.numerics import decoder, parallel, ranks
from patchgate.probe.numerics import first_divergence as intermediates
from patchgate.probe.numerics import metamorphic as forms
from patchgate.probe.numerics import numeric_metrics as figures
from patchgate.probe.numerics import outputs as numerics
from patchgate.probe.patch import branch_coverage as branches
from patchgate.probe.patch import line_coverage as lines
from patchgate.probe.patch import live_api as surface
from patchgate.probe.patch import snapshot as patching
from patchgate.probe.patch.apply import Request, Stage, applies, apply, apply_patch, undone
from patchgate.probe.simulate.fake_device import stand_in
from patchgate.probe.timing import compile_cost as compiletime
from patchgate.probe.timing import paired as timing
from patchgate.probe.timing import warmup as steadiness

Answer = Callable[[Request, Stage], dict[str, Any]]


def sentinel_facts(request: Request, stage: Stage) -> dict[str, Any]:
    """The sentinel's facts, and those that it must have."""
    answer = observing.observe(request | {"workload": "sentinel", "dtype": "float32", "dynamic": False}, stage)
    return answer | {"expected": sentinel.expected(request["profile"]["backend"])}


def inspect_surface(request: Request, stage: Stage) -> dict[str, Any]:
    """Check the patch's targets, imports, attributes and signatures against this torch."""
    with open(request["patch"], encoding="utf-8") as file:
        source = file.read()
    findings = [*surface.check_targets(request["targets"]), *surface.check_imports(source)]
    with stand_in(request["profile"]):
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
            workload_of(request),
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
    before = steadiness.device_state(device)
    with standing_in(request["profile"] | {"threads": 1}):
        pair = timing.Pair(
            workload_of(request),
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
    name = torch.cuda.get_device_name() if request["profile"]["kind"] == "real" else request["profile"]["name"]
    state = {"device": name, "device before": before, "device after": steadiness.device_state(device)}
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
        told = caching.compile_cached(
            workload_of(request),
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
    calls = compilework.count_calls(workload_of(request), **_whole(request))
    return {"calls": calls, "environment": environment()}


def compile_costs(request: Request, stage: Stage) -> dict[str, Any]:
    """CPU time and instructions of a compile, in pairs of one unpatched and one patched."""
    stage("compile")
    costs = compiletime.compile_costs(
        lambda: compilework.warmed_up(workload_of(request), **_whole(request)),
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
    return {"counts": recompiles.count(workload_of(request), dtype=dtype, dynamic=request["dynamic"])}


def ask_hooks(request: Request, stage: Stage) -> dict[str, Any]:
    """Which of the user's own hooks into the compiler are called, with or without the patch."""
    called = hooks.installed()
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
    "observe": observing.observe,
    "ladder": observing.first_failing_stage,
    "sentinel": sentinel_facts,
    "apply": apply,
    "applies": applies,
    "surface": inspect_surface,
    "run": _leaving(numerics.run, "training", "small"),
    "differ": _comparing(figures.differ),
    "forms": _leaving(forms.run_forms),
    "differ forms": _comparing(figures.differ_forms),
    "trace": _leaving(intermediates.trace),
    "differ traces": _comparing(intermediates.first_parted),
    "sample": sample,
    "ranks": run_ranks,
    "differ tokens": _comparing(decoder.differ),
    "time": time_pair,
    "cached": compile_cached,
    "kernels": observing.build_kernels,
    "calls": count_calls,
    "costs": compile_costs,
    "recompiles": count_recompiles,
    "shapes": observing.play_shapes,
    "options": list_options,
    "undone": undone,
    "hooks": ask_hooks,
    "functions": ask_functions,
}
