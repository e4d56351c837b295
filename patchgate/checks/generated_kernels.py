"""Does the code that is generated for a simulated GPU compute what it computes unpatched? By
Triton's interpreter.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Check, Instance, NothingToJudge, verdict_of
from patchgate.checks.parity import compared_sides, judge_numbers, outputs_of
from patchgate.inputs.manifest import Patch
from patchgate.model.records import Case, Kind, Verdict, read_codes
from patchgate.model.serialization import Answer
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
    interpreter cannot run
    them: something needs a real device, or the interpreter lacks it.
    Why: Numbers that were not computed prove nothing to a reviewer.
    Fix: Read the reason. Judge the patch on a machine with the GPU:
    `patchgate gate PATCH --device cuda`.
""")
verdict = partial(verdict_of, FAMILY)
_SHOWN = 3


def simulated_devices(run: Run) -> list[str]:
    """The run's first simulated GPU, and at night every one."""
    devices = [device for device in run.devices if run.profile(device)["kind"] == "simulated"]
    return devices if run.nightly else devices[:1]


@Check(axes=("torch", "device", "workload"), devices=simulated_devices, seconds=5, unchanged="few")
def ask_generated_kernels(context: CheckContext, at: Instance) -> Iterable[Verdict]:
    if "parity" not in context.workload(at.case.workload).checks:
        raise NothingToJudge("its numbers are not compared")
    codes = [
        _code(context, observed.case) for observed in context.observations(at.case, measured=True)
    ]
    if not all(codes):
        raise NothingToJudge("it does not compile on one side, which the facts of its kernels tell")
    if codes[0] == codes[1]:
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
    with TemporaryDirectory() as folder:
        metrics = compared_sides(
            context, at.case, partial(_run, context, at.case), "differ", Path(folder)
        )
    if isinstance(metrics, Verdict):
        # Where unpatched code fails too, it is the interpreter that fails.
        return [_not_run(at.case, metrics.actual) if metrics.kind is Kind.DRIFTED else metrics]
    if "unmeasured" in metrics:
        return [_not_run(at.case, metrics["unmeasured"])]
    return [
        *judge_numbers(at.case, context.patch, metrics),
        *judge_memory(at.case, metrics["memory"]),
    ]


def _not_run(case: Case, reason: str) -> Verdict:
    return verdict("PG517", Kind.ASSUMED, case, "", "runs in Triton's interpreter", reason)


def _code(context: CheckContext, case: Case) -> str:
    """The code that was generated, without its comments; empty where there is none."""
    path = context.runner.code_path(case)
    text = path.read_text("utf-8") if path.is_file() else ""
    with contextlib.suppress(SyntaxError):
        return ast.dump(ast.parse(text)) if text else ""
    return text


def _run(context: CheckContext, case: Case, patch: Patch | None, path: Path) -> Answer:
    return outputs_of(context, case, "run", patch, path)


def judge_memory(case: Case, faults: list[Mapping[str, Any]]) -> Iterator[Verdict]:
    """PG516 where patched kernels have faults that unpatched ones have not."""
    if faults:
        places = tuple(
            f"{fault['kernel']} {fault['what']}: `{fault['line']}`" for fault in faults[:_SHOWN]
        )
        expected = (
            "loads what was written, inside of its buffers, and stores one value to an address"
        )
        yield verdict("PG516", Kind.REGRESSED, case, "memory", expected, places)
