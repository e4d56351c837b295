"""Test the questions that the checks of a run share, and which answers are believed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from expecttest import assert_expected_inline

from patchgate.checks.api import ask_api
from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Check, Instance, NothingToJudge, all_checks
from patchgate.checks.framework.golden_verdicts import fact_verdicts, judge_facts
from patchgate.checks.framework.instances import instances_of, verdicts_of
from patchgate.checks.graph import ask_graph
from patchgate.checks.machine import preconditions
from patchgate.checks.parity import outputs_of
from patchgate.inputs.golden import GoldenFile
from patchgate.inputs.manifest import Claims, Patch
from patchgate.model import paths
from patchgate.model.errors import UsageError
from patchgate.model.facts import UNPATCHED
from patchgate.model.records import Case, Facts, Observation, Workload
from patchgate.model.versions import parse_range
from patchgate.runner.client import Runner
from patchgate.runner.request_costs import COSTS, load_costs
from patchgate.runner.run_settings import Run

COUNTS = {"facts": {"kernels.defined": 1}, "expected": {"kernels.defined": 1}}
DOES_NOT = {"facts": {"kernels.defined": 0}, "expected": {"kernels.defined": 1}}
CASE = Case(torch="2.11.0", device="h200", workload="stack", patch="mine")
ON_CPU = replace(CASE, device="cpu")
OWN = Workload(name="pointwise", path=str(paths.WORKLOADS / "pointwise.py"), dtype="float32")
FOREIGN = Workload(name="theirs", path="workloads/theirs.py", dtype="float32")
WORKLOADS = {"stack": Workload(name="stack", path="stack.py", dtype="bfloat16", dynamic=True)}


class Asked(list[SimpleNamespace]):
    """In place of a runner: gives one answer to every question and keeps what it was asked."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__()
        self.answer = answer
        self.identities = dict[str, str]()
        self.costs: Path | None = None

    def ask(
        self, torch: str, do: str, seconds: float | None = None, **request: Any
    ) -> dict[str, Any]:
        self.append(SimpleNamespace(torch=torch, do=do, seconds=seconds, **request))
        return self.answer

    def observe(
        self,
        case: Case,
        workload: Workload,
        patch: Patch | None,
        cover: bool = False,
        held: object = (),
    ) -> Observation:
        self.append(SimpleNamespace(case=case, patch=patch, cover=cover))
        facts = {"loads.max": 4 if patch else 6}
        return Observation(case=case, facts=facts, ran=(1, 2) if cover else ())

    def keep(self, ask: Callable[[], dict[str, Any]], *_: object) -> dict[str, Any]:
        return ask()


def compiles_of(asked: Asked) -> list[SimpleNamespace]:
    """The questions, without those that import the patch."""
    return [question for question in asked if question.do != "apply"]


Make = Callable[..., tuple[CheckContext, Asked]]


@pytest.fixture
def made(folder: Path) -> Make:
    """The context of a patch below the working directory, and what it asked."""

    def make(
        answer: dict[str, Any] = COUNTS, manifest: str | None = None
    ) -> tuple[CheckContext, Asked]:
        (folder / "mine.py").write_text("x = 1\n")
        if manifest is not None:
            (folder / "mine.toml").write_text(manifest)
        path = str(folder / "mine.toml") if manifest is not None else None
        claims = Claims(title="Mine", targets=("torch.a",))
        patch = Patch(
            id="mine", path=str(folder / "mine.py"), source="x = 1\n", claims=claims, manifest=path
        )
        asked = Asked(answer)
        run, runner = Run(folder=str(folder / "out"), patch=patch.path, rows={}), asked
        return CheckContext(run, patch, dict(WORKLOADS), runner), asked  # type: ignore[arg-type]

    return make


def test_the_command_that_repeats_a_run_is_the_one_to_type(made):
    assert str(made()[0].run.again) == "patchgate gate mine.py --folder out"


@pytest.mark.parametrize(("answer", "doubts"), [(COUNTS, []), (DOES_NOT, ["PG902"])])
def test_nothing_is_believed_where_the_sentinel_does_not_count(made, answer, doubts):
    context, _ = made(answer)
    assert [verdict.code for verdict in preconditions(context, "2.11.0", "h200")] == doubts


