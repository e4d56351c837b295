"""Asking a fork server: what is sent, what is tried again, and what a silent server means."""

import json
import socket
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from patchgate.inputs.manifest import Claims, Patch
from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import Project
from patchgate.model.records import Case, Cause, Unmeasured, Workload
from patchgate.probe.process.message_schema import refusal
from patchgate.probe.protocol import QUESTIONS, Compare, Question
from patchgate.runner.client import Runner
from patchgate.runner.files_read import changed_since_read
from patchgate.runner.request_costs import COSTS, load_costs
from patchgate.runner.run_settings import Limits, Run

CASE = Case(torch="2.11.0", device="h200", workload="stack")
WORKLOAD = Workload(name="stack", path="stack.py", dtype="bfloat16")
PATCH = Patch(id="mine", path="mine.py", source="", claims=Claims(title="Mine"))
MACHINE = {"failure": {"cause": "machine", "stage": "server", "signature": "disk full"}}
RAISED = {"failure": {"cause": "raised", "stage": "patch", "signature": "boom"}}
FACTS = {
    "facts": {"loads": [2, 6], "bytes": {"unmeasured": "no counter"}},
    "environment": {"torch": "2.11.0"},
}


class FakeServer:
    """Gives the answers that it was told, one a question; `asked` holds the questions that it
    got.
    """

    def __init__(self):
        self.asked, self.answers, self.threads = [], [], []

    def __call__(self, *answers):
        self.answers = list(answers)
        return self.asked

    def connect(self, torch, do):
        if not self.answers:
            raise OSError("no server")
        ours, theirs = socket.socketpair()
        self.threads.append(
            threading.Thread(target=self._answer, args=[theirs, self.answers.pop(0)], daemon=True)
        )
        self.threads[-1].start()
        return ours

    def _answer(self, connection, answer):
        with connection, connection.makefile("rb") as file:
            self.asked.append(json.loads(file.readline()))
            connection.sendall(
                answer if isinstance(answer, bytes) else json.dumps(answer).encode() + b"\n"
            )


@pytest.fixture
def server():
    fake = FakeServer()
    yield fake
    for thread in fake.threads:
        thread.join(timeout=10)


@pytest.fixture
def runner(folder, server):
    run = Run(folder=str(folder), patch="", rows={}, limits=Limits(seconds=5, bytes=1000))
    return Runner(
        run=run, connect=server.connect, logs={"2.11.0": "log"}, identities={"2.11.0": "torch"}
    )


def test_a_child_and_not_the_server_is_given_the_projects_folders(server, runner):
    asked = server(FACTS, FACTS)
    runner.ask("2.11.0", "observe")
    project = Project(root="/project", path=("src",))
    replace(runner, run=replace(runner.run, project=project)).ask("2.11.0", "observe")
    assert [question.get("import_path") for question in asked] == [None, ["/project/src"]]
    assert "import_path" in Question.__annotations__


def test_a_request_is_noted_with_what_its_child_computed(folder, runner, server):
    server({"changed": [], "cpu": {"child": 1.5, "warm_up": 4.0}})
    assert replace(runner, costs=folder / COSTS).ask("2.11.0", "apply", version="2.12.0") == {
        "changed": []
    }
    (note,) = load_costs(folder)
    assert (note["do"], note["version"], note["child"], note["warm_up"]) == (
        "apply",
        "2.12.0",
        1.5,
        4.0,
    )
    assert load_costs(folder / "elsewhere") == []


@pytest.mark.parametrize(
    ("text", "changed", "questions"),
    [
        ("import torch\n", {}, 1),
        ("import importlib\nimportlib.import_module('torch._inductor')\n", {}, 1),
        ("import torch\n", {"limits": Limits(seconds=2)}, 2),
        ("import mine\n", {}, 2),
        ("import importlib\nimportlib.import_module('mine')\n", {}, 2),
        ("import importlib\nimportlib.import_module('torch' + name)\n", {}, 2),
        ("from . import mine\n", {}, 2),
        ("from importlib import import_module\nimport_module('torch')\n", {}, 1),
        ("from importlib import import_module as load\nload('mine')\n", {}, 2),
        ("import importlib\nload = importlib.import_module\nload('mine')\n", {}, 2),
        ("open(f'{torch}.json')\n", {}, 2),
        ("def f(:\n", {}, 2),
    ],
)
def test_what_was_measured_with_the_same_patch_is_kept(
    folder, runner, server, text, changed, questions
):
    """But not where other modules decide, which are no part of the patch's digest."""
    asked = server(*[FACTS | {"ran": [3]}] * questions)
    for name in ("mine.py", "stack.py"):
        (folder / name).write_text(text if name == "mine.py" else "import torch\n")
    patch, kept = replace(PATCH, path=str(folder / "mine.py")), str(folder / "kept")
    for number, settings in enumerate(({}, changed)):
        run = replace(runner.run, folder=str(folder / str(number)), patched_cache=kept, **settings)
        workload = replace(WORKLOAD, path=str(folder / "stack.py"))
        one = replace(runner, run=run, identities={"2.11.0": "a"})
        assert one.observe(replace(CASE, patch="mine"), workload, patch, cover=True).ran == (3,)
    assert len(asked) == questions


