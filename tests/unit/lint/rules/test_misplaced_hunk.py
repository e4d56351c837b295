"""Unified diffs of torch: each hunk exactly, with an offset, or not at all, release by release."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from packaging.specifiers import SpecifierSet

from patchgate.lint.index.sources import Sources
from patchgate.lint.rules.misplaced_hunk import lint_diff, offset_of

Run = Callable[..., Result]
DIFF = """--- a/torch/_inductor/ir.py
+++ b/torch/_inductor/ir.py
@@ -2,2 +2,2 @@ def f():
 b = 2
-c = 3
+c = 4
"""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a\nb = 2\nc = 3\n", None),
        ("x\na\nb = 2\nc = 3\n", "PG128"),
        ("b = 2\n", "PG127"),
        (None, "PG127"),
    ],
)
def test_hunks(run: Run, tmp_path: Path, text: str | None, code: str | None) -> None:
    site = tmp_path / "site"
    (site / "torch" / "_inductor").mkdir(parents=True)
    (site / "torch" / "version.py").write_text("__version__ = '2.11.0+cu130'\n")
    if text is not None:
        (site / "torch" / "_inductor" / "ir.py").write_text(text)
    (tmp_path / "p.diff").write_text(DIFF)
    result = run("p.diff", "--sources", "site", "--format", "json")
    findings = json.loads(result.output)["findings"]
    assert [(each["code"], each["releases"]) for each in findings] == (
        [(code, ["2.11.0"])] if code else []
    )
    assert result.exit_code == (code == "PG127")


@pytest.mark.parametrize("path", ["torch/include/ATen/ops.h", "test/test_torch.py"])
def test_a_diff_of_nothing_that_is_judged_says_so(run: Run, tmp_path: Path, path: str) -> None:
    (tmp_path / "p.diff").write_text(DIFF.replace("torch/_inductor/ir.py", path))
    result = run("p.diff", "--format", "json")
    (finding,) = json.loads(result.output)["findings"]
    assert (finding["code"], path in finding["message"]) == ("PG129", True)
    assert result.exit_code == 3


@pytest.mark.parametrize(
    "text",
    ["", "no diff\n", f"--- a/torch/a.py\n+++ b/torch/a.py\n@@ -{'9' * 5000} +1 @@\n-a\n+b\n"],
    ids=["empty", "text", "number"],
)
def test_a_file_that_holds_no_diff_is_red(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "p.diff").write_text(text)
    result = run("p.diff")
    assert (result.exit_code, "not a diff" in result.output) == (1, True)


def test_a_diff_without_sources_says_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.diff").write_text(DIFF)
    result = run("p.diff")
    assert result.exit_code == 3
    assert result.output.splitlines()[0] == (
        "p.diff:1:1: PG129 note: cannot tell whether the hunks apply: the sources of no release "
        "are available"
        " [every release];"
        " patchgate lint --fetch p.diff   (or --sources FOLDER, a site-packages with torch in it)"
    )
    (tmp_path / "quiet.py").write_text("import torch\ntorch.ones(1)\n")
    assert run("p.diff", "quiet.py").exit_code == 0
    (tmp_path / "q.diff").write_text("@@ nonsense\n--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n-x\n")
    assert run("q.diff").exit_code == 1


class Texts(Sources):
    """Releases given as {version: text of the one file}; others are not at hand."""

    def __init__(self, texts: dict[str, str]) -> None:
        super().__init__()
        self._texts = texts

    def text(self, version: str, path: str) -> str | None:
        return self._texts.get(version)


def test_what_holds_for_all_releases_is_reported_together() -> None:
    texts = {
        "2.9.0": "b = 2\n",
        "2.10.0": "a\nb = 2\nc = 3\n",
        "2.11.0": "x\na\nb = 2\nc = 3\n",
        "2.12.0": "",
    }
    findings = lint_diff(DIFF, "p.diff", list(texts), Texts(texts))
    assert {(each.code, each.message, each.shown_releases) for each in findings} == {
        ("PG127", "hunk does not apply to `torch/_inductor/ir.py`", "2.9 and before"),
        ("PG128", "hunk applies to `torch/_inductor/ir.py` at another line", "2.11"),
        ("PG127", "hunk has no file `torch/_inductor/ir.py`", "from 2.12"),
    }
    told = "exactly: 2.10; with an offset: 2.11; not at all: 2.9 and before, from 2.12"
    assert {each.evidence for each in findings} == {told}
    assert [each.detail for each in findings if each.detail] == ["2.11.0: +1 lines"]


def test_releases_that_the_manifest_does_not_claim_are_not_judged(run: Run, tmp_path: Path) -> None:
    texts = {"2.9.0": "b = 2\n", "2.10.0": "a\nb = 2\nc = 3\n"}
    assert [each.code for each in lint_diff(DIFF, "p.diff", list(texts), Texts(texts))] == ["PG127"]
    assert lint_diff(DIFF, "p.diff", list(texts), Texts(texts), SpecifierSet(">=2.10")) == []
    (tmp_path / "p.diff").write_text(DIFF)
    (tmp_path / "p.toml").write_text('applies_to = "==2.11.*"\n')
    assert "PG129" in run("p.diff").output
    assert "[2.11]" in run("p.diff").output


@pytest.mark.parametrize("path", ["test/inductor/test_ir.py", "torch/csrc/a.cpp", "docs/a.md"])
def test_files_that_are_in_no_wheel_are_passed_over(path: str) -> None:
    diff = DIFF + DIFF.replace("torch/_inductor/ir.py", path)
    texts = Texts({"2.11.0": "a\nb = 2\nc = 3\n"})
    assert lint_diff(diff, "p.diff", ["2.11.0"], texts) == []


@pytest.mark.parametrize(
    ("lines", "start", "offset"),
    [
        ("abc", 1, 0),
        ("xabc", 1, 1),
        ("xabc", 2, 0),
        ("abcabc", 4, 0),
        ("abcxabc", 4, 1),
        ("ab", 1, None),
        ("", 1, None),
    ],
)
def test_the_nearest_place(lines: str, start: int, offset: int | None) -> None:
    assert offset_of(list("abc"), start, list(lines)) == offset


def test_a_folder_without_torch_is_no_source(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.diff").write_text(DIFF)
    (tmp_path / "bare").mkdir()
    result = run("p.diff", "--sources", "bare")
    assert result.exit_code == 2
    assert result.output.startswith(
        "error: bare: no torch in it\n  got:  no torch/version.py\n  next: --sources "
    )
