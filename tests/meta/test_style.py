"""House rules that no linter knows: docstrings, names, sizes, and tests that assert something.

Each rule is also seen failing on a small made-up text.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINE = [path for path in sorted(ROOT.glob("patchgate/**/*.py")) if "_shipped" not in path.parts]
TESTS = sorted(ROOT.glob("tests/**/*.py"))
WRITTEN = [
    *ENGINE,
    *TESTS,
    *(
        path
        for folder in ("benchmarks", "ci", "docs")
        for path in sorted(ROOT.glob(f"{folder}/**/*.py"))
    ),
    ROOT / "noxfile.py",
]
SAYS_NOTHING = {"utils", "util", "common", "base", "manager", "helper", "helpers", "misc"}
LONGEST_FUNCTION = 50
# To be emptied: these were packed into lines of 120 columns.
STILL_LONGER = {
    "_monitored",
    "_targets",
}
# Calls that fail by themselves, besides those whose name begins with `assert`.
FAILING = {"pytest.fail", "pytest.raises", "pytest.warns"}
# The fixture of pytest's door, which fails by itself where a verdict is red.
DOOR = "judge"


def docstring_fault(text: str) -> str | None:
    lines = (ast.get_docstring(ast.parse(text)) or "").splitlines()
    return None if 1 <= len(lines) <= 7 else f"a docstring of {len(lines)} lines, not 1 to 7"


# A docstring or a comment that begins so is a noun clause, or is read twice.
CLAUSES = re.compile(r"(What|Whether|Those|Where|Whoever|Whom?|Whose|Which|Of|That (of|which))\b")


def clauses(text: str) -> list[str]:
    """The first lines of docstrings and comments that are no sentence; a question may be one."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    told = [
        ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(text))
        if isinstance(node, kinds)
    ]
    first = [lines[0] for each in told if (lines := each.splitlines())]
    return [
        line
        for line in (*first, *first_lines_of_comments(text))
        if CLAUSES.match(line) and not line.endswith("?")
    ]


def first_lines_of_comments(text: str) -> list[str]:
    """The first line of each comment that has lines of its own, without `#`."""
    own = {
        token.start[0]: token.string.lstrip("#: ")
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#")
    }
    return [comment for line, comment in own.items() if line - 1 not in own]


def says_nothing(path: Path) -> bool:
    return bool(SAYS_NOTHING.intersection(path.stem.strip("_").split("_")))


def silent_tests(text: str) -> list[str]:
    """The tests that assert nothing: no `assert`, and no call that is known to fail by itself."""
    return [
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and not _asserts(node)
    ]


def _asserts(function: ast.FunctionDef) -> bool:
    fixtures = {argument.arg for argument in function.args.args}
    called = {ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
    return (
        any(isinstance(node, ast.Assert) for node in ast.walk(function))
        or bool(called & (FAILING | ({DOOR} & fixtures)))
        or any(name.rpartition(".")[2].startswith("assert") for name in called)
    )


def long_functions(text: str) -> dict[str, int]:
    """The functions of more lines than are allowed; decorators count for nothing and a signature
    for one line, since both declare and do nothing.
    """
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.body[0].lineno + 2
            if lines > LONGEST_FUNCTION:
                found[node.name] = lines
    return found


def display_path(paths: Iterable[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def test_every_module_says_what_it_does():
    faults = {path.name: docstring_fault(path.read_text("utf-8")) for path in ENGINE}
    assert {name: fault for name, fault in faults.items() if fault} == {}


def test_docstrings_and_comments_are_sentences():
    found = {str(path.relative_to(ROOT)): clauses(path.read_text("utf-8")) for path in WRITTEN}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('def f():\n    """Whether it runs."""\n', ["Whether it runs."]),
        ('"""What does it do?"""\n', []),
        ('def f():\n    """True if it runs."""\n', []),
        ('def f():\n    """Of each run the first."""\n', ["Of each run the first."]),
        ('def f():\n    """Whole runs, often."""\n', []),
        ("# What runs.\nx = 1\n", ["What runs."]),
        ("x = 1  # Of all.\n#: Whose it is.\ny = 2\n", ["Whose it is."]),
        ("# Runs that are listed after\n# What is measured.\nx = 1\n", []),
    ],
)
def test_the_rule_for_sentences_tells_good_from_bad(text, found):
    assert clauses(text) == found


def test_every_test_file_says_what_it_tests():
    assert (
        display_path(
            path for path in TESTS if not ast.get_docstring(ast.parse(path.read_text("utf-8")))
        )
        == []
    )


def test_no_module_has_a_name_that_says_nothing():
    assert display_path(path for path in ENGINE + TESTS if says_nothing(path)) == []


def test_no_function_of_the_engine_is_long():
    found = {name for path in ENGINE for name in long_functions(path.read_text("utf-8"))}
    assert found == STILL_LONGER


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
        ('"""' + "Eight.\n" * 8 + '"""\n', False),
        ("x = 1\n", False),
        ("", False),
    ],
)
def test_the_rule_for_docstrings_tells_good_from_bad(text, holds):
    assert (docstring_fault(text) is None) is holds


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("utils.py", True),
        ("_base.py", True),
        ("test_helper.py", True),
        ("compare.py", False),
        ("database.py", False),
    ],
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
        ("pytest.fail('never')", False),
        ("judge(check, instance)", False),
        ("judge_facts(check, compared)", True),
        ("verdicts.judge(check)", True),
        ("failure_of(answer)", True),
        ("self.fails()", True),
    ],
)
def test_the_rule_for_assertions_tells_good_from_bad(body, silent):
    assert silent_tests(f"def test_x(judge):\n    {body}\n") == (["test_x"] if silent else [])


def test_a_function_that_is_named_as_the_door_is_not_it():
    assert silent_tests("def test_x():\n    judge(verdicts)\n") == ["test_x"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f():\n" + "    x = 1\n" * 49, {}),
        ("def f():\n" + "    x = 1\n" * 50, {"f": 51}),
        ("async def f():\n" + "    x = 1\n" * 50, {"f": 51}),
        ("@one\n@two\ndef f():\n" + "    x = 1\n" * 49, {}),
        ("class C:\n" + "    x = 1\n" * 60 + "    def f(self): pass\n", {}),
        ("class C:\n    def f(self):\n" + "        x = 1\n" * 50, {"f": 51}),
    ],
)
def test_the_rule_for_functions_tells_good_from_bad(text, found):
    assert long_functions(text) == found