KEPT, OTHER, THIRD = ({"facts": {"loads": [number]}} for number in range(3))


@pytest.mark.parametrize(
    ("fresh", "believed", "is_contradicted", "is_kept"),
    [
        ([KEPT], KEPT, False, True),
        ([OTHER, KEPT], KEPT, False, True),
        ([MACHINE, MACHINE], KEPT, False, True),  # a failure of the machine is asked twice
        ([OTHER, THIRD], THIRD, False, False),
        ([OTHER, OTHER], OTHER, True, False),
        ([RAISED, RAISED], RAISED, True, False),
    ],
)
def test_a_kept_answer_that_fresh_ones_contradict_is_not_believed(
    folder, runner, server, fresh, believed, is_contradicted, is_kept
):
    kept = str(folder / "kept")
    run = replace(runner.run, shared_cache=kept)
    checking = replace(runner, run=run, checked=1.0)
    ask, question = partial(checking.ask, "2.11.0", "apply"), {"do": "apply"}
    asked = server(KEPT)
    checking.keep(ask, "2.11.0", None, question)
    server(*fresh)
    assert checking.keep(ask, "2.11.0", None, question) == believed
    assert checking.contradicted == [("2.11.0", "apply")] * is_contradicted
    assert len(asked) == 1 + len(fresh)
    assert any(Path(kept).rglob("*.json")) is is_kept


def test_only_answers_of_earlier_runs_are_noted_as_kept(folder, runner, server):
    costs = folder / COSTS
    run = replace(runner.run, shared_cache=str(folder / "kept"))
    first = replace(runner, run=run, costs=costs)
    ask, question = partial(runner.ask, "2.11.0", "apply"), {"do": "apply"}
    server(KEPT)
    for later, noted in ((first, 0), (first, 0), (replace(first, saved=set()), 1)):
        later.keep(ask, "2.11.0", None, question)
        notes = load_costs(folder) if costs.exists() else []
        assert sum("unasked" in each for each in notes) == noted


def test_the_seconds_of_a_cell_without_what_is_kept_are_known_to_a_later_run(
    folder, runner, server, monkeypatch
):
    (folder / "mine.py").write_text("import torch\n")
    patch, now = replace(PATCH, path=str(folder / "mine.py"), source="import torch\n"), [0.0]
    monkeypatch.setattr("patchgate.runner.client.time.monotonic", lambda: now[0])

    def measured(question: dict[str, Any], *, kept: bool = True) -> dict[str, Any]:
        now[0] += 8
        inner = {"do": "code", "code": question["do"]}
        if kept:  # a question within a question
            first.keep(lambda: {"facts": {}}, "2.11.0", None, inner)
        return {"changed": []} if kept else MACHINE

    kept = str(folder / "kept")
    first = replace(runner, run=replace(runner.run, shared_cache=kept, patched_cache=kept))
    for name, is_kept in (("parity-1", True), ("api-1", False)):
        with first.timed("2.11.0", name):
            question = {"do": name}
            first.keep(partial(measured, question, kept=is_kept), "2.11.0", patch, question)
            now[0] += 2
    first.keep_seconds(patch)
    later = replace(first, run=replace(first.run, folder=str(folder / "other")), seconds={})
    assert later.seconds_kept("2.11.0", patch) == {"parity-1": 2, "api-1": 10}
    assert later.seconds_kept("2.12.1", patch) == {}
    # The part that is measured again by chance is expected to take as long as before.
    checking = replace(later, checked=0.25, saved=set(), seconds={})
    monkeypatch.setattr("patchgate.runner.client.random.random", lambda: 0)
    with checking.timed("2.11.0", "parity-1"):
        checking.keep(partial(measured, {"do": "parity-1"}), "2.11.0", patch, {"do": "parity-1"})
    checking.keep_seconds(patch)
    assert later.seconds_kept("2.11.0", patch) == {"parity-1": 2, "api-1": 10}
    (folder / "mine.py").write_text("import torch  # edited\n")
    assert later.seconds_kept("2.11.0", patch) == {}


