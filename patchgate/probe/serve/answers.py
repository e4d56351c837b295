"""Answers requests: one function for each question of the protocol.

A function runs in a process of its own, so it may change torch at will.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch

from patchgate.probe import protocol
from patchgate.probe.compile import (
    caches,
    compile_calls,
    hooks,
    observe,
    options,
    recompiles,
    sentinel,
)
from patchgate.probe.compile.capture import capture
from patchgate.probe.compile.observe import environment, load_build
from patchgate.probe.compile.plain_run import run_plainly
from patchgate.probe.numerics import (
    decoder,
    first_divergence,
    metamorphic,
    numeric_metrics,
    operator_samples,
    outputs,
    ranks,
    sample_differences,
    tensor_parallel,
)
from patchgate.probe.patch import branch_coverage, line_coverage
from patchgate.probe.patch.apply import applies, apply, apply_patch, find_stand_ins, undone
from patchgate.probe.patch.line_events import LinesRun
from patchgate.probe.patch.live_api import inspect_surface
from patchgate.probe.patch.load import module_of
from patchgate.probe.patch.new_interpreter import run_in_new_interpreter
from patchgate.probe.patch.offers import compiler_of, compiles_anything, failure_of_offer
from patchgate.probe.process.reply import exception_failure
from patchgate.probe.protocol import Request, Stage
from patchgate.probe.questions import Questions
from patchgate.probe.simulate.device_context import device_context, device_name
from patchgate.probe.simulate.needs_device import missing_answer
from patchgate.probe.timing import paired, warmup
from patchgate.probe.timing.device_queue import DeviceQueue
from patchgate.probe.timing.modes import tunes_kernels
from patchgate.probe.timing.reload_kernels import GeneratedCode


def handler_of(do: str) -> Callable[[Request, Stage], dict[str, Any]]:
    """The function that answers a question; it raises whatever the patch raises."""
    return cast(Mapping[str, Callable[[Request, Stage], dict[str, Any]]], ANSWERS)[do]


def _sentinel(request: protocol.Patched, stage: Stage) -> protocol.Sentinel:
    """The facts of the sentinel, a graph whose facts are known, and what they must be."""
    workload = {"workload": "sentinel", "workload_path": "", "dtype": "float32", "dynamic": False}
    observed = observe.observe(cast(protocol.Observe, {**request, **workload}), stage)
    return {**observed, "expected": sentinel.expected_facts(request["profile"]), "confinement": {}}


def _compile_cached(request: protocol.CompileCached, stage: Stage) -> protocol.Cached:
    """The counts of the compiler's caches, and the code that they give."""
    apply_patch(request, stage)
    stage("compile")
    patch, ran = request.get("patch") if request.get("cover") else None, LinesRun()
    with line_coverage.tracing(patch, ran):
        answer = caches.compile_cached(
            load_build(request),
            **_compiled_as(request),
            training=request.get("training", False),
            tag=request["tag"],
        )
    return cast(protocol.Cached, {**answer, **ran.coverage(patch)})


def _count_recompiles(request: protocol.Compile, stage: Stage) -> protocol.Recompiles:
    """Graphs compiled in several calls of several instances of a workload."""
    apply_patch(request, stage)
    stage("compile")
    dtype = getattr(torch, request["dtype"])
    return {
        "counts": recompiles.count_graphs(
            load_build(request), dtype=dtype, dynamic=request["dynamic"]
        )
    }


def _count_calls(request: protocol.CountCalls, stage: Stage) -> protocol.Calls:
    """Python calls of one compile, by module."""
    apply_patch(request, stage)
    stage("compile")
    calls, missing = compile_calls.count_calls(load_build(request), **_compiled_as(request))
    return {"calls": calls, "missing": missing, "environment": environment()}


