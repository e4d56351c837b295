"""PG120: a gate that no release satisfies, and one that some does."""

from __future__ import annotations

from pathlib import Path

import pytest
from toytorch import TORCHES, codes, found

from patchgate.lint.findings import Severity
from patchgate.lint.run import lint, lint_source


def test_dead_gate_is_red_only_when_it_keeps_a_replacement_out() -> None:
    source = (
        "import torch\nfrom torch._inductor.ir import Box\nif torch.__version__ < (2, 8):\n    {}\n"
    )
    dead = found(source.format("Box.should_realize = lambda self, *a, **k: 1"))
    assert [line.split(" `")[0] for line in dead] == ["3: PG120 red"]
    assert [line.split(" `")[0] for line in found(source.format("raise ImportError"))] == [
        "3: PG120 note"
    ]
    assert "PG120" not in codes(source.replace("2, 8", "2, 12").format("pass"))


def test_a_gate_that_only_releases_outside_the_matrix_satisfy() -> None:
    source = "import torch\nif torch.__version__ < (2, 11): pass\n"
    findings, _ = lint_source(source, "patch.py", TORCHES, matrix=["2.11.0", "2.13.0"])
    assert [each.message for each in findings if each.code == "PG120"] == [
        "`torch.__version__ < (2, 11)` is true on no release that `patchgate gate` judges "
        "(2.11.0 to 2.13.0)"
    ]
    of_the_oldest, _ = lint_source(source, "patch.py", TORCHES, matrix=["2.10.0"])
    assert "PG120" not in [each.code for each in of_the_oldest]


def test_the_range_of_the_project_goes_before_the_matrix(tmp_path: Path) -> None:
    """A release that the project supports may be in no row; one that it does not support counts in
    no row either.
    """
    patch, matrix = tmp_path / "patch.py", ["2.11.0", "2.13.0"]
    patch.write_text("import torch\nif torch.__version__ < (2, 11): pass\n")

    def dead() -> list[str]:
        return [
            each.message
            for each in lint([patch], TORCHES, matrix=matrix).findings
            if each.code == "PG120"
        ]

    assert len(dead()) == 1
    (tmp_path / "requirements.txt").write_text("torch>=2.10\n")
    assert dead() == []
    (tmp_path / "requirements.txt").write_text("torch>=2.12\n")
    assert dead() == [
        "`torch.__version__ < (2, 11)` is true on no indexed release (2.13.0 to 2.13.0)"
    ]


def test_a_gate_for_releases_before_the_index_is_left_over(tmp_path: Path) -> None:
    source = (
        "import torch\nfrom torch._inductor.ir import Box\nif {}:\n    Box.should_realize = "
        "lambda self, *a, **k: 1\n"
    )
    (tmp_path / "patch.py").write_text(source.format("torch.__version__ < (2, 3)"))
    assert _severities(tmp_path) == [Severity.NOTE]
    (tmp_path / "patch.py").write_text(
        source.format("torch.__version__ < (2, 3) and torch.__version__ > (2, 9)")
    )
    assert _severities(tmp_path) == [Severity.RED]


def test_a_gate_for_nightlies_is_not_dead(tmp_path: Path) -> None:
    source = (
        "import torch\nfrom torch._inductor.ir import Box\nif {}:\n    Box.should_realize = "
        "lambda self, *a, **k: 1\n"
    )
    (tmp_path / "patch.py").write_text(source.format("'.dev' in torch.__version__"))
    assert _severities(tmp_path) == [Severity.NOTE]
    for dead in (
        "'.dex' in torch.__version__",
        "torch.__version__ < (2, 10) and torch.__version__ > (2, 9)",
    ):
        (tmp_path / "patch.py").write_text(source.format(dead))
        assert _severities(tmp_path) == [Severity.RED]


def test_a_gate_for_releases_that_are_years_older_than_the_index_is_left_over(
    tmp_path: Path,
) -> None:
    """The code behind its `else` does not wait for it."""
    source = (
        "import torch\nfrom torch._inductor.ir import Box\nif {}:\n    pass\nelif "
        "torch.__version__ > (9, 0):\n"
        "    Box.should_realize = lambda self, *a, **k: 1\n"
    )
    for check, severity in (
        ("< (1, 7)", Severity.NOTE),
        ("< (2, 3, 1) and torch.__version__ >= (2, 3)", Severity.NOTE),
        ("< (0, 0)", Severity.RED),
    ):
        (tmp_path / "patch.py").write_text(source.format(f"torch.__version__ {check}"))
        assert _severities(tmp_path)[0] is severity


def _severities(folder: Path) -> list[Severity]:
    return [
        each.severity
        for each in lint([folder / "patch.py"], TORCHES).findings
        if each.code == "PG120"
    ]


def test_a_gate_for_an_indexed_release_that_is_no_row_is_left_over(tmp_path: Path) -> None:
    """A project that states no range is judged by the rows; what is written for an older release is
    not wrong.
    """
    patch = tmp_path / "patch.py"
    source = (
        "import torch\nfrom torch._inductor.ir import Box\nif {}:\n    Box.should_realize = "
        "lambda self, *a, **k: 1\n"
    )

    def severities(check: str) -> list[Severity]:
        patch.write_text(source.format(check))
        return [
            each.severity
            for each in lint([patch], TORCHES, matrix=["2.13.0"]).findings
            if each.code == "PG120"
        ]

    assert severities("torch.__version__ < (2, 11) and somewhere()") == [Severity.NOTE]
    assert severities("torch.__version__ < (2, 11) and torch.__version__ > (2, 12)") == [
        Severity.RED
    ]


EARLY = """
import torch
from torch._inductor.ir import Box
from packaging.version import Version
V = Version(torch.__version__)
def install():
    if {}:
        return
    Box.should_realize = lambda self, users, **more: 1
install()
"""


@pytest.mark.parametrize(
    ("test", "red"),
    [
        ("not V >= Version('2.11') or V >= Version('2.11')", True),
        ("V < Version('2.12') or V >= Version('2.11')", True),
        ("not V >= Version('2.11') or V >= Version('2.12')", False),
        ("V >= Version('2.11')", False),
        ("V >= Version('2.11') and here()", False),
    ],
)
def test_an_early_return_that_is_always_taken(test: str, red: bool) -> None:
    assert [each.split(" `")[0] for each in found(EARLY.format(test)) if "PG131" in each] == [
        "6: PG131 red"
    ] * red


def test_an_early_return_for_newer_releases_is_no_mistake_where_these_alone_are_judged(
    tmp_path: Path,
) -> None:
    patch = tmp_path / "patch.py"
    for test, severity in (
        ("V.release >= (2, 11)", ["note"]),
        ("V.release < (2, 12) or V.release >= (2, 11)", ["red"]),
    ):
        patch.write_text(EARLY.format(test).lstrip())
        (tmp_path / "requirements.txt").write_text("torch>=2.11\n")
        findings = lint([patch], TORCHES).findings
        assert [each.severity.value for each in findings if each.code == "PG131"] == severity
