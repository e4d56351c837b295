"""What no patch has part in is asked once; everything else, and what failed, is asked anew."""

from pathlib import Path

import pytest

from benchmarks.corpus.remembering import Remembering
from patchgate.runner.client import Runner
from patchgate.runner.results import ResultStore
from patchgate.runner.run import Limits

TORCH = "2.11.0"
FAILURE = {"failure": {"cause": "machine", "stage": "server", "signature": "gone"}}


@pytest.fixture
def asked(monkeypatch):
    """The questions that reach a server; `asked.answer` is what it says."""

    class Asked(list):
        answer = {"counts": 1}  # noqa: RUF012

    seen = Asked()

    def ask(self, torch, do, seconds=None, **request):
        seen.append(do)
        if "outputs" in request:
            Path(request["outputs"]).write_text(f"outputs {len(seen)}")
        return seen.answer

    monkeypatch.setattr(Runner, "ask", ask)
    return seen


@pytest.fixture
def runner(tmp_path):
    store = ResultStore(tmp_path / "store")
    return Remembering(
        sockets={}, logs={}, store=store, artifacts=tmp_path, limits=Limits(), kept=tmp_path / "unpatched"
    )


def test_an_unpatched_question_is_asked_once(runner, asked):
    told = [runner.ask(TORCH, "calls", workload="w", patch=None) for _ in range(2)]
    assert (told, asked) == ([asked.answer] * 2, ["calls"])
    runner.ask(TORCH, "calls", workload="other", patch=None)
    runner.ask("2.12.1", "calls", workload="w", patch=None)
    assert len(asked) == 3


def test_outputs_are_copied_to_each_that_wants_them(runner, asked, tmp_path):
    for name in ("one", "two"):
        runner.ask(TORCH, "run", patch=None, outputs=str(tmp_path / name))
    assert [(tmp_path / name).read_text() for name in ("one", "two")] == ["outputs 1"] * 2


@pytest.mark.parametrize(("do", "patch"), [("calls", "/p/patch.py"), ("cached", None), ("apply", "/p/patch.py")])
def test_what_a_patch_or_a_cache_has_part_in_is_asked_anew(runner, asked, do, patch):
    for _ in range(2):
        runner.ask(TORCH, do, patch=patch)
    assert asked == [do, do]


def test_a_failure_is_not_remembered(runner, asked, tmp_path):
    asked.answer = FAILURE
    assert runner.ask(TORCH, "run", patch=None, outputs=str(tmp_path / "one")) == FAILURE
    asked.answer = {"environment": {}}
    assert runner.ask(TORCH, "run", patch=None, outputs=str(tmp_path / "one")) == {"environment": {}}
