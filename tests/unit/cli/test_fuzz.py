"""`patchgate fuzz` as it is typed, without torch: when its rounds end, and with which exit code."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from patchgate.cli import fuzz
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Verdict
from patchgate.runs.fuzz import Unjudged
from patchgate.runs.gate import JudgedRun

ROW = ("--row", "2.11.0=/bin/true")


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds of the rounds that are carried out, on an interpreter that is not started."""
    monkeypatch.setattr(
        "patchgate.runs.plan.chosen_environments", lambda *_: ({"2.11.0": "/bin/true"}, {})
    )
    monkeypatch.setattr(fuzz, "running_servers", lambda python: nullcontext(object()))
    return []


def judge(monkeypatch: pytest.MonkeyPatch, rounds: list[int], *found: list[Verdict]) -> None:
    def judged_round(planned: Any, *_: Any) -> JudgedRun:
        rounds.append(planned.run.seed)
        return JudgedRun(planned.run, planned.patch, found[len(rounds) - 1])

    monkeypatch.setattr(fuzz, "judged_round", judged_round)


def verdict(code: str, kind: Kind) -> Verdict:
    case = Case(torch="2.11.0", patch="mine")
    return Verdict(
        code=code, kind=kind, check="parity", case=case, item="samples", actual="7; more"
    )


def test_rounds_go_on_until_one_is_red(command, rounds, monkeypatch):
    green, red = verdict("PG514", Kind.PASS), verdict("PG512", Kind.REGRESSED)
    judge(monkeypatch, rounds, [green], [green], [red])
    monkeypatch.setattr(fuzz, "show", lambda *_: 1)
    status, _, said = command("fuzz", "mine.py", *ROW, "--seed", "4")
    assert (status, rounds) == (1, [4, 5, 6])
    assert said.splitlines()[0] == "seed 4, torch 2.11.0: 7"
    assert said.splitlines()[-1].endswith(
        "patchgate fuzz mine.py --row 2.11.0=/bin/true --seed 6 --minutes 0"
    )


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([verdict("PG901", Kind.PASS)], "the patch replaces nothing that a random program calls"),
        ([verdict("PG515", Kind.ASSUMED)], "seed 1, torch 2.11.0: 7"),
    ],
)
def test_a_round_that_judges_nothing_is_the_last(command, rounds, monkeypatch, found, told):
    judge(monkeypatch, rounds, found)
    status, _, said = command("fuzz", "mine.py", *ROW)
    assert (status, rounds, said.strip()) == (3, [1], told)


def test_green_rounds_end_with_the_time(command, rounds, monkeypatch):
    judge(monkeypatch, rounds, [verdict("PG514", Kind.PASS)])
    assert command("fuzz", "mine.py", *ROW, "--minutes", "0")[0] == 0


def test_a_typo_is_red_before_any_torch_is_started(command, folder, monkeypatch):
    monkeypatch.delattr(fuzz, "running_servers")
    (folder / "mine.py").write_text("x = 1\ny = {\n")
    status, printed, _ = command("fuzz", "mine.py", "--torch", "2.11.0")
    assert status == 1
    assert "PG210" in printed


@pytest.mark.parametrize(
    ("found", "status"),
    [
        ([(70, []), (70, ["x + 1: output: 0, not 1"])], 1),
        ([(70, []), Unjudged("no memory")], 4),
    ],
)
def test_without_a_patch_torch_alone_is_compared(command, rounds, monkeypatch, found, status):
    def differences(run: Any, torch: str, servers: Any) -> tuple[int, list[str]]:
        rounds.append(run.seed)
        result = found[len(rounds) - 1]
        if isinstance(result, Unjudged):
            raise result
        return result

    monkeypatch.setattr(fuzz, "differences_of_torch", differences)
    ended, printed, said = command("fuzz", "--torch", "2.11.0")
    assert (ended, rounds) == (status, [1, 2])
    assert printed == "seed 2, torch 2.11.0: x + 1: output: 0, not 1\n" * (status == 1)
    assert "seed 1, torch 2.11.0: 70 programs compared" in said


def test_without_any_torch_nothing_is_green(command, monkeypatch):
    missing = {"2.11.0": "no wheel"}
    monkeypatch.setattr("patchgate.runs.plan.chosen_environments", lambda *_: ({}, missing))
    status, _, said = command("fuzz", "--torch", "2.11.0")
    assert status == 2
    assert "no wheel" in said
