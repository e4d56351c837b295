"""How one item of a search is measured, and why it is skipped; a server gives canned answers."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from patchgate.model.errors import UsageError
from patchgate.model.policy import Kind
from patchgate.model.records import Case, Verdict
from patchgate.model.results import Answer, Reading
from patchgate.runner.client import Runner
from patchgate.runner.run_settings import Run
from patchgate.runner.torch_environments import Environments
from patchgate.runs.bisect import measure
from patchgate.runs.bisect.measure import Instrument
from patchgate.runs.bisect.question import parse_code, parse_fact, parse_metric

TORCH = "2.11.0"
FACT = parse_fact("pointwise.h200.loads.max > 4", ["pointwise"], ["h200"])
METRIC = parse_metric("pointwise.differing > 0", ["pointwise"])
FAILURE = {"cause": "raised", "stage": "lowering", "signature": "ValueError: no"}
ANSWERS: dict[str, dict[str, Any]] = {
    "sentinel": {"facts": {"loads": 1}, "expected": {"loads": 1}},
    "observe": {"facts": {"loads.max": 6}, "environment": {}},
    "apply": {"changed": ["torch.a", "torch.b[123456789]"]},
    "run": {},
    "differ": {"metrics": {"differing": 0.5}},
}


def no_server(torch: str, do: str) -> socket.socket:
    raise OSError(torch)


@pytest.fixture
def instrument(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Instrument:
    """An instrument on one torch, whose answers a test may change in `answers`."""
    answers = dict(ANSWERS)

    class Canned(Runner):
        def _exchange(self, torch: str, do: str, message: bytes, seconds: float) -> dict[str, Any]:
            patched = json.loads(message).get("patch") is not None
            return {**answers[do], **(answers.get("patched", {}) if patched else {})}

    def runner(self: Instrument, run: Run, torch: str, python: str) -> Runner:
        return Canned(run=run, connect=no_server, logs={})

    monkeypatch.setattr(Instrument, "_runner", runner)
    (folder / "mine.py").write_text("x = 1\n")
    environments = Environments({TORCH: "python"}, failed={"2.9.0": "no such release"})
    made = Instrument(environments, folder / "kept")
    monkeypatch.setattr(made, "answers", answers, raising=False)
    return made


@pytest.mark.parametrize(("value", "answer"), [(6, Answer.BAD), (4, Answer.GOOD)])
def test_a_fact_is_read_off_what_was_observed(instrument, value, answer):
    instrument.answers["observe"] = {"facts": {"loads.max": value}}
    reading = instrument.read(FACT, TORCH, Path("mine.py"))
    assert (reading.answer, reading.shown) == (answer, f"loads.max = {value}")
    assert reading.facts["loads.max"] == value


def test_figures_of_parity_come_from_both_sides(instrument):
    reading = instrument.read(METRIC, TORCH, Path("mine.py"))
    assert (reading.answer, reading.shown) == (Answer.BAD, "differing = 0.5")


@pytest.mark.parametrize(
    ("torch", "path", "answers", "why"),
    [
        ("2.9.0", "mine.py", {}, "torch 2.9.0 cannot be installed: no such release"),
        (TORCH, "none.py", {}, "none.py: no such patch"),
        (TORCH, "mine.py", {"sentinel": {"facts": {}, "expected": {"loads": 1}}}, "PG902"),
        (TORCH, "mine.py", {"observe": {"failure": FAILURE}}, "ValueError: no [lowering]"),
    ],
)
def test_an_item_that_cannot_be_measured_is_skipped_with_the_reason(
    instrument, torch, path, answers, why
):
    instrument.answers.update(answers)
    reading = instrument.read(FACT, torch, Path(path))
    assert reading.answer is Answer.UNKNOWN
    assert reading.shown.startswith(why)


def test_a_side_that_does_not_run_has_no_figures(instrument):
    instrument.answers["run"] = {"failure": FAILURE}
    reading = instrument.read(METRIC, TORCH, Path("mine.py"))
    assert reading == Reading(answer=Answer.UNKNOWN, shown="unpatched: ValueError: no")


def test_a_code_is_asked_of_the_whole_gate_with_the_workloads_that_are_named(
    instrument, monkeypatch
):
    runs: list[Run] = []
    red = Verdict(
        code="PG210", kind=Kind.REGRESSED, check="gate", case=Case(torch=TORCH), item="run"
    )

    def judged(run: Run, patch: object, *, workers: int) -> list[Verdict]:
        runs.append(run)
        return [red]

    monkeypatch.setattr(measure, "judge_patch", judged)
    instrument.workloads = ("pointwise",)
    assert instrument.read(parse_code("PG210"), TORCH, Path("mine.py")).answer is Answer.BAD
    (run,) = runs
    assert run.patch == str(Path("mine.py").resolve())
    assert (run.workloads, run.rows, run.is_job) == (("pointwise",), {TORCH: "python"}, True)


def test_an_item_of_a_list_has_no_address_in_its_name(instrument, folder):
    patch = measure.load_patch(folder / "mine.py")
    assert instrument.replaced(TORCH, patch) == ["torch.a", "torch.b[]"]


def test_a_patch_that_replaces_nothing_has_nothing_to_search(instrument, folder):
    instrument.answers["apply"] = {"changed": []}
    with pytest.raises(UsageError, match="it replaces nothing"):
        instrument.replaced(TORCH, measure.load_patch(folder / "mine.py"))
