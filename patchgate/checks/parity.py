"""Do the outputs stay in the class of numerics that the patch claims? On the CPU in one thread, and
on a real GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from patchgate.checks.framework import (
    Answer,
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    Numerics,
    Patch,
    Verdict,
    Verdicts,
    code_of_others,
    failure_of,
    failure_text,
    judge_failed,
    read_codes,
    verdict_of,
)
from patchgate.checks.framework.settings_left import settings_left
from patchgate.inputs.devices import REAL
from patchgate.model.records import Cause, Failure
from patchgate.runner.run_settings import Run

FAMILY = "parity"
# The defaults of `largest_ulps` and `error_factor`. The error of a sound patch that rounds
# differently varies: 1.12 times the unpatched error was seen in float32.
_ULPS, _FACTOR = 8.0, 1.2
# The default error factor for code that Inductor did not make, which rounds differently.
_OWN_FACTOR = 2.0
CODES = (
    *read_codes(f"""
PG501 not bit-identical
    The patch claims `numerics = "bit-identical"` (the default), and outputs differ bit for bit. It
    is a note where they differ in the sign of zeros alone (or in the bits of NaN), and the manifest
    does not state the claim.
    Why: Any job that compares sampled text or checksums exactly can flip.
    Fix: If the change is acceptable, claim `numerics = "rounding"` in the manifest and say so in
    the pull request. If not, correct the patch.
PG502 less accurate than eager and unpatched
    The error against a float64 reference, over all elements, exceeds `error_factor` times the
    larger one of eager mode and of the unpatched side; or the error of one element exceeds it by
    far.
    Why: Users get worse numbers: rounding differently is fine, rounding worse is a defect.
    Fix: Look for a lost upcast or a changed order of reduction; or claim `numerics = "changes"`.
PG503 numerics as claimed
    The outputs stay in the class that the patch claims.
    Why: A reviewer cannot see this in the source.
    Fix: Nothing to do.
PG504 the patched workload does not run
    The workload runs on the CPU without the patch, and fails with it.
    Why: Every user who compiles such a model has the same failure.
    Fix: Read the failure; it names the stage and the line.
PG505 more than rounding
    The patch claims `numerics = "rounding"`, and an output moves by more than `largest_ulps`
    ({_ULPS:g}) units in the last place of its dtype.
    Why: Users get other results than the manifest promises: rounding an intermediate moves an
    output by a few ulps, more is another computation.
    Fix: Find the first intermediate at which both sides differ; or claim the ulps that are meant:
    `largest_ulps = 16`.
PG506 different results for special inputs
    For inputs with NaN, infinities, very large or denormal values, or with one row or none, an
    element of the output differs in kind (NaN, infinite, finite) from that of the unpatched side
    and of eager mode; or an error appears or disappears.
    Why: If a NaN is lost, users do not see that a training run is broken; a new NaN breaks a good
    one.
    Fix: Look for a comparison that NaN fails, or for an intermediate in a type that overflows
    earlier.
PG508 parity could not be measured
    The compiled workload could not be run on this machine.
    Why: A comparison that was not made proves nothing.
    Fix: Read the reason. Without a C++ compiler (g++ or clang++) the CPU backend cannot run; nor
    can it where the path of the user's cache, or of torch, has a blank.
PG511 results are not deterministic
    Two runs of the same compiled workload on the same inputs differ bit for bit on the named side,
    in one process or, on a GPU, in two. If only the patched side differs, it is PG501, unless the
    patch claims to change the numbers.
    Why: If runs differ by themselves, a difference between patched and unpatched is no evidence
    about the patch.
    Fix: Look for atomics, threads or random numbers in the code of that side, and judge the patch
    where results repeat.
PG518 not acted on here
    Both sides ran the same code: no line of the patch runs while the workload is compiled for this
    device.
    Why: The numbers of this code say nothing about the patch, whatever it does on another device.
    Fix: Judge it where it acts: a workload that reaches it, or a GPU runner for what acts on a GPU
    (`--device cuda`).
"""),
    code_of_others(code="PG509"),
)
verdict = partial(verdict_of, FAMILY)
# If a compile changes settings of these kinds, it is a note: a package that is imported late may
# have reasons for the change. A changed state of torch is red.
_NOTED = ("config", "environment", "python")
# How often the unpatched side is repeated on a GPU if the sides differ.
_AGAIN = 3
# The seeds of inputs and weights for a comparison of numbers.
SEEDS = (0, 1, 2)
# Errors are 2-norms of thousands of elements. If two errors differ by a smaller share than this,
# they differ in the last digits only.
_SLACK = 1e-6
# The error of the worst of some thousand elements varies by about this factor; a defect in one
# element is far larger.
_ELEMENT = 2
_SIDES = ("eager", "unpatched", "patched")
# The errors of Inductor without a working compiler.
_NO_COMPILER = (
    "InvalidCxxCompiler",
    "No working C++ compiler",
    "CppCompileError",
    "['g++'",
    "['clang++'",
)
# A function that asks a question of one side, and has the outputs written to a file.
AskSide = Callable[[Patch | None, str], Answer]


def numeric_devices(run: Run) -> list[str]:
    """The devices that compute numbers: the CPU and the run's real devices."""
    return ["cpu", *(device for device in run.devices if run.profile(device)["kind"] == "real")]


