"""Kills, full disks and two runs at once: `python -m benchmarks.disturbed`."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from benchmarks.disturbed import Disturbed, End, Scene, disturbances, verdicts_in

WHOLE = End(1, {"kernels": "PG300 pass", "parity": "PG501 changed"}, "", 1.0)


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (WHOLE, ""),
        (End(4, {}, "the machine failed", 1.0), ""),
        (End(4, {}, "Traceback (most recent call last)", 1.0), "a traceback"),
        (End(0, WHOLE.left, "", 1.0), "exit code 0, not 1"),
        (End(1, {"kernels": "PG300 pass"}, "", 1.0), "parity: PG501 changed -> nothing"),
        (End(1, WHOLE.left | {"kernels": "PG301"}, "", 1.0), "kernels: PG300 pass -> PG301"),
    ],
)
def test_an_end_is_that_of_an_undisturbed_run_or_4(end: End, told: str) -> None:
    assert end.fault(WHOLE).startswith(told)
    assert bool(end.fault(WHOLE)) is bool(told)


def test_verdicts_are_compared_by_subject(tmp_path: Path) -> None:
    case = {"torch": "2.11.0", "device": "h200", "workload": "chain", "patch": "mine"}
    verdict = {
        **{"code": "PG300", "kind": "pass", "check": "kernels", "item": "", "fact": "loads"},
        **{"case": case, "before": 1, "after": 1, "recorded": None},
    }
    assert verdicts_in(tmp_path) == {}
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "verdicts.json").write_text(json.dumps({"verdicts": [verdict]}))
    assert verdicts_in(tmp_path) == {"2.11.0 kernels chain h200 loads": "PG300 pass"}


def judged(home: Path, *, command: str) -> list[str]:
    """The faults of five kills of a Python program that writes a file, a part at a time."""
    disturbed = Disturbed(home, {}, random.Random(1))
    scene = Scene(
        "environment",
        ("python3", "-c", command),
        lambda folder: {path.name: path.read_text() for path in folder.glob("*.out")},
    )
    return [fault for _, fault in disturbances(disturbed, scene, 5, False, 0)]


WRITES = "import time; f = open('a.out', '{}')\nfor n in range(9): f.write('x'); f.flush(); time.sleep(.02)"


def test_a_command_that_starts_afresh_has_no_fault(tmp_path: Path) -> None:
    assert not any(judged(tmp_path, command=WRITES.format("w")))


def test_a_command_that_keeps_a_part_has_a_fault(tmp_path: Path) -> None:
    assert any(judged(tmp_path, command=WRITES.format("a")))