def test_nothing_is_asked_of_a_patch_that_does_not_run(made):
    context, asked = made()
    context.sentinel("2.11.0", "h200")
    asked.answer = {"failure": {"cause": "hung", "stage": "patch", "signature": "did not end"}}
    assert [verdict.code for verdict in preconditions(context, "2.11.0", "h200")] == ["PG210"]
    assert [question.do for question in asked] == ["sentinel", "apply"]


def test_the_sentinel_is_asked_once_for_each_torch_and_device(made):
    context, asked = made()
    for torch, device in [
        ("2.11.0", "h200"),
        ("2.11.0", "cpu"),
        ("2.11.0", "h200"),
        ("2.12.1", "h200"),
    ]:
        context.sentinel(torch, device)
    assert [(question.torch, question.profile["backend"]) for question in asked] == [
        ("2.11.0", "cuda"),
        ("2.11.0", "cpu"),
        ("2.12.1", "cuda"),
    ]


@pytest.mark.parametrize(
    ("manifest", "where"),
    [(None, "mine.py:1"), ('title = "T"\ntargets = []\n', "mine.toml:2"), ("", "mine.toml")],
)
def test_a_claim_is_found_in_the_manifest_or_else_in_the_patch(made, manifest, where):
    assert made(manifest=manifest)[0].patch.place_of("targets") == where


def test_a_patch_is_imported_on_a_simulated_device(made):
    context, asked = made(COUNTS | {"findings": []})
    context.apply("2.11.0")
    list(ask_api(context, Instance(case=context.case("2.11.0"))))
    assert [question.profile["kind"] for question in asked] == ["simulated", "simulated"]
    assert (asked[0].version, asked[1].targets) == ("2.11.0", ["torch.a"])


def test_both_sides_of_a_workload_are_observed(made):
    context, asked = made()
    context.observations(CASE)
    cases = [question.case for question in asked if hasattr(question, "case")]
    assert set(cases) == {
        Case(torch="2.11.0", device="h200", workload="stack"),
        Case(torch="2.11.0", device="h200", workload="stack", patch="mine"),
    }


@pytest.mark.parametrize(
    ("unpatched", "patched", "how", "asked_for"),
    [
        ({"loads.max": 4, "resources.spills": 0}, {}, {}, ["mine"]),
        ({"loads.max": 4}, {}, {"measured": True}, ["mine", None]),
        ({"loads.max": 4}, {}, {"nightly": True}, ["mine", None]),  # its facts have a history
        ({"loads.max": 4}, {}, {"states_torch": True}, ["mine", None]),  # says a pull request
        ({"loads.max": 4}, {}, {"device": "cuda"}, ["mine", None]),  # its facts are recorded
        (
            {"loads.max": 4},
            {},
            {"torch": "2.12.0.dev20260101"},
            ["mine", None],
        ),  # and these, for the release itself
        ({"loads.max": 4, "stores.max": 1}, {}, {}, ["mine", None]),  # a fact that is gone
        ({"loads.max": 6}, {}, {}, ["mine", None]),
        ({"loads.max": 6}, {"loads.max": 4}, {}, ["mine", None]),  # torch may do the same by now
        ({}, {"loads.max": 4}, {}, ["mine", None]),
        ({"failure": "boom"}, {}, {}, ["mine", None]),
        ({}, {}, {}, ["mine", None]),
    ],
)
def test_without_the_patch_nothing_is_measured_where_the_record_says_all(
    made: Make, unpatched: Facts, patched: Facts, how: dict[str, Any], asked_for: list[str | None]
) -> None:
    context, asked = made()
    context.run = replace(context.run, nightly="nightly" in how)
    sections = {UNPATCHED: unpatched, "mine": patched}
    recorded = {
        name: {fact: {parse_range("2.11.0"): value} for fact, value in facts.items()}
        for name, facts in sections.items()
    }
    stated = "states_torch" in how
    context.golden = lambda *of: GoldenFile(*of, recorded, states_torch=stated)  # type: ignore[method-assign, assignment]
    sides = context.observations(
        replace(CASE, **{name: how[name] for name in ("device", "torch") if name in how}),
        measured="measured" in how,
    )
    assert [one.case.patch for one in asked if hasattr(one, "case")] == asked_for
    assert [side.case.patch for side in sides] == [None, "mine"]
    assert [side.facts for side in sides] == [
        {"loads.max": 6 if None in asked_for else 4},
        {"loads.max": 4},
    ]


