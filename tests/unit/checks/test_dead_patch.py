"""A patch that changes nothing on any release: PG221, once a run, and its neighbours that are
green.
"""

from __future__ import annotations

from typing import Any

import pytest

from patchgate.checks.dead_patch import ask_dead_patch, judge_changes, judge_part
from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Instance, NothingToJudge, all_checks
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Command, Verdict
from patchgate.runner.run_settings import Run

CASE = Case(torch="2.11.0", patch="mine")
AGAIN = Command(name="gate", arguments=("/p/patch.py", "--row 2.11.0=python", "--workload stack"))
NOTHING: dict[str, Any] = {"changed": [], "defined": [], "effects": [], "held": [], "calls": []}
FAILED = {"failure": {"cause": "raised", "stage": "patch", "signature": "boom"}}
CHANGED = NOTHING | {"changed": ["torch.a"]}
OPERATOR = NOTHING | {"defined": ["mine::double"]}
SETTING = NOTHING | {"effects": [{"kind": "config", "name": "X", "older": []}]}
SOURCE = (
    "import torch\n\n\ndef helper():\n    torch.a = 1\n\n\ndef apply(level=1):\n    helper()\n"
    "\n\ndef display_path():\n    pass\n"
)


def judge(
    source: str = SOURCE,
    applies_to: str | None = None,
    targets: tuple[str, ...] | None = None,
    **answers: dict[str, Any],
) -> Verdict:
    """The verdict on what running the patch changed, by release (`v2_11_0=`)."""
    claims = Claims(title="Mine", applies_to=applies_to, targets=targets)
    patch = Patch(id="mine", path="/p/patch.py", source=source, claims=claims)
    releases = {name[1:].replace("_", "."): answer for name, answer in answers.items()}
    return judge_changes(CASE, patch, releases, AGAIN)


@pytest.mark.parametrize(
    ("targets", "kind"), [(("torch.a",), Kind.REGRESSED), (None, Kind.WARNING)]
)
def test_changing_nothing_anywhere_is_red_where_targets_are_claimed(targets, kind):
    verdict = judge(targets=targets, v2_11_0=NOTHING, v2_12_1=NOTHING)
    assert (verdict.code, verdict.kind, verdict.where) == ("PG221", kind, "/p/patch.py:8")
    assert verdict.actual == "nothing on 2.11.0, 2.12.1; nothing in the file calls `apply`"
    assert 'apply = "apply"' in verdict.advice
    assert [str(command) for command in verdict.commands] == [
        "patchgate gate /p/patch.py::apply --row 2.11.0=python --workload stack"
    ]


def test_every_function_that_would_replace_something_is_named():
    verdict = judge(SOURCE + "\n\ndef other():\n    setattr(torch, 'b', 2)\n", v2_11_0=NOTHING)
    assert 'apply = ["apply", "other"]' in verdict.advice
    assert len(verdict.commands) == 2


def test_a_change_inside_of_objects_is_a_change():
    inside = NOTHING | {"held": ["torch.b.handlers[]"]}
    verdict = judge(v2_11_0=inside)
    assert (verdict.code, verdict.kind, verdict.actual) == (
        "PG211",
        Kind.PASS,
        "on 2.11.0: torch.b.handlers[]",
    )


def test_what_may_have_changed_something_in_cpp_is_grey_and_names_its_calls():
    calling = NOTHING | {"calls": ["torch.set_float32_matmul_precision"]}
    verdict = judge(v2_11_0=calling, v2_12_1=NOTHING)
    assert (verdict.code, verdict.kind) == ("PG221", Kind.WARNING)
    assert (
        verdict.actual
        == "nothing on 2.11.0, 2.12.1 that can be seen; it calls torch.set_float32_matmul_precision"
    )


def test_what_calls_all_its_functions_is_red_at_its_first_line():
    verdict = judge(SOURCE + "\n\napply()\n", v2_11_0=NOTHING)
    assert (verdict.code, verdict.where, verdict.actual) == (
        "PG221",
        "/p/patch.py:1",
        "nothing on 2.11.0",
    )


READS = """import os
if os.environ.get("MINE") or "ALSO" in os.environ or os.getenv('THEN') == "1" and os.environ["LAST"]:
    import torch
    torch.a = 1
os.environ["WRITTEN_TOO"] = "1"
"""


def test_what_a_variable_switches_on_is_red_with_the_variables_that_it_reads():
    verdict = judge(READS, v2_11_0=NOTHING)
    assert (
        verdict.actual
        == "nothing on 2.11.0; it reads ALSO, LAST, MINE, THEN, which the gate does not set"
    )
    assert 'environment = ["ALSO=...", ' in verdict.advice
    claims = Claims(title="Mine", environment=("MINE=1", "ALSO=", "THEN=a=b", "LAST=1"))
    patch = Patch(id="mine", path="/p/patch.py", source=READS, claims=claims)
    assert judge_changes(CASE, patch, {"2.11.0": NOTHING}, AGAIN).actual == "nothing on 2.11.0"


@pytest.mark.parametrize("answer", [CHANGED, OPERATOR, SETTING])
def test_a_change_on_one_release_is_enough(answer):
    verdict = judge(v2_11_0=NOTHING, v2_12_1=answer)
    assert (verdict.code, verdict.kind, verdict.actual) == ("PG211", Kind.PASS, "on 2.12.1")


