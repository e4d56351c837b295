"""The command: exit codes, formats, usage errors; what a diff says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from patchgate.cli.lint import usage
from patchgate.lint.findings import Finding, Severity
from patchgate.lint.interpret.references import Span
from patchgate.lint.run import Report
from patchgate.report.lint import render_findings

Run = Callable[..., Result]
RED = "import torch._inductor.old\n"


def test_text_points_at_the_place(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("from torch._inductor.ir import Box\nBox.should_realise\n")
    result = run("p.py")
    assert result.exit_code == 1
    assert result.output == (
        "p.py:2:5: PG111 `should_realise` missing on `torch._inductor.ir.Box` [every release];"
        " did you mean `should_realize`?\n"
        "    Box.should_realise\n"
        "        ^^^^^^^^^^^^^^\n"
        "1 file linted against 3 releases (2.10.0 to 2.13.0): 1 red, 0 notes\n"
    )


def test_what_nobody_sees_is_shown_and_a_long_line_cut(run: Run, tmp_path: Path) -> None:
    line = f"x = '\u202e\x07'; Box.should_realise; y = '{'z' * 9000}'\n"
    (tmp_path / "p.py").write_text(f"from torch._inductor.ir import Box\n{line}")
    _, shown, caret, told = run("p.py").output.splitlines()
    assert shown.startswith(
        r"    x = '\u202e\x07'; Box.should_realise; y = 'zzz"
    ) and shown.endswith("zz ...")
    assert (len(shown) < 200, shown.index("should_realise"), caret.strip()) == (
        True,
        caret.index("^"),
        "^" * 14,
    )
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


def test_exit_codes(run: Run, tmp_path: Path) -> None:
    (tmp_path / "quiet.py").write_text("import torch\ntorch.ones(1)\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.txt").write_text("")
    assert run("quiet.py").exit_code == 0
    assert run("empty").exit_code == 3
    assert run("absent.py").exit_code == 2
    assert run("x.txt").exit_code == 2
    assert run("quiet.py", "--torch", "nonsense").exit_code == 2
    assert run("quiet.py", "--torch", ">9").exit_code == 2


def test_a_file_that_was_not_judged_is_in_the_last_lines(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    for name, text in (("pkg/bad.py", RED + "def f(:\n"), ("empty.py", "import torch\n\n")):
        (tmp_path / name).write_text(text)
    unread = "; next: correct it there, then run the same command again"
    for given, code in (("pkg", 3), ("pkg/bad.py", 1)):
        result = run(given)
        assert result.exit_code == code
        *_, where, last = result.output.splitlines()
        assert where.startswith("not judged: pkg/bad.py:2: not readable as Python: ")
        assert where.endswith(unread)
        assert last.endswith("; nothing was judged; exit code 3") is (code == 3)
        assert "nothing red" not in result.output
    result = run("empty.py")
    assert (result.exit_code, result.output.splitlines()[1:]) == (
        3,
        [
            "not judged: empty.py:1: no statement of the file uses torch; next: give the file that "
            "has the patch",
            "1 file linted against 3 releases (2.10.0 to 2.13.0): 0 red, 1 note; nothing was "
            "judged; exit code 3",
        ],
    )
    (tmp_path / "pkg" / "well.py").write_text("import torch._inductor\ntorch.x = 1\n")
    result = run("pkg", "empty.py")
    assert (result.exit_code, result.output.count("\nnot judged: ")) == (0, 2)
    for at in range(4):
        (tmp_path / "pkg" / f"bad{at}.py").write_text(RED + "def f(:\n")
    assert "\nnot judged: 2 other files, named above\n" in run("pkg").output


def test_only_some_releases(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(RED)
    assert run("p.py", "--torch", "<2.11").exit_code == 0


def test_formats(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "some" / "my ü"
    folder.mkdir(parents=True)
    (folder / "patch.py").write_text(RED)
    data = json.loads(run("some", "--format", "json").output)
    assert [each["code"] for each in data["findings"]] == ["PG110"]
    assert data["findings"][0]["releases"] == ["2.11.0", "2.13.0"]
    assert run("some", "--format", "github").output == (
        "::error file=some/my ü/patch.py,line=1,col=8,title=PG110::module `torch._inductor.old` missing [from 2.11]\n"
    )
    sarif = json.loads(run("some", "--format", "sarif").output)
    [result] = sarif["runs"][0]["results"]
    rules = {rule["id"] for rule in sarif["runs"][0]["tool"]["driver"]["rules"]}
    assert result["ruleId"] == "PG110"
    assert result["ruleId"] in rules
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "some/my%20%C3%BC/patch.py"
    assert place["region"]["startLine"] == 1


def test_what_a_manifest_does_not_claim_is_one_note(run: Run, tmp_path: Path) -> None:
    (tmp_path / "patch.py").write_text(RED)
    (tmp_path / "patch.toml").write_text('applies_to = "==2.10.0"\n')
    result = run("patch.py")
    assert (result.exit_code, result.output.count("PG1")) == (0, 1)
    assert (
        "PG110 note: module `torch._inductor.old` missing, on releases that the manifest"
        in result.output
    )
    assert run("patch.py", "--torch", ">=2.10").exit_code == 1


def test_the_project_says_which_releases_are_judged(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["torch<2.11"]\n')
    (tmp_path / "p.py").write_text(RED)
    result = run("p.py")
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "p.py:1:8: PG110 note: module `torch._inductor.old` missing [from 2.11.0]",
        "    import torch._inductor.old",
        "           ^^^^^^^^^^^^^^^^^^^",
        "releases: torch<2.11 in pyproject.toml; --torch SPEC judges others",
        "1 file linted against torch 2.10.0: 0 red, 1 note",
    ]
    assert run("p.py", "--torch", ">=2.10").exit_code == 1
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["torch>=2.12"]\n')
    assert "PG110 module `torch._inductor.old` missing [2.13]" in run("p.py").output
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["torch>=9"]\n')
    result = run("p.py")
    assert (result.exit_code, result.output.splitlines()[0]) == (
        3,
        "error: no indexed release in the project's range",
    )


def test_a_folder_ends_in_one_table(run: Run, tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    (package / ".hidden").mkdir(parents=True)
    (package / ".hidden" / "bad.py").write_text(RED)
    (package / "quiet.py").write_text("import torch\nx = torch.fft.fft\n")
    (package / "template.py").write_text("import torch._inductor.ir\n{{ cookiecutter }} = \n")
    (package / "bad.py").write_text(
        f"from torch._inductor.ir import Box\n{RED}Box.should_realise\nBox.should_realise\n"
    )
    result = run("pkg")
    assert result.exit_code == 1
    *lines, unread, last = result.output.splitlines()
    assert unread.startswith("not judged: pkg/template.py:2: not readable as Python: ")
    assert [*lines[-4:], last] == [
        "",
        "file        name                                   breaks on",
        "pkg/bad.py  torch._inductor.old                    from 2.11",
        "pkg/bad.py  torch._inductor.ir.Box.should_realise  every release",
        "2 of 3 files linted against 3 releases (2.10.0 to 2.13.0): 2 red, 1 note",
    ]
    assert "    the same at line 4\n" in result.output
    assert (
        "pkg/template.py:2:1: PG140 note: " in result.output
        or "pkg/template.py:2:4: PG140 note: " in result.output
    )
    (package / "bad.py").unlink()
    (package / "template.py").unlink()
    assert (run("pkg").exit_code, run("pkg").output) == (
        0,
        "0 of 1 file linted against no release: 0 red, 0 notes\n",
    )


def _forecast(tmp_path: Path, requirement: str, **files: str) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "pyproject.toml").write_text(
        f'[project]\ndependencies = ["torch{requirement}"]\n'
    )
    for name, text in files.items():
        (tmp_path / "pkg" / f"{name}.py").write_text(text)


def test_the_first_lines_say_what_breaks_now_and_next_and_whether_the_lower_bound_holds(
    run: Run, tmp_path: Path
) -> None:
    gone = "from torch._inductor.sizevars import SizeVarAllocator\nSizeVarAllocator.size_hint\n"
    _forecast(
        tmp_path,
        "<2.12",
        now="import torch._inductor.old\n",
        low="import torch._inductor.new\n",
        new=gone,
    )
    first, second, third, *rest = run("pkg").output.splitlines()
    assert first == "newest torch that is supported (2.11.0): 2 places broken now"
    assert second == "next torch that breaks: none up to 2.13.0"
    assert third == (
        "lower bound too low: the code needs torch >= 2.11.0, 1 place (--details); pkg/low.py:1 `torch._inductor.new`"
    )
    assert rest[1] == "broken now:" and "pkg/low.py" not in "\n".join(rest)
    assert "pkg/low.py:1:8: PG110 " in run("pkg", "--details").output
    above = run("pkg", "--from", "2.11").output
    assert (
        "lower bound: oldest release looked at: 2.11.0; nothing red\n" in above
        and "low.py" not in above
    )


def test_what_breaks_next_is_told_as_a_note(run: Run, tmp_path: Path) -> None:
    _forecast(
        tmp_path, "<2.11", a="import torch._inductor.old\n", b="import torch._inductor.config\n"
    )
    result = run("pkg")
    assert result.exit_code == 0
    assert result.output.splitlines()[:3] == [
        "newest torch that is supported (2.10.0): nothing red",
        "next torch that breaks: 2.11.0, 1 place",
        "lower bound: oldest release looked at: 2.10.0; nothing red",
    ]
    assert (
        "breaks next:\npkg/a.py:1:8: PG110 note: module `torch._inductor.old` missing [from 2.11.0]"
        in result.output
    )
    whole = json.loads(run("pkg", "--torch", "<2.11", "--format", "json").output)
    assert whole["findings"] == []  # who names releases asks for no others


def test_from_wants_a_release(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(RED)
    assert run("p.py", "--from", "soon").exit_code == 2
    newer = run("p.py", "--from", "2.19")
    assert (newer.exit_code, newer.output) == (
        2,
        "error: --from: no indexed release\n  got:  2.19\n  next: --from 2.13.0, the newest indexed\n",
    )


def test_a_release_by_its_name_is_taken_as_gate_takes_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(RED)
    for torch, told in (("2.13", "torch 2.13.0"), ("2.10.0", "torch 2.10.0")):
        assert f"linted against {told}:" in run("p.py", "--torch", torch).output
    assert "did you mean `2.13.0`?" in run("p.py", "--torch", "2.12.0").output
    assert "next: --torch 2.13.0, the newest" in run("p.py", "--torch", "2.99.0").output
    assert run("p.py", "--torch", "2.13", command=usage).exit_code == 0


def test_without_a_release_nothing_is_called_quiet(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "p.py").write_text(RED)
    (tmp_path / "pkg" / "patchgate.toml").write_text('torch_range = ">=9"\n')
    result = run("pkg")
    assert (result.exit_code, "0 red" in result.output) == (3, False)
    assert "no indexed release in the project's range" in result.output


def test_usage_lists_private_names_with_the_releases_that_have_them(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "p.py").write_text(
        "from torch._inductor.virtualized import V\n"
        "if hasattr(V.graph.sizevars, 'size_hint'):\n    V.graph.sizevars.size_hint\nimport torch.nn\n"
        "V.graph.sizevars.optimization_hint\n"
    )
    result = run("p.py", command=usage)
    assert result.exit_code == 0
    rows = {
        line.split()[0].rpartition(".")[2]: " ".join(line.split()[1:])
        for line in result.output.splitlines()[1:-1]
    }
    assert rows["size_hint"] == "2.10.0 from 2.11 p.py:3"
    assert rows["optimization_hint"] == "2.11.0 2.10 and before p.py:5 (runs there)"
    assert "nn" not in rows
    data = json.loads(run("p.py", "--format", "json", command=usage).output)
    [hint] = [each for each in data["names"] if each["name"].endswith(".size_hint")]
    assert (hint["since"], hint["until"], hint["lacking"], hint["ungated"]) == (
        "",
        "2.10.0",
        ["2.11.0", "2.13.0"],
        [],
    )


def test_usage_names_what_is_not_python_and_says_where_nothing_is(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "p.py").write_text("import torch._inductor\ndef f(:\n")
    whole = run("pkg", command=usage)
    assert (whole.exit_code, whole.output.splitlines()[0]) == (
        0,
        "not readable as Python: pkg/p.py:2: invalid syntax",
    )
    one = run("pkg/p.py", command=usage)
    assert (one.exit_code, one.output.splitlines()[0]) == (
        2,
        "error: pkg/p.py:2: not readable as Python",
    )
    (tmp_path / "empty").mkdir()
    result = run("empty", command=usage)
    assert (result.exit_code, result.output.splitlines()[0]) == (3, "error: empty: nothing to read")


def test_a_link_to_nowhere_and_a_pipe_in_a_folder_are_no_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "a.py").write_text(RED)
    (tmp_path / "pkg" / ".#a.py").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pkg" / "pipe.py")
    assert run("pkg").output.splitlines()[-1].startswith("1 file linted")


def test_the_command_works_without_what_only_others_need(tmp_path: Path) -> None:
    """A second is little: what takes long to import waits until it is needed."""
    (tmp_path / "p.py").write_text(RED)
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["torch>=2.10"]\n')
    asked = """