def test_an_answer_may_name_its_process(folder, runner, server):
    texts = (f"<Pass object at {at}> in /tmp/run-{at}/lib" for at in ("0x7f3a", "0x7f3b", "0x7f3b"))
    kept, *fresh = ({"again": text} for text in texts)
    run = replace(runner.run, shared_cache=str(folder / "kept"))
    checking = replace(runner, run=run, checked=1.0)
    ask, question = partial(checking.ask, "2.11.0", "apply"), {"do": "apply"}
    server(kept)
    checking.keep(ask, "2.11.0", None, question)
    server(*fresh)
    assert checking.keep(ask, "2.11.0", None, question) == kept
    assert checking.contradicted == []


def test_what_contradicts_one_answer_is_believed_of_no_other(folder, runner, server):
    run = replace(runner.run, shared_cache=str(folder / "kept"), patched_cache=str(folder / "mine"))
    runner = replace(runner, run=run)
    ask = partial(runner.ask, "2.11.0", "apply")
    server(*[KEPT] * 3)
    for version in "ab":
        runner.keep(ask, "2.11.0", None, {"do": "apply", "version": version})
    (folder / "mine" / "ab").mkdir(parents=True)
    (folder / "mine" / "ab" / "abc.json").write_text("{}")
    server(OTHER, OTHER)
    replace(runner, checked=1.0).keep(ask, "2.11.0", None, {"do": "apply", "version": "a"})
    assert not any(folder.rglob("*/*.json"))


def test_outputs_are_those_of_the_answer_that_is_believed(folder, runner):
    """The second measurement of two wrote other outputs by chance."""
    outputs, written = folder / "outputs", iter(["kept", "other", "kept"])

    def ask():
        outputs.write_text(next(written))
        return dict(KEPT)

    runner = replace(runner, run=replace(runner.run, shared_cache=str(folder / "kept")))
    question = {"do": "run", "outputs": str(outputs)}
    runner.keep(ask, "2.11.0", None, question)
    replace(runner, checked=1.0).keep(ask, "2.11.0", None, question)
    assert (outputs.read_text(), list(written), runner.contradicted) == ("kept", [], [])


@pytest.mark.parametrize(
    ("cause", "questions"), [("raised", 1), ("missing", 1), ("hung", 2), ("machine", 2)]
)
def test_an_answer_of_which_a_part_failed_by_chance_is_not_kept(
    folder, runner, server, cause, questions
):
    (folder / "mine.py").write_text("import torch\n")
    failed = {"failure": {"cause": cause, "stage": "patch", "signature": "boom"}}
    asked = server(*[{"versions": {"2.11.0": {}, "2.12.0": failed}}] * 2)
    run = replace(runner.run, patched_cache=str(folder / "kept"))
    one, patch = replace(runner, run=run), replace(PATCH, path=str(folder / "mine.py"))
    for _ in range(2):
        ask = partial(one.ask, "2.11.0", "applies", patch=patch.path)
        one.keep(ask, "2.11.0", patch, {"do": "applies", "patch": patch.path})
    assert len(asked) == questions


def test_a_file_that_a_folder_patch_opens_is_part_of_what_is_kept(folder, runner, server):
    asked, place = server(FACTS, FACTS), folder / "mine"
    place.mkdir()
    (place / "patch.py").write_text("open(f'{name}.json')\n")
    (folder / "stack.py").write_text("import torch\n")
    workload, patch = (
        replace(WORKLOAD, path=str(folder / "stack.py")),
        replace(PATCH, path=str(place / "patch.py")),
    )
    for number, table in enumerate(("{}", "{}", "[]")):
        (place / "h100.json").write_text(table)
        run = replace(
            runner.run, folder=str(folder / str(number)), patched_cache=str(folder / "kept")
        )
        replace(runner, run=run).observe(replace(CASE, patch="mine"), workload, patch)
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("opened", "questions"),
    [([], 1), (["mine.py"], 1), (["stack.py"], 1), (["helper.py"], 2), (["mine.py", "?"], 2)],
    ids=str,
)
@pytest.mark.parametrize("side", ["patched", "unpatched"])
def test_what_read_a_file_that_no_key_covers_is_not_kept(
    folder, runner, server, opened, questions, side
):
    asked = server(
        *[FACTS | {"opened": [str(folder / name) if name != "?" else name for name in opened]}] * 2
    )
    for name in ("mine.py", "stack.py", "helper.py"):
        (folder / name).write_text("import torch\n")
    patch = replace(PATCH, path=str(folder / "mine.py")) if side == "patched" else None
    workload = replace(WORKLOAD, path=str(folder / "stack.py"))
    for number in range(2):
        kept = {"patched_cache": str(folder / "kept"), "shared_cache": str(folder / "shared")}
        one = replace(
            runner,
            run=replace(runner.run, folder=str(folder / str(number)), **kept),
            identities={"2.11.0": "a"},
        )
        assert one.observe(replace(CASE, patch=patch and patch.id), workload, patch).facts
    assert len(asked) == (questions if patch or "mine.py" not in opened else 2)


