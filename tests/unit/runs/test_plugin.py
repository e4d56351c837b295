"""pytest's door: what an instance of a check says, what is left when it says nothing, and who is asked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest

from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import Check, Instance, NothingToJudge, all_checks
from patchgate.model.paths import SUITE, display_path
from patchgate.model.records import Case, Kind, Verdict
from patchgate.model.results import CellEvent
from patchgate.model.serialization import from_dict
from patchgate.runner import start_server
from patchgate.runner.run_settings import TIMES, Run, load_verdicts, save_run
from patchgate.runs import plugin

pytest_plugins = ["pytester"]

Ask = Callable[[CheckContext, Instance], Iterable[Verdict]]
Judged = tuple[dict[str, int], list[Verdict]]
ALONE = ("-p", "no:xdist", "-p", "no:cacheprovider")
ROWS = {"2.11.0": "python"}


def verdict(kind: Kind, **more: Any) -> Verdict:
    case = Case(torch="2.11.0", patch="mine")
    given = {"code": "PG301", "check": "kernels", "item": kind.value, "actual": "6"} | more
    return Verdict(kind=kind, case=case, **given)


def says(*kinds: Kind) -> Ask:
    """A check that says this of every instance."""
    return lambda context, at: [verdict(kind) for kind in kinds]


def made(ask: Ask) -> dict[str, Check]:
    """One check of releases, which believes without a sentinel."""
    return {"kernels": replace(all_checks()["kernels"], ask=ask, axes=("torch",), first=True)}


@pytest.fixture
def door(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder in which pytest judges with one check that passes, and starts no torch."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setattr(plugin, "all_checks", lambda: made(says(Kind.PASS)))

    def start(torch: str, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(torch=torch, log="log", stop=lambda: None)

    # It takes what the real one takes, and nothing else.
    monkeypatch.setattr(start_server, "start_server", create_autospec(start_server.start_server, side_effect=start))
    monkeypatch.setattr(start_server, "environment_digest", str)
    return pytester


Gate = Callable[..., Judged]


@pytest.fixture
def gate(door: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Runs pytest as the gate does, over one check: its outcomes, and the verdicts that were left."""

    def run(
        ask: Ask,
        patch: tuple[str, str] = ("mine.py", ""),
        suite: str = str(SUITE),
        more: Sequence[str] = (),
        **given: Any,
    ) -> Judged:
        path = door.path / patch[0]
        path.write_text(patch[1])
        monkeypatch.setattr(plugin, "all_checks", lambda: made(ask))
        run = Run(folder=str(door.path / "out"), patch=str(path), **({"rows": ROWS} | given))
        outcomes = door.runpytest_inprocess(
            *ALONE, "--tb=no", "-v", suite, "--patchgate-run", str(save_run(run)), *more
        ).parseoutcomes()
        return outcomes, load_verdicts(door.path / "out")

    return run


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [(Kind.PASS, "passed"), (Kind.NOTE, "passed"), (Kind.INFRA, "passed"), (Kind.REGRESSED, "red")],
)
def test_an_instance_fails_when_one_of_its_verdicts_is_red(gate, kind, outcome):
    outcomes, verdicts = gate(says(Kind.PASS, kind))
    assert outcomes == {outcome: 1}
    assert {verdict.kind for verdict in verdicts} == {Kind.PASS, kind}


DIFF = """\
--- a/torch/_inductor/ir.py
+++ b/torch/_inductor/ir.py
@@ -1,1 +1,1 @@
-x = 1
+x = 2
"""


@pytest.mark.parametrize(
    ("patch", "place", "told"),
    [
        (("mine.py", ""), "{}:3", "mine.py:3"),
        (("mine.diff", DIFF), "{}:3", "mine.diff"),
        (("mine.diff", DIFF), "mine.toml:2", "mine.toml:2"),
        (("mine.diff", DIFF), None, None),
    ],
)
def test_a_place_in_what_stands_for_a_diff_is_reported_as_the_diff(gate, patch, place, told):
    def ask(context: CheckContext, at: Instance) -> list[Verdict]:
        return [verdict(Kind.PASS, where=place and display_path(place.format(context.patch.path)))]

    _, (judged,) = gate(ask, patch=patch)
    assert judged.where == told if told is None else judged.where.endswith(told)


def raises(error: BaseException) -> Ask:
    def ask(context: CheckContext, at: Instance) -> list[Verdict]:
        raise error

    return ask


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (says(), "a check that says nothing has judged nothing"),
        (raises(OSError("no disk")), "E   OSError: no disk"),
        (raises(SystemExit(3)), "E   SystemExit: 3"),
    ],
)
def test_an_instance_that_ends_without_a_verdict_is_never_green(gate, ask, told):
    outcomes, (judged,) = gate(ask)
    assert outcomes == {"failed": 1}
    assert (judged.code, judged.kind, judged.subject) == ("PG904", Kind.INFRA, "test_check[kernels-2.11.0]")
    assert judged.actual == told


@pytest.mark.parametrize(
    ("suite", "codes"), [("def test_check(nobody): pass", ["PG904"]), ("import nothing_at_all", [])]
)
def test_a_door_that_does_not_open_is_never_green(gate, door, suite, codes):
    outcomes, verdicts = gate(says(Kind.PASS), suite=str(door.makepyfile(test_door=suite)))
    assert outcomes.keys() & {"failed", "error", "errors"} and "red" not in outcomes
    assert [verdict.code for verdict in verdicts] == codes


