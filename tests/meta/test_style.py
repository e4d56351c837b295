"""House rules that no linter knows: docstrings, names, sizes, and tests that assert something.

Each rule is also seen failing on a small made-up text.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINE = [path for path in sorted(ROOT.glob("patchgate/**/*.py")) if "_shipped" not in path.parts]
TESTS = sorted(ROOT.glob("tests/**/*.py"))
LONGEST = 400
SAYS_NOTHING = {"utils", "util", "common", "base", "manager", "helper", "helpers", "misc"}
ASSERTING = ("assert", "raises", "warns", "fail", "judge")


def docstring_fault(text):
    lines = (ast.get_docstring(ast.parse(text)) or "").splitlines()
    return None if 1 <= len(lines) <= 5 else f"a docstring of {len(lines)} lines, not 1 to 5"


def says_nothing(path):
    return bool(SAYS_NOTHING.intersection(path.stem.strip("_").split("_")))


def silent_tests(text):
    """The tests that assert nothing: no `assert`, and no call that is known to fail by itself."""
    return [
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not _asserts(node)
    ]


def _asserts(function):
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2].startswith(ASSERTING))
        for node in ast.walk(function)
    )


def shown(paths):
    return [str(path.relative_to(ROOT)) for path in paths]


def test_every_module_says_what_it_does():
    faults = {path.name: docstring_fault(path.read_text("utf-8")) for path in ENGINE}
    assert {name: fault for name, fault in faults.items() if fault} == {}


def test_every_test_file_says_what_it_tests():
    assert shown(path for path in TESTS if not ast.get_docstring(ast.parse(path.read_text("utf-8")))) == []


def test_no_module_has_a_name_that_says_nothing():
    assert shown(path for path in ENGINE + TESTS if says_nothing(path)) == []


def test_no_file_is_long():
    assert shown(path for path in ENGINE + TESTS if len(path.read_text("utf-8").splitlines()) > LONGEST) == []


def test_every_test_asserts():
    silent = {str(path.relative_to(ROOT)): silent_tests(path.read_text("utf-8")) for path in TESTS}
    assert {name: tests for name, tests in silent.items() if tests} == {}


def test_there_is_something_to_look_at():
    assert len(ENGINE) > 30
    assert len(TESTS) > 30


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('"""One line."""\n', True),
        ('"""Two.\n\nLines.\n"""\n' + "x = 1\n" * 60, True),
        ('"""' + "Six.\n" * 6 + '"""\n', False),
        ("x = 1\n", False),
        ("", False),
    ],
)
def test_the_rule_for_docstrings_tells_good_from_bad(text, holds):
    assert (docstring_fault(text) is None) is holds


@pytest.mark.parametrize(
    ("name", "bad"),
    [("utils.py", True), ("_base.py", True), ("test_helper.py", True), ("compare.py", False), ("database.py", False)],
)
def test_the_rule_for_names_tells_good_from_bad(name, bad):
    assert says_nothing(Path(name)) is bad


@pytest.mark.parametrize(
    ("body", "silent"),
    [
        ("compare(1, 2)", True),
        ("x = 1 == 2", True),
        ("assert x", False),
        ("with pytest.raises(ValueError): f()", False),
        ("assert_expected_inline(x, '')", False),
        ("self.assertEqual(1, 1)", False),
        ("judge(verdicts)", False),
    ],
)
def test_the_rule_for_assertions_tells_good_from_bad(body, silent):
    assert silent_tests(f"def test_x():\n    {body}\n") == (["test_x"] if silent else [])
