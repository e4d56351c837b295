"""Answers the question 'operators', which runs samples of operators."""

from __future__ import annotations

from typing import cast

from patchgate.probe.compile.observe import environment
from patchgate.probe.numerics import operator_samples
from patchgate.probe.numerics.sample_calls import op_db
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.patch.coverage import covering
from patchgate.probe.protocol import Operators, RunOperators, Stage


def run_operators(request: RunOperators, stage: Stage) -> Operators:
    """Run samples of operators and write the results to a file. If the request names no earlier
    file, make the samples first.
    """
    answer: Operators = {
        "operators": {},
        "unmeasured": "",
        "environment": environment(),
        "ran": [],
        "took": [],
        "callers": {},
    }
    if "unpatched" not in request:
        stage("samples")
        try:
            op_db()
        except ImportError as error:
            return {**answer, "unmeasured": str(error)}
        stage("run")
        return {
            **answer,
            "operators": operator_samples.write_samples(request, request["outputs"]),
        }
    written = operator_samples.read_samples(request["unpatched"])
    if not request.get("patch"):
        stage("run")
        is_alike = request.get("as_patched")
        run = operator_samples.run_samples if is_alike else operator_samples.rerun_samples
        run(written, request, request["outputs"])
        return answer
    apply_patch(request, stage)
    stage("run")
    with covering(request) as coverage:
        operator_samples.run_samples(written, request, request["outputs"])
    return cast(Operators, {**answer, **coverage})