def test_a_side_that_is_not_compiled_is_noted_once(made: Make, folder: Path) -> None:
    context, asked = made()
    asked.costs = folder / COSTS
    recorded = {UNPATCHED: {"loads.max": {parse_range("2.11.0"): 4}}}
    context.golden = lambda workload, device: GoldenFile(workload, device, recorded)  # type: ignore[method-assign, assignment]
    for _ in range(2):
        context.observations(CASE)
    assert len(load_costs(folder)) == 1


def test_a_patched_side_starts_with_what_was_built_unpatched_in_a_folder_of_its_own(
    made: Make,
) -> None:
    context, asked = made()
    for patch in (None, context.patch):
        context.ask_building("2.11.0", "run", "cpu", patch=patch, workload=OWN)
    unpatched, patched = compiles_of(asked)
    assert patched.libraries == unpatched.env["TORCHINDUCTOR_CACHE_DIR"]
    assert not hasattr(unpatched, "libraries")
    assert Path(patched.env["TORCHINDUCTOR_CACHE_DIR"]).parent == Path(patched.libraries).parent


def test_judgements_of_one_watch_ask_again_what_another_text_of_the_patch_may_answer(
    made: Make, folder: Path
) -> None:
    """An edit of the manifest measures nothing again; one of the code does, with the C++ that is
    built already.

    Outside of a watch what is kept is of the same manifest.
    """
    first, asked = made({"counts": {}}, manifest='title = "Mine"\n')

    def ask(patch: Patch, question: str = "recompiles", watch: str = "watch-1") -> int:
        run = replace(first.run, patched_cache=str(folder / (watch or "patched")), watch=watch)
        keeping = Runner(run=run, connect=None, logs={}, identities={"2.11.0": "torch"})  # type: ignore[arg-type]
        asked.keep = keeping.keep  # type: ignore[method-assign]
        context = CheckContext(run, patch, {}, asked)  # type: ignore[arg-type]
        before = len(compiles_of(asked))
        context.ask_building("2.11.0", question, "cpu", patch=patch, workload=OWN)
        return len(compiles_of(asked)) - before

    assert [
        ask(first.patch),
        ask(first.patch),
        ask(first.patch, watch=""),
        ask(first.patch, watch=""),
    ] == [1, 0, 1, 0]
    (folder / "mine.toml").write_text('title = "Ours"\n')
    assert ask(replace(first.patch, claims=Claims(title="Ours"))) == 0
    assert ask(replace(first.patch, claims=Claims(title="Ours")), watch="") == 1
    assert ask(first.patch, "time") == ask(first.patch, "time") == 1
    (folder / "mine.py").write_text("x = 2\n")
    assert ask(replace(first.patch, source="x = 2\n")) == 1
    built = [question.env["TORCHINDUCTOR_CACHE_DIR"] for question in compiles_of(asked)]
    assert [Path(each).name for each in (built[0], built[-1])] == ["watch-1-patched"] * 2
    assert not Path(built[1]).name.startswith("watch-1")


def test_a_workload_that_comes_with_a_patch_shares_no_folder_with_the_unpatched_side(
    made: Make,
) -> None:
    context, asked = made()
    for patch, workload in ((None, OWN), (None, FOREIGN), (context.patch, FOREIGN)):
        context.ask_building("2.11.0", "run", "cpu", patch=patch, workload=workload)
    compiled = compiles_of(asked)
    caches = [question.env["TORCHINDUCTOR_CACHE_DIR"] for question in compiled]
    assert len(set(caches)) == 3
    assert [question.libraries for question in compiled[1:]] == [caches[0]] * 2


def test_threads_of_a_run_share_the_import_of_the_patch(made: Make) -> None:
    context, asked = made()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(context.apply, ["2.11.0"] * 40))
    assert (answers, len(asked)) == ([COUNTS] * 40, 1)


