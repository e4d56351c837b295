"""Does the code that is generated for a simulated GPU compute the same as without the patch? By
Triton's interpreter.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from difflib import SequenceMatcher
from functools import partial
from typing import Any

from patchgate.checks.framework import (
    Answer,
    Case,
    Check,
    CheckContext,
    Instance,
    Kind,
    NothingToJudge,
    Patch,
    Verdict,
    Verdicts,
    read_codes,
    verdict_of,
)
from patchgate.checks.parity import SEEDS, AskSide, compared_sides, judge_numbers, outputs_of
from patchgate.inputs.devices import REAL, profile_of
from patchgate.runner.run_settings import Run

FAMILY = "parity"
CODES = read_codes("""
PG516 a generated kernel misuses memory
    With the patch a kernel that is generated for the GPU loads or stores outside of its buffers,
    reads what was never written, or stores different values to one address. Unpatched kernels of
    the same workload do not.
    Why: No GPU reports this: users get wrong numbers that change from run to run, or a crash
    somewhere else.
    Fix: Look at the mask, the index and the stride in the line that is shown.
PG517 the GPU's code could not be run here
    The kernels that are generated for the simulated GPU differ from unpatched ones, and Triton's
    interpreter cannot judge them: they need a real device or something that the interpreter lacks,
    or the kernels for the small inputs that it runs do not differ.
    Why: Numbers that were not computed prove nothing to a reviewer.
    Fix: Read the reason. Judge the patch on a machine with the GPU:
    `patchgate gate PATCH --device cuda`.
""")
verdict = partial(verdict_of, FAMILY)
_SHOWN = 3
_UNCHANGED = (
    "the small inputs that are run here get the same code with the patch as without it; those of "
    "the workload's own size do not"
)
_MEMORY = "loads only written elements, inside its buffers, and stores one value to each address"


def simulated_devices(run: Run) -> list[str]:
    """The run's first simulated GPU; in a nightly run, all of its simulated GPUs."""
    devices = [device for device in run.devices if run.profile(device)["kind"] == "simulated"]
    return devices if run.nightly else devices[:1]


def _devices(run: Run) -> list[str]:
    """The simulated devices, else the real one: a real device does not report misused memory."""
    return simulated_devices(run) or [device for device in run.devices if device == REAL]


@Check(axes=("torch", "device", "workload"), devices=_devices, seconds=2.5, unchanged="few")
def ask_generated_kernels(context: CheckContext, at: Instance) -> Verdicts:
    if "parity" not in context.workload(at.case.workload).checks:
        raise NothingToJudge("its numbers are not compared")
    modules = modules_of(context, at.case)
    if at.case.device == REAL:
        return _memory_alone(context, at.case, modules)
    if is_same_code(*modules):
        return [
            verdict(
                "PG503",
                Kind.PASS,
                at.case,
                "",
                "as without the patch",
                "not run: the same code is generated",
            )
        ]
    codes = []

    def ask(patch: Patch | None, path: str) -> Answer:
        answer = outputs_of(context, at.case, "run", patch, path)
        codes.append(answer.get("code"))
        return answer

    metrics = interpreted_sides(context, at.case, ask, "differ")
    if isinstance(metrics, Verdict):
        return [metrics]
    line = first_changed_line(*modules)
    verdicts = [
        *(_with_line(each, line) for each in judge_numbers(at.case, context.patch, metrics)),
        *judge_memory(at.case, metrics["memory"]),
    ]
    if codes[0] and codes[0] == codes[1] and all(each.kind is Kind.PASS for each in verdicts):
        return [_not_run(at.case, _UNCHANGED)]
    return verdicts


def _memory_alone(
    context: CheckContext, case: Case, modules: tuple[ast.Module, ast.Module]
) -> Verdicts:
    """The verdicts on memory for a run that measures numbers on the GPU itself. One batch is run on
    the simulated device that describes the GPU.
    """
    if is_same_code(*modules):
        raise NothingToJudge("the same code is generated")
    named = context.observe_unpatched(case).environment.get("device", "")
    device = profile_of(named, otherwise="", own=context.run.project.profiles)
    if not device:
        raise NothingToJudge(f"no profile describes {named}")
    case = replace(case, device=device)
    ask = partial(outputs_of, context, case, "run", seeds=SEEDS[:1])
    metrics = interpreted_sides(context, case, ask, "differ")
    if isinstance(metrics, Verdict):  # of the interpreter; parity judges the GPU's own run
        raise NothingToJudge(metrics.actual)
    sound = verdict("PG503", Kind.PASS, case, "memory", _MEMORY, "as without the patch")
    return [*judge_memory(case, metrics["memory"])] or [sound]


