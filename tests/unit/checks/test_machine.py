"""Judge environments that cannot be believed: PG901 to PG904, PG906, PG908,
PG909."""

from __future__ import annotations

from typing import Any

import pytest

from patchgate.checks.machine import (
    judge_broken,
    judge_contradicted,
    judge_environment,
    judge_sandbox,
    judge_sentinel,
    judge_undeviced,
)
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Case, Verdict

EXPECTED = {"kernels.defined": 1, "loads": [2]}
FAILURE = {"cause": "machine", "stage": "server", "signature": "did not answer"}


RAISED = {"cause": "raised", "stage": "compile", "signature": "AttributeError: no V.graph"}


def sentinel(**answer: Any) -> Verdict:
    return judge_sentinel(
        Case(torch="2.11.0", device="h200", workload="sentinel"), {"expected": EXPECTED} | answer
    )


def test_a_row_without_an_environment_is_not_judged():
    verdict = judge_environment("2.11.0", "no wheel")
    assert (verdict.code, verdict.kind, verdict.actual) == ("PG901", Kind.INFRA, "no wheel")
    assert (verdict.torch, verdict.subject, verdict.expected) == (
        "2.11.0",
        "environment",
        "a working torch",
    )


def test_a_kept_answer_that_was_wrong_is_a_fault_of_the_machine_and_grey():
    verdict = judge_contradicted("2.11.0", "observe")
    assert (verdict.code, verdict.kind, verdict.colour) == ("PG909", Kind.INFRA, Colour.GREY)
    assert (verdict.torch, verdict.subject) == ("2.11.0", "kept answers")
    assert "`observe`" in verdict.actual


def test_what_ended_without_a_verdict_is_our_own_defect_and_grey():
    verdict = judge_broken("test_check[kernels]", "a verdict", "OSError: no disk")
    assert (verdict.code, verdict.kind, verdict.colour) == ("PG904", Kind.INFRA, Colour.GREY)
    assert (verdict.torch, verdict.subject, verdict.actual) == (
        "",
        "test_check[kernels]",
        "OSError: no disk",
    )


def test_counters_that_count_are_green_whatever_else_they_count():
    verdict = sentinel(facts=EXPECTED | {"bytes.total": 9})
    assert (verdict.code, verdict.colour, verdict.actual) == ("PG903", Colour.GREEN, "2 as known")


@pytest.mark.parametrize(
    ("answer", "actual"),
    [
        ({"facts": EXPECTED | {"loads": [0]}}, "loads = [0], not [2]"),
        ({"facts": {"loads": [2]}}, "kernels.defined = None, not 1"),
        ({"facts": {}}, "kernels.defined = None, not 1; loads = None, not [2]"),
        ({"failure": RAISED}, "AttributeError: no V.graph, during `compile`"),
        (
            {"failure": RAISED | {"signature": "ImportError: moved"}},
            "ImportError: moved, during `compile`",
        ),
    ],
)
def test_counters_that_do_not_count_void_the_row(answer, actual):
    verdict = sentinel(**answer)
    assert (verdict.code, verdict.colour, verdict.subject) == (
        "PG902",
        Colour.GREY,
        "sentinel.h200",
    )
    assert verdict.actual == actual


@pytest.mark.parametrize(
    ("cause", "stage", "signature", "code"),
    [
        (
            "machine",
            "server",
            "the probe of torch 2.11.0 did not answer; its log ends: ImportError: libc10",
            "PG901",
        ),
        ("raised", "compile", "ModuleNotFoundError: No module named 'torch._inductor.ir'", "PG901"),
        ("out-of-memory", "compile", "MemoryError", "PG905"),
        ("hung", "compile", "no answer in 60 s", "PG905"),
        ("crashed", "compile", "killed by SIGSEGV", "PG905"),
        ("machine", "compile", "OSError: No space left on device", "PG905"),
    ],
)
def test_a_machine_or_a_torch_that_fails_is_not_said_to_have_wrong_facts(
    cause, stage, signature, code
):
    failure = {
        "cause": cause,
        "stage": stage,
        "signature": signature,
        "raised_at": "torch/_inductor/graph.py:3",
    }
    verdict = sentinel(failure=failure)
    assert (verdict.code, verdict.colour, signature in verdict.actual) == (code, Colour.GREY, True)


def test_what_no_simulation_can_tell_is_a_note_of_the_check_that_asked():
    verdict = judge_undeviced(
        "kernels",
        Case(torch="2.11.0", device="h200", workload="mlp_max_autotune"),
        "needs one: it runs candidates",
    )
    assert (verdict.code, verdict.colour, verdict.check) == ("PG906", Colour.GREEN, "kernels")
    assert (verdict.expected, verdict.actual) == ("a real device", "needs one: it runs candidates")
    assert verdict.subject == "mlp_max_autotune.h200"
    ranks = Case(torch="2.11.0", device="cuda", workload="two_ranks")
    assert judge_undeviced("parity", ranks, "this machine has 1", "2 GPUs").expected == "2 GPUs"


COMPLETE: dict[str, Any] = {
    "namespaces": ["user", "mount", "pid", "ipc", "net"],
    "landlock": 7,
    "reads": True,
}


@pytest.mark.parametrize(
    ("confinement", "required", "kind", "actual"),
    [
        (
            {},
            True,
            Kind.PASS,
            "namespaces: user, mount, pid, ipc, net; Landlock 7; reads what it needs",
        ),
        (
            {"namespaces": ["mount", "pid", "ipc", "net"]},
            True,
            Kind.PASS,
            "namespaces: mount, pid, ipc, net; Landlock",
        ),
        ({"landlock": 0}, False, Kind.NOTE, "; no Landlock; "),
        ({"landlock": 0}, True, Kind.INFRA, "; no Landlock; "),
        ({"reads": False}, True, Kind.INFRA, "; reads everything"),
        ({"namespaces": []}, False, Kind.NOTE, "namespaces: none; "),
        (
            {"namespaces": ["user", "mount", "ipc", "net"]},
            True,
            Kind.INFRA,
            "namespaces: user, mount, ipc, net; ",
        ),
    ],
)
def test_what_a_sandbox_lacks_is_a_note_or_where_it_is_required_a_reason_to_judge_nothing(
    confinement, required, kind, actual
):
    answer = {"facts": {}, "confinement": COMPLETE | confinement}
    (verdict,) = judge_sandbox(Case(torch="2.11.0"), answer, required=required)
    assert (verdict.code, verdict.kind, verdict.subject) == ("PG908", kind, "sandbox")
    assert actual in verdict.actual


def test_where_no_child_answers_nothing_is_known_of_its_sandbox():
    assert judge_sandbox(Case(torch="2.11.0"), {"failure": FAILURE}, required=True) == []