@pytest.mark.parametrize("edited", ["mine/patch.py", "mine/table.json", "stack.py", ""])
def test_an_answer_during_which_something_was_edited_is_not_kept(
    folder, runner, edited, monkeypatch
):
    """Nobody knows of which text it is, and the old one may come back."""
    (folder / "mine").mkdir()
    for name in ("mine/patch.py", "mine/table.json", "stack.py"):
        (folder / name).write_text("x = 1\n")
    patch = replace(PATCH, path=str(folder / "mine" / "patch.py"))

    def exchange(*asked):
        if edited:
            (folder / edited).write_text("x = 2\n")
        return dict(FACTS)

    monkeypatch.setattr(Runner, "_exchange", exchange)
    workload = replace(WORKLOAD, path=str(folder / "stack.py"))
    one = replace(runner, run=replace(runner.run, patched_cache=str(folder / "kept")))
    one.observe(replace(CASE, patch="mine"), workload, patch)
    assert bool([*(folder / "kept").rglob("*.json")]) is (not edited)


def test_a_patch_that_asks_where_it_lies_is_measured_again_in_another_folder(
    folder, runner, server
):
    asked = server(*[FACTS] * 3)
    (folder / "stack.py").write_text("import torch\n")
    workload = replace(WORKLOAD, path=str(folder / "stack.py"))
    for text, questions in (("x = 1\n", 1), ("print(__file__)\n", 3)):
        for name in ("one", "two"):
            (folder / name).mkdir(exist_ok=True)
            (folder / name / "patch.py").write_text(text)
            run = replace(
                runner.run, folder=str(folder / text[0] / name), patched_cache=str(folder / "kept")
            )
            patch = replace(PATCH, path=str(folder / name / "patch.py"))
            replace(runner, run=run).observe(replace(CASE, patch="mine"), workload, patch)
        assert len(asked) == questions


def test_what_children_read_is_noted_once_in_the_folder_of_the_run(folder, runner, server):
    (folder / "helper.py").write_text("x = 1\n")
    opened = [str(folder / "helper.py"), "mine.py"]
    server(*[FACTS | {"opened": opened}] * 2)
    for _ in range(2):
        runner.ask("2.11.0", "apply", patch="mine.py")
    assert (folder / "read.jsonl").read_text().count("\n") == 1
    assert changed_since_read(folder) == []
    (folder / "helper.py").write_text("x = 2\n")
    assert changed_since_read(folder) == [str(folder / "helper.py")]


def test_lines_of_the_same_patch_are_traced_once(folder, runner, server):
    """A case that was measured with them needs no other measurement; one that was not does."""
    asked = server(FACTS, FACTS | {"ran": [3]})
    for name in ("mine.py", "stack.py"):
        (folder / name).write_text("import torch\n")
    patch, workload = (
        replace(PATCH, path=str(folder / "mine.py")),
        replace(WORKLOAD, path=str(folder / "stack.py")),
    )
    for number, cover in enumerate((False, True, False, True)):
        run = replace(
            runner.run, folder=str(folder / str(number)), patched_cache=str(folder / "kept")
        )
        replace(runner, run=run).observe(replace(CASE, patch="mine"), workload, patch, cover=cover)
    assert [question["cover"] for question in asked] == [False, True]