def _time(request: protocol.Time, stage: Stage) -> protocol.Times:
    """Paired times of a workload, unpatched against patched; both sides are unpatched without a
    patch.
    """
    stage("compile")
    profile, mode = request["profile"], request.get("mode", "default")
    device, queue = profile["backend"], DeviceQueue(request["queue"])
    before = warmup.device_state(device)
    with device_context(profile | {"threads": 1}), queue.alone_in(GeneratedCode, "__call__"):
        # Tuning times every candidate on the device.
        with queue.alone() if tunes_kernels(mode) else contextlib.nullcontext():
            pair = paired.Pair(
                load_build(request),
                dtype=getattr(torch, request["dtype"]),
                size=request["size"],
                device=device,
                change=lambda: apply_patch(request, stage),
                built=request["built"],
                mode=mode,
                tuned=request["tuned"],
            )
        stage("time")
        with queue.alone():
            rounds = pair.rounds(
                rounds=request["rounds"], seconds=request["for_seconds"], seed=request["seed"]
            )
    state = {
        "device": device_name(profile),
        "device before": before,
        "device after": warmup.device_state(device),
    }
    return {
        "rounds": rounds,
        "first_call": pair.first_call,
        "peak_memory": pair.peak_memory,
        "elapsed": pair.elapsed,
        "warm_up": pair.warm_up,
        "tuned": pair.tuned,
        "held": queue.held,
        "environment": environment() | state,
    }


def _run(request: protocol.Run, stage: Stage) -> protocol.Ran:
    """Outputs of the workload on several seeds, written to a file."""
    more = {
        "training": request.get("training", False),
        "small": request["small"],
        "exact": not request.get("patch"),
    }
    try:
        answer = _write(outputs.run, request, stage, **more)
    except Exception as error:
        missing = missing_answer(error) if request["profile"]["kind"] == "simulated" else None
        if missing is None:
            raise
        return {"environment": environment(), "code": [], "unmeasured": missing}
    return {**answer, "code": caches.loaded_code(), "unmeasured": ""}


def _run_forms(request: protocol.Run, stage: Stage) -> protocol.Completed:
    """Outputs of forms of the workload that are mathematically equal, written to a file."""
    return _write(metamorphic.run_variants, request, stage, exact=not request.get("patch"))


def _trace(request: protocol.Run, stage: Stage) -> protocol.Completed:
    """Intermediate buffers of the compiled workload, written to a file."""
    return _write(first_divergence.trace, request, stage)


def _write(
    write: Callable[..., None], request: protocol.Run, stage: Stage, **more: bool
) -> protocol.Completed:
    apply_patch(request, stage)
    stage("run")
    how = _compiled_as(request)
    write(load_build(request), **how, seeds=request["seeds"], path=request["outputs"], **more)
    return {"environment": environment()}


def _compiled_as(request: protocol.Compile) -> dict[str, Any]:
    return {
        "dtype": getattr(torch, request["dtype"]),
        "dynamic": request["dynamic"],
        "profile": request["profile"],
    }


def _sample(request: protocol.Sample, stage: Stage) -> protocol.Completed:
    """Tokens that the small decoder samples, written to a file."""
    apply_patch(request, stage)
    stage("run")
    decoder.sample(profile=request["profile"], path=request["outputs"])
    return {"environment": environment()}


def _run_operators(request: protocol.RunOperators, stage: Stage) -> protocol.Operators:
    """Results of samples of operators, written to a file; without a patch the samples are made
    too.
    """
    answer: protocol.Operators = {
        "operators": {},
        "unmeasured": "",
        "environment": environment(),
        "ran": [],
        "took": [],
    }
    if "unpatched" not in request:
        stage("samples")
        try:
            operator_samples.op_db()
        except ImportError as error:
            return {**answer, "unmeasured": str(error)}
        stage("run")
        names, profile = request["names"], request["profile"]
        return {
            **answer,
            "operators": operator_samples.write_samples(names, profile, request["outputs"]),
        }
    samples = operator_samples.read_samples(request["unpatched"])
    apply_patch(request, stage)
    stage("run")
    patch, ran = request.get("patch"), LinesRun()
    with line_coverage.tracing(patch, ran):
        operator_samples.run_samples(samples, request["profile"], request["outputs"])
    return cast(protocol.Operators, {**answer, **ran.coverage(patch)})


