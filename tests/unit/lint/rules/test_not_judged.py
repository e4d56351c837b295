"""PG140, PG142, PG143: a file that Python refuses, that takes too long, or that does not use torch,
is one finding; the others are judged.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from toytorch import TORCHES

from patchgate.lint import run
from patchgate.lint.index.release import load, releases
from patchgate.lint.run import lint, lint_source


# So many signs are too many for every Python; five thousand are read by 3.10 and 3.13.
@pytest.mark.parametrize(
    "source", ["def f(:\n", "x = '\0'\n", "(" * 2000, f"x = {'-' * 100_000}1", "\ufeff\ufeffx"]
)
def test_source_that_python_refuses_is_one_finding(source: str) -> None:
    findings, _ = lint_source(source, "patch.py", TORCHES)
    assert [each.code for each in findings] == ["PG140"]


def test_a_file_that_takes_too_long_is_a_note_and_the_next_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("import torch._inductor.old\n")
    assert [each.code for each in lint([tmp_path], TORCHES).findings] == ["PG110"]
    monkeypatch.setattr(run, "SECONDS", 0.0)
    report = lint([tmp_path], TORCHES)
    assert [(each.code, each.severity.value) for each in report.findings] == [("PG142", "note")]
    assert "not judged: reading it takes more than 0 s" in report.findings[0].message
    assert report.exit_code == 3  # nothing was judged


@pytest.mark.parametrize(("of_all", "codes", "exit_code"), [(0.0, ["PG142"] * 2, 3), (60, [], 0)])
def test_files_for_which_no_time_is_left_are_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    of_all: float,
    codes: list[str],
    exit_code: int,
) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("import torch._inductor\ntorch.x = 1\n")
    monkeypatch.setattr(run, "_SECONDS_OF_ALL", of_all)
    report = lint([tmp_path], TORCHES)
    assert [each.code for each in report.findings if each.code == "PG142"] == codes
    assert report.exit_code == exit_code
    assert all("reading all files takes more than 0 s" in each.message for each in report.findings)


def test_one_file_that_is_not_judged_is_not_made_good_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("slow.py", "well.py"):
        (tmp_path / name).write_text("import torch._inductor\ntorch.x = 1\n")
    real = run.lint_source

    def slow(source: str, path: str, *rest: object, **how: object) -> object:
        if path.endswith("slow.py"):
            raise run.OutOfTime
        return real(source, path, *rest, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(run, "lint_source", slow)
    assert lint([tmp_path], TORCHES).exit_code == 3


def test_work_grows_with_the_file_and_not_with_its_square() -> None:
    """Steps are counted and not timed: each is asked of the release once."""
    source = "from torch._inductor import ir\n" + "".join(f"ir.absent_{at}()\n" for at in range(60))
    TORCHES[0].index.definers.cache_clear()  # type: ignore[attr-defined]
    lint_source(source, "p.py", TORCHES)
    assert TORCHES[0].index.definers.cache_info().misses == 60  # type: ignore[attr-defined]


def test_the_index_is_searched_once_and_not_for_each_name(monkeypatch: pytest.MonkeyPatch) -> None:
    index = load(releases()[-1]).index
    assert "torch._inductor.ir" in index.definers("Pointwise")
    assert index.definers("no_such_name") == []
    monkeypatch.setattr(type(index), "_text", None)
    assert "torch._inductor.ir" in index.definers("Reduction")


def test_a_folder_of_which_nothing_can_be_read_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import torch._inductor\ntorch._inductor.x = (\n")
    assert lint([tmp_path], TORCHES).exit_code == 3
    (tmp_path / "well.py").write_text("import torch._inductor\ntorch.x = 1\n")
    assert lint([tmp_path], TORCHES).exit_code == 0


@pytest.mark.parametrize(
    ("source", "is_used"),
    [
        ("", False),
        ('"""A text."""\nimport os, torch\n', False),
        ("import torch\ntorch.ones(1)\n", True),
        ("from torch._inductor import ir\n", True),
        ("import torch\nif torch.__version__ >= '2':\n    pass\n", True),
        ("import mypkg\nmypkg.install()\n", True),  # what another file does is not known
    ],
)
def test_a_file_that_does_not_use_torch_is_no_good_news(
    tmp_path: Path, source: str, is_used: bool
) -> None:
    file = tmp_path / "patch.py"
    file.write_text(source)
    report = lint([file], TORCHES)
    assert ("PG143" in [each.code for each in report.findings]) is not is_used
    assert (report.exit_code == 3) is not is_used