@pytest.mark.parametrize(("session", "questions"), [(False, 2), (True, 1)])
def test_an_edited_manifest_is_measured_again_but_within_a_watch(
    folder, runner, server, session, questions
):
    for name in ("mine.py", "stack.py"):
        (folder / name).write_text("x = 1\n")
    asked, workload = server(FACTS, FACTS), replace(WORKLOAD, path=str(folder / "stack.py"))
    kept = {"patched_cache": str(folder / "kept"), "watch": "watch-1" if session else ""}
    for numerics in ("rounding", "changes"):
        (folder / "mine.toml").write_text(f'title = "Mine"\nnumerics = "{numerics}"\n')
        one = replace(runner, run=replace(runner.run, folder=str(folder / numerics), **kept))
        one.observe(replace(CASE, patch="mine"), workload, load_patch(folder / "mine.py"))
    assert len(asked) == questions


def test_a_question_carries_the_limits(runner, server):
    asked = server({"changed": []})
    assert runner.ask("2.11.0", "apply", version="2.12.0") == {"changed": []}
    assert asked == [{"do": "apply", "version": "2.12.0", "limits": {"seconds": 5, "bytes": 1000}}]


@pytest.mark.parametrize(("kind", "allowed"), [("real", 0), ("simulated", 1000), ("codegen", 1000)])
def test_memory_is_not_limited_on_a_real_device(runner, server, kind, allowed):
    asked = server({})
    runner.ask("2.11.0", "apply", profile={"kind": kind})
    assert asked[0]["limits"]["bytes"] == allowed


def test_a_failure_of_the_machine_is_tried_once_more(runner, server):
    asked = server(MACHINE, {"changed": []})
    assert runner.ask("2.11.0", "apply") == {"changed": []}
    assert len(asked) == 2


def test_a_machine_that_fails_twice_is_reported(runner, server):
    server(MACHINE, MACHINE)
    assert runner.ask("2.11.0", "apply") == MACHINE


def test_a_failure_of_the_patch_is_not_tried_again(runner, server):
    asked = server(RAISED)
    assert (runner.ask("2.11.0", "apply"), len(asked)) == (RAISED, 1)


def test_what_compares_finished_files_is_a_step_of_ours():
    compares = {do for do, question in QUESTIONS.items() if question.request is Compare}
    assert compares <= {do for do, question in QUESTIONS.items() if question.is_own}


LATE = {"failure": {"cause": "hung", "stage": "differ", "signature": "did not end in time"}}


@pytest.mark.parametrize("do", [do for do, question in QUESTIONS.items() if question.is_own])
@pytest.mark.parametrize("failure", [LATE, RAISED])
def test_a_step_of_ours_is_tried_once_more_and_never_held_against_a_patch(
    runner, server, do, failure
):
    asked = server(failure, {"metrics": {}}, failure, failure, failure)
    assert runner.ask("2.11.0", do) == {"metrics": {}}
    failed = runner.ask("2.11.0", do)["failure"]
    assert (failed["cause"], len(asked)) == ("machine", 4)
    assert failed["signature"] == f"patchgate's own step `{do}`: {failure['failure']['signature']}"
    assert runner.ask("2.11.0", "run", patch="patch.py") == failure, "the patch's own step is"


def test_a_step_of_ours_has_time_by_the_size_of_its_work_whatever_a_case_has(
    runner, server, folder
):
    asked = server(*[{"metrics": {}}] * 2, {"changed": []})
    (folder / "outputs").write_bytes(bytes(3 << 20))
    sides = dict.fromkeys(("unpatched", "patched"), str(folder / "outputs"))
    runner.ask("2.11.0", "differ", **sides)
    replace(runner, run=replace(runner.run, limits=Limits(seconds=500))).ask(
        "2.11.0", "differ", **sides
    )
    runner.ask("2.11.0", "apply")
    assert [question["limits"]["seconds"] for question in asked] == [66, 506, 5]


def test_what_is_tried_alone_waits_for_the_others_and_they_for_it(runner):
    began, ended = threading.Event(), threading.Event()

    def ask_alone():
        with runner._beside_others(alone=True):
            began.set()
            ended.wait(10)

    alone = threading.Thread(target=ask_alone, daemon=True)
    with runner._beside_others(alone=False), runner._beside_others(alone=False):
        alone.start()
        assert not began.wait(0.3)
    assert began.wait(10)
    other = threading.Thread(
        target=lambda: runner._beside_others(alone=False).__enter__(), daemon=True
    )
    other.start()
    other.join(0.3)
    assert other.is_alive()
    ended.set()
    alone.join(10)
    other.join(10)
    assert not other.is_alive()


KILLED = {"failure": {"cause": "killed", "stage": "patch", "signature": "killed by SIGKILL"}}
SHORT = {
    "failure": {
        "cause": "machine",
        "stage": "patch",
        "signature": "killed by SIGKILL, as memory was short",
    }
}