def _run_offers(request: protocol.RunOffers, stage: Stage) -> protocol.Offered:
    """Outputs of the workload with each backend or pass that the patch offers, written to a file
    each.
    """
    apply_patch(request, stage)
    stage("run")
    runs: list[protocol.OfferRun] = []
    patch, outputs_file = request.get("patch"), request["outputs"]
    how = _compiled_as(request) | {"exact": not patch}
    for number, offer in enumerate(request["offers"]):
        torch._dynamo.reset()
        run: protocol.OfferRun = {"graphs": 0, "changed": 0, "faults": {}}
        compiler = compiler_of(offer, module_of(patch), run, dynamic=request["dynamic"] or None)
        path = f"{outputs_file}-{number}" if number else outputs_file
        try:
            outputs.run(
                load_build(request), **how, seeds=[0], path=path, small=True, compiler=compiler
            )
        except Exception as error:
            kind, text = failure_of_offer(error, patch)
            run["faults"][kind if compiles_anything(compiler) else "unmeasured"] = text
        runs.append(run)
    return {"environment": environment(), "runs": runs}


def _run_ranks(request: protocol.Sample, stage: Stage) -> protocol.Ranks:
    """Outputs of the stack of two ranks, written to a file."""
    missing = ranks.missing(request["profile"])
    if missing:
        return {"unmeasured": missing}
    failure = tensor_parallel.run(request, stage)
    return (
        {"failure": cast(protocol.Failure, failure)} if failure else {"environment": environment()}
    )


def _comparing(
    compare: Callable[[str, str], dict[str, Any]],
) -> Callable[[protocol.Compare, Stage], protocol.Compared]:
    """The question that compares two files by `compare`."""

    def answer(request: protocol.Compare, stage: Stage) -> protocol.Compared:
        stage("differ")
        try:
            return {"metrics": compare(request["unpatched"], request["patched"]), "unreadable": ""}
        except Exception as error:
            if exception_failure(error, None)["cause"] != "raised":
                raise
            # Untrusted code wrote the patched file. Where the other one can be compared with
            # itself, that is why.
            compare(request["unpatched"], request["unpatched"])
            return {
                "metrics": {},
                "unreadable": f"{type(error).__name__}: {error}".partition("\n")[0][:200],
            }

    return answer


def _option_facts(request: protocol.Observe, stage: Stage) -> protocol.OptionFacts:
    """Facts of the options and modes of torch.compile."""
    apply_patch(request, stage)
    stage("options")
    return {"facts": options.option_facts(), "environment": environment()}


def _call_hooks(request: protocol.Patched, stage: Stage) -> protocol.Hooks:
    """Which of the user's hooks into the compiler are called, and which options of a call reach
    it.
    """
    counters = hooks.Counters()
    apply_patch(request, stage)
    stage("compile")
    capture(sentinel.build, dtype=torch.float32, dynamic=False, profile=request["profile"])
    replaced = counters.replaced()
    called = dict(counters.calls)
    return {"called": called, "replaced": replaced, "asked": hooks.options_in_force()}


def _functions(request: protocol.ReadPatch, stage: Stage) -> protocol.Functions:
    """The functions of the patch and their branches; nothing of it is run."""
    path = request["patch"]
    return {"functions": line_coverage.functions(path), "outcomes": branch_coverage.outcomes(path)}


ANSWERS: Questions = {
    "sentinel": _sentinel,
    "observe": observe.observe,
    "code": observe.read_code,
    "failing stage": observe.find_failing_stage,
    "shapes": observe.observe_shapes,
    "options": _option_facts,
    "kernels": observe.build_kernels,
    "cached": _compile_cached,
    "recompiles": _count_recompiles,
    "calls": _count_calls,
    "time": _time,
    "run": _run,
    "offers": _run_offers,
    "plain run": run_plainly,
    "forms": _run_forms,
    "trace": _trace,
    "sample": _sample,
    "operators": _run_operators,
    "ranks": _run_ranks,
    "differ": _comparing(numeric_metrics.differ),
    "differ runs": _comparing(numeric_metrics.differ_runs),
    "differ forms": _comparing(metamorphic.differ_variants),
    "differ traces": _comparing(first_divergence.diverging_operation),
    "differ samples": _comparing(sample_differences.differ_samples),
    "differ tokens": _comparing(decoder.differ),
    "apply": apply,
    "applies": applies,
    "stand-ins": find_stand_ins,
    "new interpreter": run_in_new_interpreter,
    "surface": inspect_surface,
    "undone": undone,
    "hooks": _call_hooks,
    "functions": _functions,
}