import sys
from patchgate.cli.main import cli
try:
    cli(["lint", "p.py"], standalone_mode=False)
except SystemExit:
    print(*sorted(sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", asked], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "PG110" in done.stdout
    slow = {
        "numpy",
        "scipy",
        "pip",
        "unidiff",
        "pytest",
        "torch",
        "rich",
        "pygments",
        "jinja2",
        "sqlite3",
        "unearth",
        "packaging.requirements",
        "patchgate.checks.framework.find_checks",
    }
    assert slow.intersection(done.stdout.splitlines()[-1].split()) == set()


def test_a_file_is_read_as_python_reads_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "marked.py").write_bytes(b"\xef\xbb\xbf" + RED.encode())
    assert "marked.py:1:8: PG110" in run("marked.py").output
    (tmp_path / "uncoded.py").write_bytes(b"import torch\n# gr\xfc\xdfe\n")
    assert (
        "uncoded.py:2:1: PG140 not readable as Python: 'utf-8' codec can't decode"
        in run("uncoded.py").output
    )
    (tmp_path / "coded.py").write_bytes(b"# coding: latin-1\n# gr\xfc\xdfe\nx = 1\n")
    assert run("coded.py").exit_code == 0


def test_every_patch_of_a_folder_is_linted(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ours" / "own").mkdir(parents=True)
    for name in ("one.py", "two.py", "own/patch.py"):
        (tmp_path / "ours" / name).write_text(RED)
    (tmp_path / "ours" / "notes.txt").write_text("")
    assert [line.split(":")[0] for line in run("ours").output.splitlines() if "PG110" in line] == [
        "ours/one.py",
        "ours/own/patch.py",
        "ours/two.py",
    ]
    (tmp_path / "ours" / "patch.py").write_text("import torch\ntorch.ones(1)\n")
    assert run("ours").output.startswith("1 file linted")


@pytest.mark.parametrize("mark", ["__init__.py", "pyproject.toml"])
def test_a_module_called_patch_hides_no_other_one_of_its_package(
    run: Run, tmp_path: Path, mark: str
) -> None:
    (tmp_path / "ours").mkdir()
    for name, text in ((mark, ""), ("patch.py", "import torch\n"), ("one.py", RED)):
        (tmp_path / "ours" / name).write_text(text)
    result = run("ours")
    assert (result.exit_code, "ours/one.py:1" in result.output) == (1, True)


def test_a_file_of_a_folder_that_only_hands_over_options_is_linted(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "ours").mkdir()
    file = tmp_path / "ours" / "train.py"
    file.write_text("import torch\nchosen = {'shape_paddings': 1}\n")
    assert run("ours").exit_code == 0
    file.write_text(file.read_text() + "step = torch.compile(f, options=chosen)\n")
    assert "PG116" in run("ours").output


def test_what_is_no_patch_is_reported_with_what_to_do(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert run("empty").output.startswith(
        "error: empty: nothing to lint\n  got:  no .py, .diff or .patch file\n  next: give a folder with patch.py"
    )
    assert run("/dev/null").output.startswith(
        "error: /dev/null: not a patch\n  got:  neither a file nor a folder\n  next: "
    )


def test_the_manifest_of_a_bare_file_is_read_too(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import torch\n")
    (tmp_path / "mine.toml").write_text('effects = ["confg foo"]\n')
    result = run("mine.py")
    assert (result.exit_code, result.output.splitlines()[0]) == (
        2,
        "error: mine.toml:1: `effects`: no kind of effect `confg`",
    )


def test_a_link_out_of_the_project_is_not_read(run: Run, tmp_path: Path) -> None:
    for name in ("out", "project/pkg", "project/.git"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "out" / "key.py").write_text(
        "from torch._inductor.ir import Box\nBox.secret_of_mine\n"
    )
    (tmp_path / "project" / "own.py").write_text(RED)
    (tmp_path / "project" / "pkg" / "inner.py").symlink_to("../own.py")
    (tmp_path / "project" / "pkg" / "link.py").symlink_to(tmp_path / "out" / "key.py")
    (tmp_path / "project" / "pkg" / "patch.py").symlink_to(tmp_path / "out" / "key.py")
    printed = run("project", "--format", "json").output
    assert json.loads(printed)["files"] == ["project/own.py"] * 2
    assert "secret_of_mine" not in printed
    refused = run("project/pkg")
    assert (refused.exit_code, "a link out of the repository" in refused.output) == (2, True)
