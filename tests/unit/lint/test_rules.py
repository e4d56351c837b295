"""Every rule is found by being there, runs or is called, has a test file of its own, and reports
each of its codes.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from patchgate.lint import rules
from patchgate.lint.rules import CODES, RULES

FILES = sorted(
    file for file in Path(str(rules.__file__)).parent.glob("*.py") if file.stem != "__init__"
)


@pytest.mark.parametrize("rule", [file.stem for file in FILES])
def test_a_rule_has_a_test_file_of_its_own(rule: str) -> None:
    assert (Path(__file__).parent / "rules" / f"test_{rule}.py").is_file()


def test_every_file_of_a_rule_is_asked_or_called_by_name() -> None:
    called = {"misplaced_hunk", "not_judged", "unused_ignore"}
    assert {rule.__module__.rpartition(".")[2] for rule in RULES} == {
        file.stem for file in FILES
    } - called


def test_the_codes_are_those_of_the_files_in_order() -> None:
    assert [code.code for code in CODES] == [
        *(f"PG{number}" for number in range(110, 133)),
        "PG140",
        "PG141",
        "PG142",
        "PG143",
    ]


def unreported(text: str) -> set[str]:
    """Codes of a module that no function of it names."""
    tree = ast.parse(text)
    codes = {
        name.id
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("read_codes(")
        for name in ast.walk(node.targets[0])
        if isinstance(name, ast.Name)
    }
    assert codes, "a rule has codes"
    return codes - {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_rule_reports_each_of_its_codes(file: Path) -> None:
    assert unreported(file.read_text("utf-8")) == set()


def test_a_code_that_is_only_defined_is_found() -> None:
    assert unreported("A, B = read_codes('')\ndef f(): report(B)\n") == {"A"}
