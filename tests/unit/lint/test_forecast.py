"""When a finding hurts, by the releases on which it is true."""

from __future__ import annotations

from pathlib import Path

import pytest
from toytorch import TORCHES

from patchgate.lint.findings import When, first_after, newer, when
from patchgate.lint.run import lint

ADMITTED = ["2.9.0", "2.10.0", "2.11.0", "2.12.0"]


@pytest.mark.parametrize(
    ("releases", "installed", "expected"),
    [
        (["2.12.0"], "", When.NOW),
        (ADMITTED, "", When.NOW),
        ([], "", When.NOW),  # of the file itself
        (["2.9.0"], "", When.LOWER_BOUND),
        (["2.9.0", "2.10.0"], "", When.LOWER_BOUND),
        (["2.9.0", "2.10.0"], "2.10.0", When.NOW),
        (["2.10.0"], "", When.OLDER),
        (["2.9.0", "2.11.0"], "", When.OLDER),
    ],
)
def test_when(releases: list[str], installed: str, expected: When) -> None:
    assert when(releases, ADMITTED, installed) is expected


def test_what_comes_after() -> None:
    assert first_after(["2.10.0", "2.9.0"], ADMITTED) == "2.11.0"
    assert newer([*ADMITTED, "2.13.0"], ADMITTED) == ["2.13.0"]
    assert newer(ADMITTED, ADMITTED) == []


@pytest.mark.parametrize(
    ("folder", "red"),
    [
        ("_inductor_210", False),
        ("torch_2_7", False),
        ("pt2.8.0", False),
        ("torch_2_13", True),
        ("_inductor_2130", True),
        ("inductor", True),
        ("torch_2d", True),
    ],
)
def test_a_folder_that_is_named_after_a_release_is_for_that(
    tmp_path: Path, folder: str, red: bool
) -> None:
    project = tmp_path / "torch_2_1" / "project"
    (project / folder).mkdir(parents=True)
    (project / "setup.py").write_text("")
    (project / folder / "mine.py").write_text("import torch._inductor.old\n")
    (finding,) = lint([project], TORCHES).findings
    assert (finding.severity.value, finding.when is not None) == (("note", "red")[red], red)


@pytest.mark.parametrize(
    ("project", "below", "red"),
    [
        ("", "torch==2.4.1", False),  # no release of the index
        ("torch>=2.10", "torch==2.4.1", False),
        ("torch==2.10.0", "torch>=2.0", False),  # what both allow
        ("torch==2.10.0", "torch", False),
        ("torch>=2.10", "torch", True),
        ("torch>=2.10", "torch>=2.11", True),
        ("", "", True),
    ],
)
def test_a_folder_with_requirements_of_its_own_is_judged_by_them(
    tmp_path: Path, project: str, below: str, red: bool
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "requirements.txt").write_text(project)
    (tmp_path / "examples" / "one").mkdir(parents=True)
    (tmp_path / "examples" / "requirements.txt").write_text(below)
    (tmp_path / "examples" / "one" / "mine.py").write_text("import torch._inductor.old\n")
    report = lint([tmp_path], TORCHES)
    assert [each.severity.value for each in report.findings if each.when is When.NOW] == (
        ["red"] * red
    )
    assert ("examples" in " ".join(report.ranges)) is (below > "torch")
