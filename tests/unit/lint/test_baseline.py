"""A baseline: what is known is not red again, wherever its line has moved; what is new, or hurts
sooner, is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]
OLD, NEW = "import torch._inductor.old\n", "import torch._inductor.new\n"


@pytest.fixture
def package(run: Run, tmp_path: Path) -> Path:
    """A folder with one known finding, whose baseline is written."""
    folder = tmp_path / "pkg"
    folder.mkdir()
    (folder / "a.py").write_text(OLD)
    assert run("pkg").exit_code == 1
    written = run("pkg", "--write-baseline", "known.json")
    assert (written.exit_code, written.output.splitlines()[0].partition(";")[0]) == (
        0,
        "1 known finding in known.json",
    )
    return folder


def test_what_is_known_is_not_red_wherever_it_stands(run: Run, package: Path) -> None:
    assert run("pkg", "--baseline", "known.json").exit_code == 0
    (package / "a.py").write_text(f"x = 1\n\nif x:\n    {OLD}")
    assert run("pkg", "--baseline", "known.json").exit_code == 0


@pytest.mark.parametrize("text", [OLD + NEW, OLD + OLD])
def test_what_is_new_is_red(run: Run, package: Path, text: str) -> None:
    (package / "a.py").write_text(text)
    assert run("pkg", "--baseline", "known.json").exit_code == 1


def test_what_is_in_another_file_is_new(run: Run, package: Path) -> None:
    (package / "b.py").write_text(OLD)
    result = run("pkg", "--baseline", "known.json")
    assert result.exit_code == 1 and "b.py:1" in result.output and "a.py:1" not in result.output


def test_what_hurts_sooner_than_it_did_is_red_again(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(NEW)
    assert run("p.py", "--write-baseline", "known.json").exit_code == 0
    assert run("p.py", "--baseline", "known.json").exit_code == 0
    assert run("p.py", "--baseline", "known.json", "--torch", "==2.10.0").exit_code == 1


def test_a_stale_entry_is_named_where_its_file_was_judged(run: Run, package: Path) -> None:
    (package / "b.py").write_text("import torch._inductor.ir\n")
    assert "stale" not in run("pkg/b.py", "--baseline", "known.json").output
    (package / "a.py").write_text("import torch._inductor.ir\n")
    result = run("pkg", "--baseline", "known.json")
    assert "stale in known.json: pkg/a.py: PG110 torch._inductor.old" in result.output
    assert result.exit_code == 0


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": 9, "known": []}', '{"schema": 1, "known": [{}]}']
)
def test_what_is_no_baseline_is_told(run: Run, package: Path, text: str) -> None:
    Path("bad.json").write_text(text)
    result = run("pkg", "--baseline", "bad.json")
    assert (result.exit_code, "not a baseline" in result.output) == (2, True)
    assert run("pkg", "--baseline", "absent.json").exit_code == 2


def test_the_file_is_one_line_for_each_finding(run: Run, package: Path) -> None:
    text = Path("known.json").read_text()
    [known] = json.loads(text)["known"]
    assert (known["path"], known["line"], len(text.splitlines())) == ("pkg/a.py", OLD.strip(), 3)