@pytest.mark.parametrize(
    ("answers", "patch", "cause"),
    [
        ((KILLED, KILLED), "patch.py", Cause.CRASHED),
        ((KILLED, KILLED), None, Cause.MACHINE),
        ((SHORT, SHORT), "patch.py", Cause.MACHINE),
        ((MACHINE, MACHINE), "patch.py", Cause.MACHINE),
    ],
)
def test_a_patch_that_is_killed_twice_with_memory_to_spare_has_killed_itself(
    runner, server, answers, patch, cause
):
    server(*answers)
    assert runner.ask("2.11.0", "apply", patch=patch)["failure"]["cause"] == cause.value


@pytest.mark.parametrize("answer", [b"", b"{half", b"no json\n"])
def test_an_answer_that_is_none_is_a_failure_of_the_machine(runner, server, answer):
    server(answer, answer)
    assert runner.ask("2.11.0", "apply")["failure"]["cause"] == Cause.MACHINE.value


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (None, "the probe of torch 2.11.0 did not answer"),
        ("start\nno module\n", "the probe of torch 2.11.0 did not answer; its log ends: no module"),
    ],
)
def test_a_server_that_is_not_there_is_reported_by_the_end_of_its_log(runner, folder, log, told):
    if log:
        (folder / "log").write_text(log)
    assert runner.ask("2.11.0", "apply")["failure"]["signature"] == told


def test_a_case_is_measured_once(runner, server):
    asked = server(FACTS)
    first, second = (runner.observe(CASE, WORKLOAD, None) for _ in range(2))
    assert (first.facts["loads"], second.facts["loads"], len(asked)) == ((2, 6), (2, 6), 1)
    assert isinstance(second.facts["bytes"], Unmeasured)
    assert first.environment == {"torch": "2.11.0"}


@pytest.mark.parametrize(("patch", "path"), [(None, None), (PATCH, "mine.py")])
def test_a_case_names_its_workload_and_patch(runner, server, patch, path):
    asked = server(FACTS)
    runner.observe(CASE, WORKLOAD, patch)
    assert (asked[0]["do"], asked[0]["workload_path"], asked[0]["patch"]) == (
        "observe",
        "stack.py",
        path,
    )
    assert refusal(asked[0]) is None
    assert asked[0]["profile"]["kind"] == "simulated"


def test_a_failure_is_an_observation_without_facts(runner, server):
    server(RAISED)
    observation = runner.observe(CASE, WORKLOAD, None)
    assert (observation.failure.cause, observation.facts) == (Cause.RAISED, {})


def test_generated_code_is_kept_beside_the_facts(runner, server, folder):
    server(FACTS | {"code": ["first", "second"]})
    observation = runner.observe(CASE, WORKLOAD, None)
    assert observation.artifacts == {"code": "code/stack.h200.2.11.0.unpatched.py"}
    assert (folder / observation.artifacts["code"]).read_text() == "first\n\nsecond"


@pytest.mark.parametrize(
    ("second", "questions"),
    [
        ({"code": ["x = 1"]}, ["observe", "code", "observe"]),
        ({"code": ["x = 2"]}, ["observe", "code", "observe", "code"]),
        ({"torch": "b"}, ["observe", "code", "observe", "code"]),
    ],
)
def test_the_same_code_is_read_once(
    runner: Runner, server: FakeServer, folder: Path, second: dict[str, Any], questions: list[str]
) -> None:
    compiled, read = FACTS | {"code": ["x = 1"]}, {"facts": {"kernels": 1}}
    asked = server(compiled, read, compiled | {"code": second.get("code", ["x = 1"])}, read)
    for torch in ("a", second.get("torch", "a")):
        run = replace(runner.run, shared_cache=str(folder / "kept"))
        one = replace(runner, run=run, identities={"2.11.0": torch})
        answer = one.ask("2.11.0", "observe", patch="mine.py", profile={"backend": "cuda"})
    assert answer["facts"]["kernels"] == 1
    assert [question["do"] for question in asked] == questions


def test_what_compares_files_may_hold_them_in_memory(runner, server, folder):
    asked = server({})
    for side in ("unpatched", "patched"):
        (folder / side).write_bytes(bytes(500))
    runner.ask(
        "2.11.0", "differ", unpatched=str(folder / "unpatched"), patched=str(folder / "patched")
    )
    assert asked[0]["limits"]["bytes"] == 1000 + 4 * 1000