def test_where_a_patch_hangs_under_one_version_each_is_asked_alone(made: Make) -> None:
    """A reply for all of them that is none says nothing of the others."""
    context, asked = made()
    changes = {"changed": ["torch.a"]}
    hung = {"failure": {"cause": "hung", "stage": "patch", "signature": "did not end"}}

    def ask(torch: str, do: str, seconds: float | None = None, **request: Any) -> dict[str, Any]:
        versions = request["versions"]
        asked.append(SimpleNamespace(versions=versions))
        return hung if "2.12.0" in versions else {"versions": dict.fromkeys(versions, changes)}

    asked.ask = ask  # type: ignore[method-assign]
    assert context.apply_under("2.11.0", ["2.10.0", "2.11.1"], context.patch) == {
        "2.10.0": changes,
        "2.11.1": changes,
    }
    assert context.apply_under("2.11.0", ["2.10.0", "2.12.0"], context.patch) == {
        "2.10.0": changes,
        "2.12.0": hung,
    }
    assert [one.versions for one in asked] == [
        ["2.10.0", "2.11.1"],
        ["2.10.0", "2.12.0"],
        ["2.10.0"],
        ["2.12.0"],
    ]


NOTHING: dict[str, Any] = {
    **{what: [] for what in ("changed", "defined", "effects", "held", "calls")},
    "package": "",
    "facts": {"kernels.defined": 1},
    "expected": {"kernels.defined": 1},
}
OTHERWISE = NOTHING | {"changed": ["torch.a"]}
# A project's workloads, and the two that come with patchgate and are measured where nothing
# changed.
SUITE = {
    name: Workload(
        name=name,
        path=str(paths.WORKLOADS / f"{name}.py"),
        dtype="float32",
        checks=("kernels", "parity"),
    )
    for name in ("residual_chain", "prenorm_mlp", "pointwise")
}


def unchanged(
    made: Make, applied: dict[str, Any] = NOTHING, moved: str = "", **run: Any
) -> CheckContext:
    """The context of a patch that does this, and changes a fact of the workload `moved` alone."""
    context, asked = made(applied)
    context.patch = replace(
        context.patch, claims=replace(context.patch.claims, applies_to="==2.12.1")
    )
    context.run, context.workloads = replace(context.run, rows={"2.11.0": ""}, **run), dict(SUITE)
    observe = asked.observe

    def observed(
        case: Case, workload: Workload, patch: Patch | None, cover: bool = False, held: object = ()
    ) -> Observation:
        return replace(
            observe(case, workload, patch, cover),
            facts={"loads.max": 4 + bool(patch and case.workload == moved)},
        )

    asked.observe = observed  # type: ignore[method-assign]
    return context


@pytest.mark.parametrize(
    ("applied", "moved", "run", "is_unchanged"),
    [
        (NOTHING, "", {}, True),
        *(
            (NOTHING | {what: ["torch.a"]}, "", {}, False)
            for what in ("changed", "defined", "effects", "held", "calls")
        ),
        (NOTHING | {"package": "theirs"}, "", {}, False),  # what that changes is not listed
        ({"failure": {}}, "", {}, False),
        (NOTHING, "pointwise", {}, False),  # what was not seen shows there
        (NOTHING, "residual_chain", {}, True),
        (NOTHING, "", {"nightly": True}, False),
        (NOTHING, "", {"workloads": ("residual_chain",)}, False),
        (NOTHING, "", {"checks": ("kernels",)}, False),
    ],
)
def test_nothing_changed_where_no_change_is_seen_and_few_workloads_show_none(
    made: Make, applied: dict[str, Any], moved: str, run: dict[str, Any], is_unchanged: bool
) -> None:
    context = unchanged(made, applied, moved, **run)
    assert context.is_unchanged("2.11.0") is is_unchanged
    if "failure" not in applied and "workloads" not in run:
        compiled = {case.workload for case in context.observed_cases("2.11.0")}
        assert compiled == SUITE.keys() - ({"residual_chain"} if is_unchanged else set())


def is_asked(check: Check, at: Instance, context: CheckContext) -> bool:
    try:
        verdicts_of(replace(check, ask=lambda context, at: ()), at, context)
    except NothingToJudge:
        return False
    return True


@pytest.mark.parametrize("moved", ["", "pointwise"])
def test_where_nothing_changed_few_workloads_are_measured_with_the_patch_and_the_rest_is_not(
    made: Make, moved: str
) -> None:
    context = unchanged(made, moved=moved)
    checks = [all_checks()[name] for name in ("kernels", "parity", "tokens", "plain_run")]
    asked = {
        (check.name, at.case.workload)
        for check in checks
        for at in instances_of(check, context)
        if is_asked(check, at, context)
    }
    few = {
        (name, workload)
        for name in ("kernels", "parity")
        for workload in ("prenorm_mlp", "pointwise")
    }
    rest = {("kernels", "residual_chain"), ("parity", "residual_chain"), ("tokens", "decoder")}
    assert asked == few | {("plain_run", "")} | (rest if moved else set())