@Check(
    axes=("torch", "device", "workload"),
    workloads="parity",
    devices=numeric_devices,
    seconds=5,
    unchanged="few",
    eager=True,
)
def ask_parity(context: CheckContext, at: Instance) -> Verdicts:
    patch = context.patch
    if context.uncompiled_within(at.case):
        patch = with_own_rounding(patch)
    changed = dict[bool, list[str]]()

    def ask(side: Patch | None, path: str) -> Answer:
        answer = outputs_of(context, at.case, "run", side, path)
        changed[side is not None] = answer.get("settings", [])
        return answer

    with TemporaryDirectory() as folder:
        metrics = compared_sides(context, at.case, ask, "differ", folder)
        if isinstance(metrics, Verdict):
            return [metrics]
        if (
            metrics["differing"]
            and at.case.device == REAL
            and varies_by_itself(context, at.case, Path(folder))
        ):
            metrics = _as_not_repeated(metrics)
        elif metrics["differing"]:
            metrics |= _first_divergence(context, at.case, Path(folder))
    left = sorted({*changed[True]} - {*changed[False]})
    verdicts = [
        *judge_numbers(at.case, patch, metrics),
        *settings_left(at.case, patch, "compiling and running", left, patch.place, noted=_NOTED),
    ]
    return acted_on(context, at.case, verdicts)


def with_own_rounding(patch: Patch) -> Patch:
    """Return the patch with claims on numerics that suit code which Inductor did not make: that of
    a backend with kernels of its own, or of eager mode.
    """
    claims = patch.claims
    numerics = Numerics.CHANGES if claims.numerics is Numerics.CHANGES else Numerics.ROUNDING
    factor, ulps = claims.error_factor or _OWN_FACTOR, claims.largest_ulps or math.inf
    return replace(
        patch, claims=replace(claims, numerics=numerics, error_factor=factor, largest_ulps=ulps)
    )


def acted_on(context: CheckContext, case: Case, verdicts: list[Verdict]) -> list[Verdict]:
    """Return the verdicts on numbers, or PG518 in their place if all of them passed and the patch
    does not act on the case.
    """
    if any(each.kind is not Kind.PASS for each in verdicts) or context.acts_on(case):
        return verdicts
    actual = (
        f"the patch does not act here: on {case.device} both sides run the same code, and no line "
        "of the patch runs for it"
    )
    return [verdict("PG518", Kind.WARNING, case, "", "code that the patch changes", actual)]


def varies_by_itself(context: CheckContext, case: Case, folder: Path) -> bool:
    """True if repeated unpatched processes give different bits. They may, since libraries of a GPU
    choose algorithms by addresses in memory.

    The patched side is not repeated: if it alone varies, it is at fault.
    """
    for number in range(_AGAIN):
        again = folder / f"unpatched-{number}"
        if failure_of(outputs_of(context, case, "run", None, again)):
            return False
        answer = context.differences(case.torch, "differ bits", folder / "unpatched", again)
        if comparison_failure(answer):
            return False
        if answer["metrics"]["differing"]:
            return True
    return False


def _as_not_repeated(metrics: dict[str, Any]) -> dict[str, Any]:
    """The figures, changed to say that equal runs of the unpatched side differ; likewise for
    gradients.
    """
    own = metrics | {"repeats": metrics["repeats"] | {"unpatched": False}}
    return own | (
        {"gradients": _as_not_repeated(metrics["gradients"])} if metrics.get("gradients") else {}
    )


def compared_sides(
    context: CheckContext, case: Case, ask: AskSide, question: str, folder: str = ""
) -> dict[str, Any] | Verdict:
    """The figures of the difference between both sides' outputs, or the verdict on the side that
    did not run. If `folder` is given, the outputs are left there.

    If a side cannot run here, the only figure is `unmeasured`, which holds the reason.
    """
    if not folder:
        with TemporaryDirectory() as folder:
            return compared_sides(context, case, ask, question, folder)
    files = Path(folder, "unpatched"), Path(folder, "patched")
    answers = [ask(None, str(files[0])), ask(context.patch, str(files[1]))]
    for each in answers:
        if each.get("unmeasured"):
            return {"unmeasured": each["unmeasured"]}
    unpatched, patched = map(failure_of, answers)
    answer = {} if unpatched or patched else context.differences(case.torch, question, *files)
    return judge_side(case, unpatched, patched or comparison_failure(answer)) or dict(
        answer["metrics"]
    )


