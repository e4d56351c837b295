"""Give processes that share a cache directory -> PG701 to PG709; and the void edit of PG703."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from patchgate.checks.cache import (
    AGAIN,
    EDITED,
    PATCHED,
    PATCHED_WARM,
    TAGGED,
    UNPATCHED,
    UNPATCHED_WARM,
    VARIED,
    VARIED_WARM,
    ask_cache,
    edited,
    is_stale,
    judge_cache,
    judge_failure,
    other_values,
    telling_case,
)
from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Instance
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model.policy import Colour, Kind
from patchgate.model.records import Case, Cause, Verdict, Workload
from patchgate.model.serialization import Answer
from patchgate.runner.client import Runner
from patchgate.runner.run_settings import Run

CASE = Case(torch="2.11.0", device="cpu", workload="chain", patch="mine")
PATCH = Patch(id="mine", path="patch.py", source="", claims=Claims(title="Mine"))
NONE = {
    "hit": 0,
    "miss": 0,
    "bypass": 0,
    "autograd_hit": 0,
    "autograd_miss": 0,
    "autograd_bypass": 0,
}
MISS = NONE | {"miss": 1, "autograd_miss": 1}
HIT = NONE | {"hit": 1, "autograd_hit": 1}
BYPASS = NONE | {"bypass": 1}
FAILURE = {
    "failure": {
        "cause": "raised",
        "stage": "compile",
        "signature": "TypeError: boom",
        "where": "patch.py:3",
    }
}
OURS, THEIRS = ["a"], ["b"]


def ran(code: list[str], answers: dict[str, int]) -> Answer:
    return {"code": code, "answers": answers}


# A patch that the cache knows of, process by process.
KNOWN = {
    UNPATCHED: ran(OURS, MISS),
    PATCHED_WARM: ran(THEIRS, MISS),
    PATCHED: ran(THEIRS, MISS),
    UNPATCHED_WARM: ran(OURS, MISS),
    EDITED: ran(THEIRS, MISS),
    AGAIN: ran(THEIRS, HIT),
}
STALE = {PATCHED_WARM: ran(OURS, HIT), UNPATCHED_WARM: ran(THEIRS, HIT), TAGGED: ran(THEIRS, MISS)}
SAME = {name: ran(OURS, HIT) for name in (PATCHED, PATCHED_WARM, UNPATCHED_WARM)}


def judge(**changed: Answer) -> list[Verdict]:
    return judge_cache(CASE, PATCH, KNOWN | changed)


@pytest.mark.parametrize(
    ("answer", "patches", "questions"),
    [
        (ran(OURS, HIT), ["x = 1\n"] * 2, [3, 3]),
        (ran(OURS, HIT), ["x = 1\n", "x = 2\n"], [3, 6]),
        (FAILURE, ["x = 1\n"] * 2, [3, 6]),
    ],
)
def test_what_processes_of_one_folder_answered_is_kept_for_the_same_patch(
    folder: Path, answer: Answer, patches: list[str], questions: list[int]
) -> None:
    asked: list[str] = []
    workload = Workload(name="chain", path=str(folder / "chain.py"), dtype="float32")
    (folder / "chain.py").write_text("import torch\n")
    for number, text in enumerate(patches):
        (folder / "mine.py").write_text(text)
        patch = Patch(
            id="mine", path=str(folder / "mine.py"), source=text, claims=Claims(title="Mine")
        )
        run = Run(
            folder=str(folder / str(number)),
            patch=patch.path,
            rows={},
            patched_cache=str(folder / "kept"),
        )
        keeping: Any = Runner(run=run, connect=None, logs={}, identities={CASE.torch: "a"})  # type: ignore[arg-type]
        runner: Any = SimpleNamespace(
            ask=lambda torch, do, *_, **more: asked.append(do) or answer,
            keep=keeping.keep,
            costs=None,
        )
        context = CheckContext(run, patch, {"chain": workload}, runner)
        codes = [verdict.code for verdict in ask_cache(context, Instance(case=CASE))]
        assert codes == ["PG709" if answer is FAILURE else "PG705"]
        assert asked.count("cached") == questions[number]


@pytest.mark.parametrize(
    ("changed", "reached", "told"),
    [
        ({"chain", "step"}, {}, "chain"),
        ({"step"}, {}, "step"),
        ({"trained"}, {}, "trained"),
        ({"trained", "step"}, {}, "step"),
        (set(), {}, "chain"),
        (set(), {"step"}, "step"),
        ({"trained"}, {"step"}, "trained"),
    ],
)
def test_cache_is_judged_where_the_patch_changes_code(
    changed: set[str], reached: set[str], told: str
) -> None:
    def observations(case: Case) -> tuple[Any, Any]:
        kernels = 2 if case.workload in changed else 1
        return SimpleNamespace(failure=None, facts={"kernels": 1}), SimpleNamespace(
            failure=None, facts={"kernels": kernels}
        )

    def workload(name: str) -> Any:
        return SimpleNamespace(training=name == "trained")

    names = ("chain", "trained", "step")
    context: Any = SimpleNamespace(
        observed_cases=lambda torch: [replace(CASE, torch=torch, workload=name) for name in names],
        observations=observations,
        lines_run=lambda case: {3, 4} if case.workload in reached else {1},
        workload=workload,
        apply=lambda torch: {"replacements": {"torch.nn.GELU.forward": [4]}},
    )
    assert telling_case(context, replace(CASE, workload="chain")).workload == told


@pytest.mark.parametrize(
    ("changed", "codes"),
    [
        ({}, ["PG705"]),
        (STALE, ["PG701", "PG701"]),
        (STALE | {UNPATCHED_WARM: KNOWN[UNPATCHED_WARM]}, ["PG701"]),
        (STALE | {PATCHED_WARM: KNOWN[PATCHED_WARM]}, ["PG701"]),
        ({PATCHED: ran(THEIRS, BYPASS)}, ["PG702"]),
        ({PATCHED: ran(THEIRS, NONE | {"autograd_bypass": 1})}, ["PG702", "PG705"]),
        ({PATCHED: ran(THEIRS, BYPASS), UNPATCHED: ran(OURS, BYPASS)}, ["PG705"]),
        ({EDITED: ran(THEIRS, HIT)}, ["PG703"]),
        ({EDITED: ran(THEIRS, NONE | {"autograd_hit": 1})}, ["PG703"]),
        ({EDITED: FAILURE}, ["PG705"]),
        ({AGAIN: ran(THEIRS, MISS)}, ["PG704"]),
        (SAME | {AGAIN: ran(OURS, MISS)}, ["PG704"]),
        (SAME | {AGAIN: ran(OURS, HIT)}, ["PG705"]),
        (SAME, ["PG705"]),
    ],
)
def test_each_state_of_the_cache_has_its_code(changed, codes):
    assert [verdict.code for verdict in judge(**changed)] == codes


@pytest.mark.parametrize(("changed", "stale"), [({}, False), (STALE, True), (SAME, False)])
def test_code_that_a_cold_cache_would_not_give_is_stale(changed, stale):
    assert is_stale(KNOWN | changed) is stale


def test_a_hit_alone_is_not_stale():
    """Counters do not decide: the same code from the cache is the right code."""
    (verdict,) = judge(**{PATCHED_WARM: ran(THEIRS, HIT)})
    assert verdict.code == "PG705"


def test_a_patch_that_changes_no_code_is_not_judged_and_not_red():
    (verdict,) = judge(**SAME)
    assert (verdict.kind, verdict.colour) == (Kind.NOTE, Colour.GREEN)
    assert "cannot be judged here" in verdict.actual


def test_a_stale_artifact_is_reported_with_what_the_cache_said_and_a_remedy_that_was_tried():
    patched, unpatched = judge(**STALE)
    assert patched.actual == (
        "the unpatched code ran; FX graph cache: 1 hit; AOTAutograd cache: 1 hit"
    )
    assert unpatched.actual.startswith("the patched code ran")
    assert "cache_key_tag" in patched.advice
    assert "Tried on torch 2.11.0" in patched.advice
    assert (patched.subject, unpatched.subject) == (
        "chain.cpu patched after unpatched",
        "chain.cpu unpatched after patched",
    )


@pytest.mark.parametrize("tagged", [FAILURE, ran(OURS, HIT), ran(THEIRS, HIT)])
def test_a_remedy_that_does_not_work_here_is_not_recommended(tagged):
    assert judge(**STALE | {TAGGED: tagged})[0].advice.startswith(
        "Give the patch a TORCHINDUCTOR_CACHE_DIR of its own"
    )


def test_code_of_neither_side_is_stale_too():
    (verdict,) = judge(
        **STALE | {PATCHED_WARM: ran(["c"], HIT), UNPATCHED_WARM: KNOWN[UNPATCHED_WARM]}
    )
    assert verdict.actual.startswith("code of neither side ran")


def failed(cause: Cause) -> dict[str, Any]:
    return {"failure": FAILURE["failure"] | {"cause": cause.value}}


@pytest.mark.parametrize(
    ("failures", "code", "colour"),
    [
        ({PATCHED: failed(Cause.RAISED)}, "PG706", Colour.RED),
        ({PATCHED_WARM: failed(Cause.HUNG)}, "PG706", Colour.RED),
        ({PATCHED: failed(Cause.MACHINE)}, "PG709", Colour.GREY),
        ({UNPATCHED: failed(Cause.MACHINE)}, "PG709", Colour.GREY),
        ({UNPATCHED: failed(Cause.HUNG)}, "PG709", Colour.GREY),
        ({UNPATCHED: failed(Cause.RAISED)}, "PG709", Colour.GREY),
        ({PATCHED: failed(Cause.RAISED), UNPATCHED: failed(Cause.RAISED)}, "PG709", Colour.GREY),
    ],
)
def test_a_process_that_fails_is_the_patchs_fault_only_when_it_alone_does(failures, code, colour):
    verdict = judge_failure(CASE, KNOWN | failures)
    assert verdict is not None
    assert (verdict.code, verdict.colour, verdict.where) == (code, colour, "patch.py:3")


def test_without_a_failure_there_is_no_verdict_of_one():
    assert judge_failure(CASE, KNOWN) is None


SOURCE = '''
"""A patch."""

VALUE = 3  # a comment


def f(x):
    """Doubles."""
    return x + x


class Pass:
    def uuid(self):
        return "mine"

    async def later(self):
        return [value async for value in self.all()]
'''


def run(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(source, names)
    return names


def test_an_edit_changes_every_function_and_no_result():
    before, after = run(SOURCE), run(edited(SOURCE))
    for one, other in ((before["f"], after["f"]), (before["Pass"].uuid, after["Pass"].uuid)):
        assert one.__code__.co_code != other.__code__.co_code
    assert (after["f"](2), after["f"].__doc__, after["Pass"]().uuid(), after["VALUE"]) == (
        4,
        "Doubles.",
        "mine",
        3,
    )


def test_a_text_that_is_not_python_is_refused():
    with pytest.raises(SyntaxError):
        edited("def (")


@pytest.mark.parametrize(("ran_warm", "codes"), [(THEIRS, ["PG703"]), (["c"], ["PG705"])])
def test_a_variable_that_the_patch_reads_is_in_its_key(
    ran_warm: list[str], codes: list[str]
) -> None:
    varied = {
        VARIED.format("RANK=1"): ran(["c"], MISS),
        VARIED_WARM.format("RANK=1"): ran(ran_warm, HIT),
    }
    verdicts = judge_cache(CASE, PATCH, KNOWN | varied)
    assert [one.code for one in verdicts] == codes
    assert codes == ["PG705"] or verdicts[0].fact == "with RANK=1"


def test_variables_that_a_patch_reads_get_another_value() -> None:
    reads = "rank = int(os.environ.get('RANK', '0'))\non = os.getenv('MINE', '1')\n"
    assert other_values(reads) == {"RANK": "1", "MINE": "0"}
    assert (
        other_values(
            "os.environ['MINE'] = '1'\nos.environ.get(name)\nos.environ.get('TORCH_LOGS')\n"
        )
        == {}
    )
    assert other_values("home = os.environ.get('HOME')\ncache = os.getenv('MY_CACHE_DIR')\n") == {}


def test_a_variable_gets_a_value_that_the_patch_asks_for() -> None:
    named = "MODE = os.environ.get('MODE', 'exact')\nif MODE == 'exact' or MODE in ('fast',):\n    x = 1\n"
    assert other_values(named) == {"MODE": "fast"}
    assert other_values("fast = os.getenv('MODE') == 'fast'\nother = x == 'slow'\n") == {
        "MODE": "fast"
    }
    assert other_values("MODE = os.getenv('MODE')\nother = x == 'slow'\n") == {"MODE": "1"}


def test_a_variable_is_read_by_a_function_of_the_patch() -> None:
    reader = "def flag(name, default='0'):\n    return os.environ.get(name, default)\n"
    assert other_values(reader + "on = flag('MINE', '1')\n") == {"MINE": "0"}
    assert other_values(reader + "on = flag('MODE') == 'fast'\n") == {"MODE": "fast"}
    assert other_values("def flag(name):\n    return name\non = flag('MINE')\n") == {}
    assert other_values("if 'MINE' in os.environ:\n    x = 1\n") == {"MINE": "1"}


def test_edit_is_no_evidence_if_the_captured_graph_has_the_change() -> None:
    answers = KNOWN | {EDITED: ran(THEIRS, HIT)}
    assert [verdict.code for verdict in judge_cache(CASE, PATCH, answers, in_key=True)] == ["PG705"]
    assert [verdict.code for verdict in judge_cache(CASE, PATCH, answers, in_key=False)] == [
        "PG703"
    ]
