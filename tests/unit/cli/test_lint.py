"""The command: exit codes, formats, usage errors; what a diff says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from toytorch import TORCHES

from patchgate.cli.lint import lint
from patchgate.lint.findings import Finding, Severity
from patchgate.lint.index import release as index
from patchgate.lint.interpret.references import Span
from patchgate.lint.run import Report
from patchgate.report.lint import render_findings

RED = "import torch._inductor.old\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    toys = {each.version: each for each in TORCHES}
    monkeypatch.setattr(index, "releases", lambda: tuple(toys))
    monkeypatch.setattr(
        index, "load", lambda version, sources=None: next(each for each in TORCHES if each.version == version)
    )

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(lint, list(arguments))

    return run


def test_text_points_at_the_place(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "p.py").write_text("from torch._inductor.ir import Box\nBox.absent\n")
    result = run("p.py")
    assert result.exit_code == 1
    assert result.output == (
        "p.py:2:5: PG111 `absent` missing on `torch._inductor.ir.Box` [every release]\n"
        "    Box.absent\n"
        "        ^^^^^^\n"
        "1 linted against 3 (2.10.0 to 2.13.0): 1 red, 0 notes\n"
    )


def test_what_nobody_sees_is_shown_and_a_long_line_cut(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    line = f"x = '\u202e\x07'; Box.absent; y = '{'z' * 9000}'\n"
    (tmp_path / "p.py").write_text(f"from torch._inductor.ir import Box\n{line}")
    _, shown, caret, told = run("p.py").output.splitlines()
    assert shown.startswith(r"    x = '\u202e\x07'; Box.absent; y = 'zzz") and shown.endswith("zz ...")
    assert (len(shown) < 200, shown.index("absent"), caret.strip()) == (True, caret.index("^"), "^" * 6)
    assert told.endswith("1 red, 0 notes")


@pytest.mark.parametrize(("notes", "told"), [(0, "0 notes"), (1, "1 note"), (2, "2 notes")])
def test_one_is_no_plural(notes: int, told: str) -> None:
    note = Finding(
        code="PG122",
        severity=Severity.NOTE,
        path="p.py",
        span=Span(line=1, column=1),
        releases=("2.11.0",),
        shown_releases="",
        message="body changed",
    )
    report = Report(files=("p.py",), releases=("2.11.0",), findings=(note,) * notes)
    assert render_findings(report, "text").endswith(f" 0 red, {told}\n")


def test_exit_codes(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "quiet.py").write_text("import torch\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.txt").write_text("")
    assert run("quiet.py").exit_code == 0
    assert run("empty").exit_code == 3
    assert run("absent.py").exit_code == 2
    assert run("x.txt").exit_code == 2
    assert run("quiet.py", "--torch", "nonsense").exit_code == 2
    assert run("quiet.py", "--torch", ">9").exit_code == 2


def test_only_some_releases(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "p.py").write_text(RED)
    assert run("p.py", "--torch", "<2.11").exit_code == 0


def test_formats(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / "some" / "mine"
    folder.mkdir(parents=True)
    (folder / "patch.py").write_text(RED)
    (folder / "patch.toml").write_text('title = "t"\napplies_to = "==2.10.0"\n')
    data = json.loads(run("some", "--format", "json").output)
    assert [each["code"] for each in data["findings"]] == ["PG110"]
    assert data["findings"][0]["releases"] == ["2.11.0", "2.13.0"]
    assert run("some", "--format", "github").output == (
        "::error file=some/mine/patch.py,line=1,col=8,title=PG110::module `torch._inductor.old` missing [from 2.11]\n"
    )
    sarif = json.loads(run("some", "--format", "sarif").output)
    [result] = sarif["runs"][0]["results"]
    rules = {rule["id"] for rule in sarif["runs"][0]["tool"]["driver"]["rules"]}
    assert result["ruleId"] == "PG110"
    assert result["ruleId"] in rules
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 1


def test_names_are_told_per_release(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "p.py").write_text("from torch._inductor.virtualized import V\nV.graph.sizevars.size_hint\n")
    told = run("p.py", "--names").output
    assert "torch._inductor.sizevars.SizeVarAllocator.size_hint: present 2.10 and before; missing from 2.11\n" in told


def test_the_command_starts_without_what_only_others_need() -> None:
    """A second is little: what takes long to import waits until it is needed."""
    asked = "import sys, patchgate.cli.main, patchgate.cli.lint; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert {"numpy", "scipy", "pip", "unidiff", "pytest", "torch"}.intersection(done.stdout.split()) == set()


def test_a_file_is_read_as_python_reads_it(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "marked.py").write_bytes(b"\xef\xbb\xbf" + RED.encode())
    assert "marked.py:1:8: PG110" in run("marked.py").output
    (tmp_path / "uncoded.py").write_bytes(b"import torch\n# gr\xfc\xdfe\n")
    assert "uncoded.py:2:1: PG140 not readable as Python: 'utf-8' codec can't decode" in run("uncoded.py").output
    (tmp_path / "coded.py").write_bytes(b"# coding: latin-1\n# gr\xfc\xdfe\n")
    assert run("coded.py").exit_code == 0


def test_every_patch_of_a_folder_is_linted(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "ours" / "own").mkdir(parents=True)
    for name in ("one.py", "two.py", "own/patch.py"):
        (tmp_path / "ours" / name).write_text(RED)
    (tmp_path / "ours" / "notes.txt").write_text("")
    assert [line.split(":")[0] for line in run("ours").output.splitlines() if "PG110" in line] == [
        "ours/one.py",
        "ours/own/patch.py",
        "ours/two.py",
    ]
    (tmp_path / "ours" / "patch.py").write_text("import torch\n")
    assert run("ours").output.startswith("1 linted")


def test_what_is_no_patch_is_told_with_what_to_do(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "empty").mkdir()
    assert run("empty").output.startswith(
        "empty: nothing to lint\n  got:  no .py, .diff or .patch file\n  next: a folder with patch.py"
    )
    assert run("/dev/null").output.startswith("/dev/null: not a patch\n  got:  neither a file nor a folder\n  next: ")


def test_the_manifest_of_a_bare_file_is_read_too(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "mine.py").write_text("import torch\n")
    (tmp_path / "mine.toml").write_text('effects = ["confg foo"]\n')
    result = run("mine.py")
    assert (result.exit_code, result.output.splitlines()[0]) == (2, "mine.toml:1: no kind of effect `confg`")