def comparison_failure(answer: Answer) -> Failure | None:
    """The reason why two files were not compared: a step of ours failed, or the outputs of the
    patched file cannot be read. None if they were compared.
    """
    if answer.get("unreadable"):
        what = f"outputs that cannot be compared: {answer['unreadable']}"
        return Failure(cause=Cause.TAMPERED, stage="differ", signature=what)
    return failure_of(answer)


def outputs_of(
    context: CheckContext,
    case: Case,
    question: str,
    patch: Patch | None,
    path: Path | str,
    compiles: int = 1,
    seeds: Sequence[int] = SEEDS,
) -> Answer:
    """Write the outputs of a workload on a device to the file `path`. Some questions make other
    forms of the workload, and write the outputs of these forms too.
    """
    workload = context.workload(case.workload)
    small = seeds is SEEDS and (context.run.nightly or "equivalence" in workload.checks)
    # Each small size needs another compile, and gradients double the compiles.
    compiles *= (3 if small else 1) * (2 if workload.training else 1)
    return context.ask_building(
        case.torch,
        question,
        case.device,
        workload=workload,
        patch=patch,
        compiles=compiles,
        outputs=str(path),
        seeds=list(seeds),
        small=small,
    )


def _first_divergence(context: CheckContext, case: Case, folder: Path) -> dict[str, Any]:
    """The first intermediate result that differs; empty if a side was not traced."""
    files = folder / "unpatched-trace", folder / "patched-trace"
    for patch, path in zip((None, context.patch), files, strict=True):
        outputs_of(context, case, "trace", patch, path)
    metrics: dict[str, Any] = context.differences(case.torch, "differ traces", *files).get(
        "metrics", {}
    )
    return metrics


def judge_side(case: Case, unpatched: Failure | None, patched: Failure | None) -> Verdict | None:
    """One verdict if a side did not run."""
    if unpatched and any(word in unpatched.signature for word in _NO_COMPILER):
        text = failure_text(unpatched, patched)
        return verdict("PG508", Kind.UNMEASURED, case, "", "runs", text, unpatched.where)
    return judge_failed(
        FAMILY, ("PG504", "PG509"), case, (unpatched, patched), "runs as it does unpatched"
    )


def judge_numbers(case: Case, patch: Patch, metrics: Answer) -> list[Verdict]:
    """The verdicts on three questions: are bits unchanged, is the error against float64 small
    enough, and are special inputs handled as before?

    The first two questions are about the outputs, and about the gradients if there are any. Only
    the first is asked if the patch claims to change numbers.
    """
    where = patch.place_of("numerics")
    strict = patch.claims.numerics is not Numerics.CHANGES
    verdicts = []
    for part, figures in (("", metrics), ("gradients ", metrics.get("gradients"))):
        if figures:
            verdicts.append(_bits(case, patch, f"{part}bits", figures, where))
            verdicts += [_error(case, patch, f"{part}error", figures, where)] if strict else []
    return [*verdicts, *_extremes(case, patch, metrics, where)] if strict else verdicts


def _bits(case: Case, patch: Patch, fact: str, metrics: Answer, where: str) -> Verdict:
    """Judge the share of elements whose bits differ against the claimed class of numerics."""
    claims = patch.claims
    nondeterministic = [side for side, repeats in metrics["repeats"].items() if not repeats]
    # If only the patched side varies, the patch is the cause. It may vary on purpose only if it
    # claims to change numbers.
    if "unpatched" in nondeterministic or (
        claims.numerics is Numerics.CHANGES and nondeterministic
    ):
        actual = f"{' and '.join(nondeterministic)}: two equal runs gave different bits"
        return verdict("PG511", Kind.ASSUMED, case, fact, "two equal runs", actual, where)
    expected = patch.stated_numerics
    share, elements = metrics["differing"], metrics["elements"]
    found = [
        f"{share:.1%} of {elements:.0f} elements differ bit for bit",
        f"largest difference {metrics['largest']:.6g} ({_ulps_text(metrics['ulps'])})",
    ]
    if _is_of_zeros(metrics):
        found = [
            f"{share:.1%} of {elements:.0f} elements differ only in the sign of zero or in NaN"
        ]
    if metrics.get("diverges_at"):
        found.append(f"first difference at {metrics['diverges_at']}")
    if nondeterministic:
        found.append("unpatched two equal runs give the same bits, patched they do not")
    code = "PG501" if nondeterministic else _broken_claim(patch, metrics)
    if code == "PG505":
        expected += f", at most {claims.largest_ulps or _ULPS:g} ulps"
    kind = Kind.REGRESSED if code else Kind.PASS
    if code and _is_of_zeros(metrics) and not nondeterministic and not patch.states_numerics:
        kind = Kind.WARNING
    place, code = where if code else None, code or "PG503"
    made = verdict(code, kind, case, fact, expected, tuple(found), place, share=share)
    return replace(made, is_rounding=_is_rounding([metrics]) and not nondeterministic)