@pytest.mark.parametrize(
    ("applies_to", "code"),
    [(None, "PG221"), (">=2.13", "PG211"), (">=2.12", "PG221"), ("==2.11.0", "PG221")],
)
def test_a_patch_that_is_gated_out_everywhere_is_not_dead(applies_to, code):
    assert judge(applies_to=applies_to, v2_11_0=NOTHING, v2_12_1=NOTHING).code == code


def test_a_patch_that_claims_to_replace_nothing_may_do_nothing():
    patch = Patch(
        id="mine", path="/p/patch.py", source=SOURCE, claims=Claims(title="Mine", targets=())
    )
    verdict = judge_changes(CASE, patch, {"2.11.0": NOTHING}, AGAIN)
    assert (verdict.code, verdict.kind) == ("PG211", Kind.PASS)


@pytest.mark.parametrize(("scope", "asked"), [(None, True), ("patched", False)])
def test_a_scope_is_judged_by_its_own_check(scope, asked):
    """A scope may change something in a compile only."""
    patch = Patch(id="mine", path="p.py", source="", claims=Claims(title="Mine", scope=scope))
    assert all_checks()["dead_patch"].wanted(Run(folder="f", patch="p.py", rows={}), patch) is asked


PART = Patch(id="p", path="/p/patch.py", source="", claims=Claims(title="P", apply=("first(1)",)))


@pytest.mark.parametrize(
    ("alone", "together", "code", "kind", "actual"),
    [
        (CHANGED, CHANGED, "PG211", Kind.PASS, "torch.a"),
        (SETTING, NOTHING, "PG211", Kind.PASS, "X"),
        (NOTHING, CHANGED, "PG221", Kind.REGRESSED, "nothing on 2.11.0"),
        (
            CHANGED,
            NOTHING | {"changed": ["torch.b"]},
            "PG811",
            Kind.REGRESSED,
            "undone by the other functions: torch.a",
        ),
        (FAILED, CHANGED, "PG211", Kind.NOTE, "boom, during `patch`"),
    ],
)
def test_each_call_is_judged_alone_and_beside_the_others(alone, together, code, kind, actual):
    verdict = judge_part(CASE, PART, {"2.11.0": alone}, {"2.11.0": together})
    assert (verdict.code, verdict.kind, verdict.actual, verdict.fact) == (
        code,
        kind,
        actual,
        "first(1)",
    )


class Answering:
    """In place of a runner: an answer to `apply` for each release."""

    def __init__(self, faked: dict[str, Any], **answers: dict[str, Any]) -> None:
        self.faked = faked  # the answer under each other version
        self.answers = {name[1:].replace("_", "."): answer for name, answer in answers.items()}

    def ask(
        self, torch: str, do: str, seconds: float | None = None, **request: Any
    ) -> dict[str, Any]:
        assert do in ("apply", "applies")
        return (
            {"versions": dict.fromkeys(request["versions"], self.faked)}
            if do == "applies"
            else self.answers[torch]
        )

    def keep(self, ask: Any, *_: object) -> Any:
        return ask()


def ask(torch: str, faked: dict[str, Any] = NOTHING, **answers: dict[str, Any]) -> list[Verdict]:
    runner: Any = Answering(faked, **answers)
    patch = Patch(id="mine", path="p.py", source="", claims=Claims(title="Mine"))
    run = Run(folder="f", patch="p.py", rows=dict.fromkeys(runner.answers, "python"))
    context = CheckContext(run, patch, {}, runner)
    return list(ask_dead_patch(context, Instance(case=Case(torch=torch, patch="mine"))))


def test_it_is_asked_once_a_run_of_the_releases_on_which_the_patch_runs():
    (verdict,) = ask("2.11.0", v2_11_0=FAILED, v2_12_1=NOTHING)
    assert (verdict.code, verdict.actual) == ("PG221", "nothing on 2.12.1")
    with pytest.raises(NothingToJudge, match=r"with torch 2\.11\.0"):
        ask("2.12.1", v2_11_0=NOTHING, v2_12_1=NOTHING)
    with pytest.raises(NothingToJudge, match="does not run"):
        ask("2.11.0", v2_11_0=FAILED, v2_12_1=FAILED)


@pytest.mark.parametrize("faked", [CHANGED, NOTHING, FAILED])
def test_what_changes_torch_on_a_release_that_the_run_leaves_out_is_grey(faked):
    (verdict,) = ask("2.11.0", faked, v2_11_0=NOTHING)
    narrowed = faked is CHANGED
    assert (verdict.code, verdict.kind) == ("PG221", Kind.WARNING)
    assert ("under the version 2.12.1 it changes torch" in verdict.actual) is narrowed
    assert ("--torch 2.12.1" in verdict.advice) is narrowed


def test_what_was_not_measured_again_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CheckContext, "is_unchanged", lambda context, torch: torch != "2.10.0")
    answers = {"v2_10_0": CHANGED, "v2_11_0": NOTHING, "v2_12_1": NOTHING}
    changed, rest = ask("2.10.0", **answers)
    assert (changed.actual, rest.code) == ("on 2.10.0", "PG211")
    assert rest.actual == (
        "the patch changes nothing on 2.11.0, 2.12.1: only a few workloads were measured there"
    )


def test_what_only_offers_a_backend_or_a_pass_is_not_dead():
    offering = NOTHING | {"offers": ["pass fold"]}
    verdict = judge(v2_11_0=offering)
    assert (verdict.code, verdict.actual) == ("PG211", "nothing, and offers pass fold")
