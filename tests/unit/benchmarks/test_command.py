"""A run of the corpus that is stopped, or that lost a case, writes what it has judged, and says
so.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from benchmarks.corpus import command
from benchmarks.corpus.cases import CorpusCase
from benchmarks.corpus.score import CaseResult, lost, score
from patchgate.model.errors import UsageError


def _case(name: str) -> CorpusCase:
    return CorpusCase(id=name, folder=f"/{name}", kind="sound", cells=("lint",), expected=())


@pytest.mark.parametrize(
    ("end", "code", "told"),
    [
        ("stopped", 4, "1 of 2 cases"),
        ("lost", 4, "| second | sound | - | - | LOST |"),
        ("", 0, "The seen set, in chosen cells, judged"),
    ],
)
def test_what_a_stopped_run_writes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: str, code: int, told: str
) -> None:
    cases = [_case("first"), _case("second")]

    def judge_cases(settings, asked, *, workers, done, whole):
        first, second = asked
        done(score(first, CaseResult(red={"2.11.0": {}}), ["2.11.0"]))
        if end == "stopped":
            raise KeyboardInterrupt
        done(
            lost(second, "it died")
            if end
            else score(second, CaseResult(red={"2.11.0": {}}), ["2.11.0"])
        )

    session = SimpleNamespace(sentinel_faults=list, sandbox_parts=set)
    for name, value in {
        "load_cases": lambda folders: cases,
        "rows_of": lambda rows: {"2.11.0": "python"},
        "Integrity": lambda pythons: SimpleNamespace(changes=lambda every_byte: []),
        "started_servers": lambda pythons: nullcontext({}),
        "open_session": lambda settings: session,
        "with_sandbox": lambda case, parts: case,
        "judge_cases": judge_cases,
    }.items():
        monkeypatch.setattr(command, name, value)
    page, examples = tmp_path / "corpus.md", tmp_path / "examples.json"
    options = ["--row", "2.11.0=python", "--write", str(page), "--examples", str(examples)]
    result = CliRunner().invoke(command.corpus, options)
    assert result.exit_code == code, result.output
    text = page.read_text()
    assert told in text
    assert ("| second |" in text) is (end != "stopped")
    assert examples.read_text() == "[]\n"


def test_one_check_is_asked_of_all_its_workloads() -> None:
    assert command._cells_of("samples") == ("samples",)
    assert "recompile prenorm_mlp" in command._cells_of("recompile")
    result = CliRunner().invoke(command.corpus, ["--row", "2.11.0=python", "--cells", "no-check"])
    assert isinstance(result.exception, UsageError)
    assert "no such check" in str(result.exception)