def test_what_another_check_tells_is_skipped_and_leaves_no_verdict(gate):
    assert gate(raises(NothingToJudge("judged by the kernels check"))) == ({"skipped": 1}, [])


def test_a_red_instance_is_not_told_twice(gate):
    _, verdicts = gate(says(Kind.STALE))
    assert [verdict.code for verdict in verdicts] == ["PG301"]


def test_a_verdict_that_two_instances_give_is_reported_once(gate):
    outcomes, verdicts = gate(says(Kind.PASS), rows=ROWS | {"2.12.1": "python"})
    assert (outcomes, len(verdicts)) == ({"passed": 2}, 1)


def test_a_red_verdict_that_another_instance_gave_is_given_once(gate):
    same = [replace(verdict(Kind.STALE), case=Case(torch="2.11.0"))]
    outcomes, verdicts = gate(lambda context, at: same, rows=ROWS | {"2.12.1": "python"})
    assert (outcomes, verdicts) == ({"red": 1, "skipped": 1}, same)


def test_what_happens_is_reported_as_it_happens_with_the_red_verdicts_of_each_cell(gate):
    def ask(context: CheckContext, at: Instance) -> list[Verdict]:
        if at.case.torch == "2.12.1":
            raise SystemExit
        return [verdict(Kind.PASS), verdict(Kind.STALE)]

    source, target = os.pipe()
    asked, ask_servers = os.pipe()
    with os.fdopen(ask_servers, "w") as pipe:
        json.dump({"broker": {}, "logs": {}, "identities": {}}, pipe)
    with os.fdopen(source) as events:
        gate(ask, rows=ROWS | {"2.12.1": "python"}, more=("--patchgate-pipes", str(asked), str(target)))
        os.close(target)
        told = [from_dict(CellEvent, json.loads(line), where="pipe") for line in events]
    first, second = "kernels-2.11.0", "kernels-2.12.1"
    assert [event.planned for event in told] == [(first, second), (), (), (), ()]
    assert [event.started for event in told[1:]] == [first, "", second, ""]
    assert [event.ended for event in told[1:]] == ["", first, "", second]
    assert [[v.kind for v in event.verdicts] for event in told if event.ended] == [
        [Kind.PASS, Kind.STALE], [Kind.INFRA]
    ]  # fmt: skip


def test_a_check_without_environments_has_no_instance(gate):
    outcomes, verdicts = gate(says(), rows={}, problems={"2.11.0": "no wheel"})
    assert (outcomes, [verdict.code for verdict in verdicts]) == ({"skipped": 1}, ["PG901"])


def test_what_an_instance_took_is_left_by_its_id(gate, door):
    gate(says(Kind.PASS))
    assert '"kernels-2.11.0"' in (door.path / "out" / TIMES).read_text()


def test_what_a_worker_has_to_take_with_its_first_is_short():
    seconds = {"script": 25, "parity": 15, "new": 5, "facts": 1, "graph": 1, "hooks": 1, "latency": 30}
    pairs = [(replace(made(says(Kind.PASS))["kernels"], name=name, seconds=n), None) for name, n in seconds.items()]
    order = {workers: [check.name for check, _ in plugin._in_turn(pairs, workers)] for workers in (0, 2, 16)}
    assert order[0] == [*seconds]
    assert order[2] == ["script", "parity", "graph", "hooks", "new", "facts", "latency"]
    assert order[16] == [*seconds]


def test_what_was_red_in_the_last_run_is_judged_first():
    at = Instance(case=Case(torch="2.11.0"))
    checks = [replace(made(says(Kind.PASS))["kernels"], name=name, seconds=n) for name, n in (("long", 25), ("red", 1))]
    pairs = [(check, at) for check in checks]
    assert plugin._in_turn(pairs, 0) == pairs
    assert plugin._in_turn(pairs, 0, ["red-2.11.0"]) == pairs[::-1]


def test_without_a_run_the_plugin_stays_out_of_the_way(door):
    # Named as the door is: were the plugin in the way, it would ask for the instances of a run.
    door.makepyfile(test_checks="def test_check(): pass")
    assert door.runpytest_inprocess(*ALONE).parseoutcomes() == {"passed": 1}


@pytest.mark.parametrize(("rows", "outcome"), [(ROWS, "passed"), ({}, "skipped")])
def test_pytest_judges_a_patch_by_itself_on_its_own_torch(door, monkeypatch, rows, outcome):
    """The door is collected without being named, and the results lie where `patchgate report` looks for them."""
    monkeypatch.setattr(plugin, "own_environment", lambda: rows)
    (door.path / "mine.py").write_text("")
    door.makepyfile(test_of_somebody="def test_of_somebody(): raise OSError")
    assert door.runpytest_inprocess(*ALONE, "--patchgate", "mine.py").parseoutcomes() == {outcome: 1}
    verdicts = load_verdicts(Path(".patchgate/gate"))
    assert [(verdict.code, verdict.kind) for verdict in verdicts] == [("PG301", Kind.PASS)] * len(rows)


def test_pytest_judges_a_patch_through_the_file_that_is_named(door, monkeypatch):
    monkeypatch.setattr(plugin, "own_environment", lambda: ROWS)
    (door.path / "mine.py").write_text("")
    named = door.makepyfile(test_of_somebody="def test_of_somebody(): pass")
    assert door.runpytest_inprocess(*ALONE, str(named), "--patchgate", "mine.py").parseoutcomes() == {"passed": 1}
    assert load_verdicts(Path(".patchgate/gate")) == []