@pytest.mark.parametrize(
    ("applies_to", "elsewhere", "is_unchanged"),
    [
        ("==2.12.1", NOTHING, True),
        ("==2.11.0", NOTHING, False),
        (None, NOTHING, False),
        (None, OTHERWISE, True),
    ],
)
def test_a_patch_is_measured_in_full_on_a_release_that_it_is_for(
    made: Make, applies_to: str | None, elsewhere: dict[str, Any], is_unchanged: bool
) -> None:
    """It may offer functions that a workload calls.

    Without a claim it is for those on which it changes something.
    """
    context = unchanged(made)
    context.patch = replace(
        context.patch, claims=replace(context.patch.claims, applies_to=applies_to)
    )
    context.run = replace(context.run, rows={"2.11.0": "", "2.12.1": ""})
    context._shared["apply 2.12.1"] = elsewhere
    assert context.is_unchanged("2.11.0") is is_unchanged


def test_what_a_project_brings_is_measured_first_where_nothing_changed(made: Make) -> None:
    context = unchanged(made)
    context.workloads["theirs"] = replace(
        SUITE["pointwise"], name="theirs", path="workloads/theirs.py"
    )
    assert context.few_workloads("parity") == ["theirs", "pointwise"]


@pytest.mark.parametrize(
    ("replacements", "lines", "asked_for"),
    [
        ({"torch.a": [1]}, [1, 2], [True, False]),  # the first case ran both
        ({"torch.a": [1]}, [1, 2, 3], [True, True]),
        ({}, [1, 2, 3], [False, False]),  # nothing is replaced on this torch
    ],
)
def test_lines_are_traced_until_all_ran(made, replacements, lines, asked_for):
    """Tracing takes as long again as the compile."""
    context, asked = made(COUNTS | {"replacements": replacements, "functions": {"f:1": lines}})
    context.only = (CASE, ON_CPU)
    for device in ("h200", "cpu"):
        context.observations(replace(CASE, device=device))
    assert [one.cover for one in asked if hasattr(one, "case") and one.patch] == asked_for


def test_a_case_that_does_not_count_takes_no_line_from_those_that_do(made):
    """Their order is chance."""
    patch = {"replacements": {"torch.a": [1]}, "functions": {"f:1": [1]}}
    context, asked = made(COUNTS | patch | {"ran": [1]})
    context.only = (CASE,)
    for case in (ON_CPU, CASE):
        context.observations(case)
    assert [one.cover for one in asked if hasattr(one, "case") and one.patch] == [False, True]
    assert (context.lines_run(ON_CPU), asked[-1].cover) == ({1}, True)


def test_an_unknown_workload_is_refused_with_those_that_there_are(made):
    with pytest.raises(UsageError) as refused:
        made(manifest='[symptom]\nworkload = "stak"\n')[0].workload("stak")
    assert_expected_inline(
        str(refused.value),
        """\
mine.toml:2: no workload `stak`
  got:  stak
  next: one of: stack""",
    )


def test_facts_are_judged_by_the_check_that_they_belong_to(made):
    context, _ = made()
    judged = {
        name: fact_verdicts(context, name, CASE, partial(judge_facts, name))
        for name in ("kernels", "graph")
    }
    assert [verdict.code for verdict in judged["kernels"]] == ["PG303"]
    assert list(judged["graph"]) == []
    with pytest.raises(NothingToJudge, match="judged by the kernels check"):
        ask_graph(context, Instance(case=CASE))


def test_what_a_patch_compiled_is_never_run_unpatched(made, folder):
    context, asked = made({})
    for patch in (None, context.patch):
        outputs_of(context, ON_CPU, "run", patch, Path("outputs"))
    compiled = compiles_of(asked)
    unpatched, patched = (question.env["TORCHINDUCTOR_CACHE_DIR"] for question in compiled)
    assert unpatched != patched
    assert {question.profile["backend"] for question in compiled} == {"cpu"}
    assert [question.patch for question in compiled] == [None, context.patch.path]
    assert all(
        binaries.startswith(str(folder / "cpp" / "2.11.0")) for binaries in (unpatched, patched)
    )