def _is_rounding(figures: Iterable[Answer]) -> bool:
    """True if no output moves by more than a different rounding explains."""
    return all(each["ulps"] <= _ULPS for each in figures)


def error_factor(patch: Patch) -> float:
    """Return the factor of the manifest, or the default."""
    return patch.claims.error_factor or _FACTOR


def _broken_claim(patch: Patch, metrics: Answer) -> str | None:
    """The code of the claim that the figures break; None if they break no claim."""
    claims = patch.claims
    if claims.numerics is Numerics.BIT_IDENTICAL and metrics["differing"] > 0:
        return "PG501"
    moved = not metrics["ulps"] <= (claims.largest_ulps or _ULPS)
    return "PG505" if claims.numerics is Numerics.ROUNDING and moved else None


def _error(case: Case, patch: Patch, fact: str, metrics: Answer, where: str) -> Verdict:
    """The verdict on the error against float64, of all elements and of the worst element."""
    factor = error_factor(patch)
    errors, worst = (
        {side: metrics[f"{kind}_{side}"] for side in _SIDES} for kind in ("error", "worst")
    )
    bound = factor * max(errors["eager"], errors["unpatched"])
    limit = factor * _ELEMENT * max(worst["eager"], worst["unpatched"]) + 1
    worse = not (errors["patched"] <= bound * (1 + _SLACK) and worst["patched"] <= limit)
    sides, elements = (
        ", ".join(f"{side} {error:.3g}" for side, error in figures.items())
        for figures in (errors, worst)
    )
    actual = sides, f"worst element, in ulps: {elements}"
    expected = (
        f"relative error against float64 of at most {bound:.3g}, of one element {limit:.3g} ulps"
    )
    code, kind = ("PG502", Kind.REGRESSED) if worse else ("PG503", Kind.PASS)
    return verdict(code, kind, case, fact, expected, actual, where if worse else None)


def _extremes(case: Case, patch: Patch, metrics: Answer, where: str) -> Verdicts:
    """The verdicts on inputs with NaN, infinities and extreme numbers, and on inputs with one row
    or no rows. Their outcome must be that of unpatched or eager code.
    """
    expected = (
        "NaN, infinite and finite elements, or the error, as without the patch or in eager mode"
    )
    lost = {name: what for name, what in metrics["special"].items() if what}
    if metrics["special"]:
        yield _behaviour(case, "special inputs", expected, metrics["special"], lost, where)
    small = metrics["small"]
    if small:
        lost = {
            name: figures["mismatch"] or _broken_text(patch, figures)
            for name, figures in small.items()
        }
        lost = {name: what for name, what in lost.items() if what}
        expected = f"{expected}; numbers as claimed"
        made = _behaviour(case, "small inputs", expected, small, lost, where)
        worst = [small[name] for name in lost if not small[name]["mismatch"]]
        made = replace(made, share=max((each["differing"] for each in worst), default=0.0))
        if worst and len(worst) == len(lost) and _is_rounding(worst):
            code = str(_broken_claim(patch, worst[0]))
            text = verdict(code, made.kind, case, made.fact, expected, made.actual, where)
            made = replace(text, share=made.share, is_rounding=True)
        yield made


def _is_of_zeros(metrics: Answer) -> bool:
    """True if the outputs differ only in bits that a comparison of numbers does not see."""
    return bool(metrics["differing"] > 0 and metrics.get("is_equal"))


def _broken_text(patch: Patch, metrics: Answer) -> str:
    broken = _broken_claim(patch, metrics)
    if _is_of_zeros(metrics) and not patch.states_numerics:
        return ""
    return f"{metrics['differing']:.1%} differ, {_ulps_text(metrics['ulps'])}" if broken else ""


def _ulps_text(ulps: float) -> str:
    return "1 ulp" if f"{ulps:.3g}" == "1" else f"{ulps:.3g} ulps"


def _behaviour(
    case: Case, fact: str, expected: str, inputs: Iterable[str], lost: Mapping[str, str], where: str
) -> Verdict:
    if lost:
        actual = ", ".join(f"{name} input: {what}" for name, what in lost.items())
        return verdict("PG506", Kind.REGRESSED, case, fact, expected, actual, where)
    return verdict(
        "PG503", Kind.PASS, case, fact, expected, f"as there, for inputs with {', '.join(inputs)}"
    )
