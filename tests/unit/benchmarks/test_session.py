"""A session of the corpus drops checks that have nothing to say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks.corpus import session
from benchmarks.corpus.cases import CorpusCase
from patchgate.checks.framework.find_checks import NothingToJudge
from patchgate.checks.holders import verdict
from patchgate.model.policy import Kind
from patchgate.model.records import Case
from patchgate.runner.start_server import Servers


@pytest.mark.parametrize("silent", [set(), {"2.12.1"}, {"2.11.0", "2.12.1"}])
def test_a_cell_that_one_release_is_judged_for_all_in_is_judged(
    monkeypatch: pytest.MonkeyPatch, silent: set[str]
) -> None:
    def judge_cell(cell, torch, context):
        if torch in silent:
            raise NothingToJudge("judged with another release")
        return [
            verdict("PG806", Kind.PASS, Case(torch=torch), "", "called", "called", item="holders")
        ]

    monkeypatch.setattr(session, "judge_cell", judge_cell)
    rows = dict.fromkeys(["2.11.0", "2.12.1"], "python")
    judged = session.CorpusSession(rows, SimpleNamespace(), [], Servers({}, {}))
    monkeypatch.setattr(judged, "_context", lambda case: None)
    result = judged.judge(CorpusCase(kind="sound", cells=("holders",)))
    assert result.judged == 2 - len(silent)
    assert len(result.grey) == (2 if len(silent) == 2 else 0)