@pytest.mark.parametrize(
    ("checks", "nightly", "small"),
    [((), False, False), ((), True, True), (("equivalence",), False, True)],
)
def test_small_inputs_are_tried_where_forms_are_and_at_night(made, checks, nightly, small):
    context, asked = made({})
    context.run = replace(context.run, nightly=nightly)
    context.workloads = {"stack": replace(WORKLOADS["stack"], checks=checks)}
    outputs_of(context, ON_CPU, "run", None, Path("outputs"))
    assert asked[0].small is small
    assert asked[0].seconds == context.run.limits.seconds * (3 if small else 1)


def test_a_workload_that_trains_has_the_time_of_two_graphs(made):
    context, asked = made({})
    context.workloads = {"stack": replace(WORKLOADS["stack"], training=True)}
    outputs_of(context, ON_CPU, "run", None, Path("outputs"))
    assert (asked[0].training, asked[0].seconds) == (True, 2 * context.run.limits.seconds)


def test_what_this_run_builds_is_none_that_an_earlier_one_has_built(made, folder):
    context, _ = made({})
    context._binaries("2.11.0", context.patch, context.workload("stack")).mkdir(parents=True)
    assert not context.was_built(ON_CPU, context.patch)
    later, _ = made({})
    assert later.was_built(ON_CPU, later.patch)
    assert not later.was_built(ON_CPU, None)


def test_a_foreign_workload_of_another_text_finds_nothing_that_was_built(made, folder):
    context, _ = made({})
    places = []
    for text in ("x = 1\n", "x = 2\n", "x = 1\n"):
        (folder / "own.py").write_text(text)
        workload = replace(WORKLOADS["stack"], path=str(folder / "own.py"))
        places.append(
            [context._binaries("2.11.0", side, workload) for side in (None, context.patch)]
        )
    assert places[0] == places[2]
    assert len({place for both in places for place in both}) == 4


@pytest.mark.parametrize("name", ["re po", "it's", "b\\s"])
def test_cpp_is_built_where_a_command_line_can_name_the_folder(made, folder, monkeypatch, name):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "home"))
    context, asked = made({})
    for binaries in (folder / name / "cpp", folder / name / "other"):
        context.run = replace(context.run, binaries=str(binaries))
        outputs_of(context, ON_CPU, "run", None, Path("outputs"))
    first, second = (Path(question.env["TORCHINDUCTOR_CACHE_DIR"]) for question in asked)
    assert first != second
    assert {each.parents[2] for each in (first, second)} == {folder / "home" / "patchgate" / "cpp"}


def test_two_files_of_outputs_are_compared_on_the_cpu(made):
    context, asked = made({"metrics": {}})
    assert context.differences("2.11.0", "differ", Path("a"), Path("b")) == {"metrics": {}}
    assert (asked[0].unpatched, asked[0].patched, asked[0].do) == ("a", "b", "differ")


@pytest.mark.parametrize(
    ("signature", "times"),
    [("ImportError: /x/c4v.main.so: file too short", 2), ("ImportError: no module x", 1)],
)
def test_half_a_library_that_somebody_left_is_nobody_s_fault(made, folder, signature, times):
    context, asked = made({"failure": {"cause": "raised", "stage": "run", "signature": signature}})
    outputs_of(context, ON_CPU, "run", context.patch, Path("outputs"))
    caches = [question.env["TORCHINDUCTOR_CACHE_DIR"] for question in compiles_of(asked)]
    assert (len(caches), len(set(caches))) == (times, times)


def test_holders_that_load_after_the_patch_get_its_replacements(made):
    holders = {
        "torch.x.f": ["torch.y.f", "torch.z.f", "torch.y.table[f]"],
        "torch.a": ["torch.y.a"],
    }
    later = ["torch.y.a", "torch.y.f", "torch.y.table[f]"]
    context, asked = made({"holders": holders, "changed": [*holders], "later": later})
    context.ask("2.11.0", "run", "cpu", patch=context.patch)
    assert asked[-1].later == {"torch.y.f": "torch.x.f"}  # `torch.a` is claimed
    context.ask("2.11.0", "surface", "h200", patch=context.patch)
    assert not hasattr(asked[-1], "later")
