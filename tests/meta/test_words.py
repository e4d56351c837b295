"""Users read plain English: none of the words that only this project gives a meaning.

The tests read the pages, help, messages, the texts of codes and of the HTML report. A name of a
thing in code or in a file, as `verdicts.json`, is left alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from patchgate.model.paths import PACKAGE, ROOT

# House word -> what to write.
INSTEAD = {
    r"verdicts?": "result",
    r"cells?": "check, or a field of the matrix",
    r"cur(?:e|es|ed|ing)": "fix",
    r"in vain": "false alarm",
    r"besides?": "next to, with, in addition",
    r"whoever": "anyone who",
    r"(?:is|are) said to": "who says it",
    r"(?<!\bof )type (?:the|it|this|that command)|types? the same": "run",
    r"settles?": "verify",
}
# Records of our own measurements and of how we work, which no user needs.
RECORDS = {"corpus.md", "lint-truth.md", "whole-gate.md"}
PAGES = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in RECORDS),
]
NAMES = re.compile(
    r"`[^`\n]*`|\]\([^)]*\)|\w+=\"[^\"]*\"|https?://\S+|[\w/{}.-]*(?:verdicts|beside)[./][\w/.-]+|"
    r"\{[^{}]*\}|\"\w+\": "
)

SQL = re.compile(r"\s*(?:SELECT|CREATE|INSERT|DELETE)\b")


def house_words(text: str) -> list[str]:
    """Each house word of a text, with what to write in its place."""
    plain = NAMES.sub(" ", text)
    return [
        f"{found[0]}: {better}"
        for word, better in INSTEAD.items()
        for found in re.finditer(rf"(?i)\b(?:{word})\b", plain)
    ]


def messages(source: str) -> Iterator[str]:
    """The texts of a module: strings of several words, and the docstrings of commands, their
    help.
    """
    tree, hidden = ast.parse(source), set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(
            node
        ):
            decorators = getattr(node, "decorator_list", [])
            if not any("command" in ast.dump(each) for each in decorators):
                hidden.add(node.body[0].value)
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and node not in hidden and " " in node.value and not SQL.match(node.value):
            yield node.value


def template_text(source: str) -> str:
    """The text of a template, without expressions, tags and comments."""
    plain = re.sub(r"\{[{%#].*?[}%#]\}", " ", source, flags=re.S)
    return re.sub(r"<[^>]*>", " ", plain)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_plain(page):
    assert house_words(page.read_text("utf-8")) == []


def test_messages_and_help_are_plain():
    found = {
        str(path.relative_to(PACKAGE)): words
        for path in sorted(PACKAGE.rglob("*.py"))
        if "_shipped" not in path.parts
        for words in [
            [word for text in messages(path.read_text("utf-8")) for word in house_words(text)]
        ]
        if words
    }
    assert found == {}


def test_the_html_report_is_plain():
    templates = (PACKAGE / "report" / "html" / "templates").glob("*.html")
    found = {path.name: house_words(template_text(path.read_text("utf-8"))) for path in templates}
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("10 red verdicts, and a cell besides", 3),
        ("whoever merges it is red in vain; type the same command again", 3),
        ("the release that is said to cure it", 2),
        (
            "`verdicts.json`, fixtures/verdicts/PG301.py, [codes](verdicts.md), the type of a tensor",
            0,
        ),
    ],
)
def test_a_house_word_is_seen(text, count):
    assert len(house_words(text)) == count


def test_help_is_read_and_other_docstrings_are_not():
    source = '@click.command()\ndef a():\n    """A cell each."""\ndef b():\n    """No cell."""\n'
    assert list(messages(source)) == ["A cell each."]
