"""When two runs of a gate are the same: `python -m benchmarks.repeat`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import repeat
from benchmarks.repeat import SAMPLE, Judged, Ways, differences, fresh_environment
from patchgate.model.errors import UsageError

ONE: dict[str, Any] = {
    "code": "PG601",
    "kind": "over",
    "check": "compile",
    "case": {"torch": "2.11.0", "device": "h200", "workload": "chain", "patch": "mine"},
    "item": "",
    "fact": "calls",
    "before": 471_824,
    "after": 472_316,
    "recorded": None,
    "actual": "words",
}
TIMED = ONE | {"check": "latency", "case": ONE["case"] | {"device": "cuda"}}


def compared(*sides: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    first, other = (Judged(tuple(side)) for side in sides)
    return differences(first, other)


@pytest.mark.parametrize(
    "changed",
    [
        {"code": "PG603"},
        {"kind": "pass"},
        {"check": "kernels"},
        {"item": "lines"},
        {"fact": "loads"},
        {"case": ONE["case"] | {"torch": "2.12.1"}},
        {"before": 1},
        {"after": [2, 6]},
        {"recorded": 1},
    ],
    ids=lambda changed: str(*changed),
)
def test_every_field_of_a_judgement_is_compared(changed: dict[str, Any]) -> None:
    found, untold = compared([ONE], [ONE | changed])
    assert found
    assert not untold


def test_a_difference_shows_what_both_runs_have_seen() -> None:
    found, _ = compared([ONE], [ONE | {"code": "PG504", "actual": "no space left"}])
    assert found[0].splitlines()[1:] == ["        words", "        no space left"]


@pytest.mark.parametrize(
    "sides",
    [
        ([ONE], [ONE]),
        ([ONE, TIMED], [TIMED, ONE]),
        ([ONE], [ONE | {"actual": "other words"}]),
        ([TIMED], [TIMED | {"before": 0.8, "after": 0.79}]),
    ],
    ids=["equal", "in another order", "other words", "times on a real GPU"],
)
def test_what_may_differ_is_no_difference(
    sides: tuple[list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    assert compared(*sides) == ([], [])


@pytest.mark.parametrize(
    "sides",
    [
        ([ONE], [ONE, ONE]),
        ([ONE], [ONE, ONE | {"fact": "more"}]),
        ([TIMED], [TIMED | {"code": "PG603"}]),
        ([TIMED | {"case": ONE["case"]}], [TIMED | {"case": ONE["case"], "before": 1}]),
    ],
    ids=["twice", "one more", "a judgement of times", "times without a GPU"],
)
def test_what_is_there_once_more_or_judged_otherwise_is_one(
    sides: tuple[list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    found, _ = compared(*sides)
    assert len(found) == 1


@pytest.mark.parametrize("kind", ["infra", "stopped"])
def test_what_the_machine_left_unjudged_is_equal_to_nothing_not_even_to_itself(kind: str) -> None:
    failed = ONE | {"kind": kind}
    for sides in ([ONE], [failed]), ([failed], [failed]):
        found, untold = compared(*sides)
        assert (len(found), len(untold)) == (0, 1)


def test_a_run_without_verdicts_is_not_compared() -> None:
    assert differences(Judged(), Judged()) == ([], ["no verdicts", "no verdicts"])
    assert differences(Judged((ONE,)), Judged(problem="exit code 2: no torch")) == (
        [],
        ["exit code 2: no torch"],
    )


def test_a_difference_says_what_it_is_about_and_what_it_was() -> None:
    (text,), _ = compared(
        [ONE], [ONE | {"code": "PG603", "kind": "pass", "before": None, "after": None}]
    )
    assert text == "2.11.0 compile chain h200 calls: PG601 over 471824 -> 472316 -> PG603 pass"


KEPT = {"a1": {"answer": {"calls": {"x": 1}, "code": ["p", "q"]}, "file": "d"}}


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        (KEPT, []),
        ({}, []),
        ({"b2": {"answer": 1}}, []),
        (
            {"a1": {"answer": {"calls": {"x": 2}, "code": ["p", "q"]}, "file": "d"}},
            ["kept answer a1 differs at entry.answer.calls.x: 1 -> 2"],
        ),
        (
            {"a1": {"answer": {"calls": {"x": 1}, "code": ["p", "r"]}, "file": "d"}},
            ["kept answer a1 differs at entry.answer.code[1]: q -> r"],
        ),
        (
            {"a1": {"answer": {"calls": {"x": 1}, "code": ["p", "q"]}, "file": "e"}},
            ["kept answer a1 differs at entry.file: d -> e"],
        ),
        (
            {"a1": {"answer": {"calls": {}, "code": ["p", "q"]}, "file": "d"}},
            ["kept answer a1 differs at entry.answer.calls: {'x': 1} -> {}"],
        ),
    ],
)
def test_two_answers_under_one_key_are_a_difference(
    answers: dict[str, Any], found: list[str]
) -> None:
    sides = Judged((ONE,), answers=KEPT), Judged((ONE,), answers=answers)
    assert differences(*sides) == (found, [])


def test_each_way_judges_every_patch_and_one_in_the_other_order(
    tmp_path: Path, monkeypatch: Any
) -> None:
    seen: list[tuple[str, str, list[str]]] = []
    surroundings = {}

    def gate(folder: Path, patch: Path, options: list[str], **how: Any) -> Judged:
        surroundings[folder.name] = how
        seen.append((folder.name, patch.name, options))
        (folder / ".patchgate" / "unpatched").mkdir(parents=True, exist_ok=True)
        return Judged((ONE,))

    monkeypatch.setattr(repeat, "_gate", gate)
    monkeypatch.setattr(repeat, "fresh_environment", lambda python, place: f"{place.name}/python")
    ways = Ways(tmp_path, {"2.11.0": "python"}, [Path("a"), Path("b")], ["--check", "api"]).all()
    order = {way: [patch for patch, _ in judge()] for way, judge in ways.items()}
    assert order.pop("other order") == ["b", "a"]
    assert [*order.values()] == [["a", "b"]] * 9
    assert [folder for folder, patch, _ in seen if patch == "a"] == [
        *("first", "first", "fresh", "order", "n1", "n8", "load", "copied", "surroundings"),
        "at-once",
    ]
    assert surroundings.pop("surroundings")["one_core"]
    assert not any(surroundings.values())
    rows = {folder: options[1] for folder, _, options in seen}
    assert rows.pop("fresh") == "2.11.0=env-2.11.0/python"
    assert {*rows.values()} == {"2.11.0=python"}
    assert seen[-1][2] == ["--row", "2.11.0=python", "--check", "api"]
    assert ["-n", "8"] in [options[-2:] for folder, _, options in seen if folder == "n8"]


def test_a_fresh_environment_shares_files_but_no_bytecode(tmp_path: Path) -> None:
    home = tmp_path / "env"
    for name in (
        "bin/python",
        "lib/torch/__init__.py",
        "lib/torch/__pycache__/old.pyc",
        "pyvenv.cfg",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(name)
    python = fresh_environment(str(home / "bin" / "python"), tmp_path / "copy")
    assert python == str(tmp_path / "copy" / "bin" / "python")
    names = {
        str(path.relative_to(tmp_path / "copy"))
        for path in (tmp_path / "copy").rglob("*")
        if path.is_file()
    }
    assert names == {"bin/python", "lib/torch/__init__.py", "pyvenv.cfg"}
    with pytest.raises(UsageError, match="no virtual environment"):
        fresh_environment("/usr/bin/python3", tmp_path / "other")


@pytest.mark.parametrize(
    ("other", "code", "words"),
    [
        (Judged((ONE,)), 0, "0 differences"),
        (Judged((ONE | {"after": 1},)), 1, "PG601 over 471824 -> 1"),
        (Judged(problem="exit code 4"), 4, "1 not compared"),
    ],
)
def test_the_exit_code_says_what_was_found(
    monkeypatch: Any, tmp_path: Path, other: Judged, code: int, words: str
) -> None:
    given = iter([Judged((ONE,)), other])
    monkeypatch.setattr(repeat, "_gate", lambda *_: next(given))
    monkeypatch.setattr(repeat, "rows_of", lambda rows: {"2.11.0": sys.executable})
    arguments = ["--row", "2.11.0=python", "--patch", "harmless", "--way", "again"]
    table = tmp_path / "table.txt"
    ended = CliRunner().invoke(repeat.repeat, [*arguments, "--table", str(table)])
    assert (ended.exit_code, words in ended.output) == (code, True), ended.output
    assert table.read_text() == ended.output
    title = ended.output.splitlines()[0]
    assert title.startswith("# ")
    assert title.endswith("gate --workload pointwise")


def test_every_patch_of_the_sample_is_there() -> None:
    assert len({*SAMPLE}) == 10
    assert all(repeat._patch(name).is_dir() for name in SAMPLE)