def modules_of(context: CheckContext, case: Case) -> tuple[ast.Module, ast.Module]:
    """The code that is generated for a case without and with the patch.

    Raises NothingToJudge if there is none.
    """
    unpatched, patched = (
        _code(context, observed.case) for observed in context.observations(case, measured=True)
    )
    if unpatched is None or patched is None:
        raise NothingToJudge("one side does not compile: see the result of kernels")
    return unpatched, patched


def is_same_code(one: ast.Module, other: ast.Module) -> bool:
    """True if the two modules differ in comments and layout at most."""
    return ast.dump(one) == ast.dump(other)


def interpreted_sides(
    context: CheckContext, case: Case, ask: AskSide, question: str
) -> dict[str, Any] | Verdict:
    """The figures of `compared_sides`; PG517 if Triton's interpreter cannot run the code."""
    metrics = compared_sides(context, case, ask, question)
    if isinstance(metrics, Verdict):
        # If unpatched code fails too, the interpreter is to blame.
        return _not_run(case, metrics.actual) if metrics.kind is Kind.DRIFTED else metrics
    return _not_run(case, metrics["unmeasured"]) if "unmeasured" in metrics else metrics


def _not_run(case: Case, reason: str) -> Verdict:
    return verdict("PG517", Kind.ASSUMED, case, "", "runs in Triton's interpreter", reason)


def _code(context: CheckContext, case: Case) -> ast.Module | None:
    """The module that was generated, or None."""
    path = context.runner.code_path(case)
    try:
        return ast.parse(path.read_text("utf-8"))
    except (OSError, SyntaxError):
        return None


def first_changed_line(unpatched: ast.Module, patched: ast.Module) -> str:
    """A sentence on the first changed line of a patched Triton kernel, compared with the most
    similar unpatched kernel; empty if no kernel differs.
    """
    before, after = _kernels(unpatched), _kernels(patched)
    changed = {name: lines for name, lines in after.items() if lines not in before.values()}
    for name, lines in changed.items():
        known = max(
            before.values(),
            key=lambda each: SequenceMatcher(None, each, lines, autojunk=False).ratio(),
            default=[],
        )
        edits = SequenceMatcher(None, known, lines, autojunk=False).get_opcodes()
        old, new = next(
            (known[i:of_old][:1], lines[j:of_new][:1])
            for tag, i, of_old, j, of_new in edits
            if tag != "equal"
        )
        is_now = f"`{new[0]}`" if new else "nothing"
        return f"first difference in {name}: {is_now}" + (f" in place of `{old[0]}`" if old else "")
    return ""


def _kernels(module: ast.Module) -> dict[str, list[str]]:
    """Map the name of each Triton kernel in a generated module to the lines of its body."""
    found = {}
    for node in ast.walk(module):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="triton"),
                args=[ast.Constant(value=str(name)), ast.Constant(value=str(source)), *_],
            ):
                body = source.partition(f"def {name}(")[2].partition("\n")[2]
                found[name] = [line.strip() for line in body.splitlines() if line.strip()]
    return found


def _with_line(verdict: Verdict, line: str) -> Verdict:
    """Return the verdict, with the line of the kernel added if the verdict is red."""
    red = line and verdict.kind is Kind.REGRESSED
    return replace(verdict, actual=f"{verdict.actual}; {line}") if red else verdict


def judge_memory(case: Case, faults: list[Answer]) -> Verdicts:
    """PG516 if patched kernels have faults that unpatched kernels do not have."""
    if faults:
        places = tuple(map(_place, faults[:_SHOWN]))
        yield verdict("PG516", Kind.REGRESSED, case, "memory", _MEMORY, places)


def _place(fault: Answer) -> str:
    """The kernel, its fault, and the line if there is one. Faults of an operator or of the caller
    have no line.
    """
    line = f": `{fault['line']}`" if fault["line"] else ""
    return f"{fault['kernel']} {fault['what']}{line}"
