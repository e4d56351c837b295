"""The example of a code: which one is taken, the lines of the patch, what was printed, and the
correction.
"""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from benchmarks.corpus.cases import HOSTILE, load_cases
from patchgate.checks.framework.find_checks import every_code
from patchgate.model.paths import CORPUS, EXAMPLES, ROOT
from patchgate.model.results import Example
from patchgate.report import explain
from patchgate.report.explain import example_of, show_code


def printed(code: str, width: int = 100) -> str:
    out = io.StringIO()
    show_code(Console(file=out, width=width), every_code()[code])
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def example(case: str, code: str = "PG301") -> Example:
    return Example(
        code=code, case=case, where=f"{case}/patch.py:2", text="4 loads became 6", expected="4"
    )


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Three cases, one of them with a corrected form."""
    for name, lines in {"short": 3, "long": 9, "long-fixed": 9}.items():
        folder = tmp_path / "patches" / name
        folder.mkdir(parents=True)
        source = [
            "import a",
            "a.f = a.g" if name != "long-fixed" else "a.f = a.h",
            *["x = 1"] * (lines - 2),
        ]
        (folder / "patch.py").write_text("\n".join(source) + "\n")
        (folder / "patch.toml").write_text(
            f'title = "The {name} one"\nsource = "https://example.org/{name}"\n'
        )
    monkeypatch.setattr(explain, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    return monkeypatch


def test_a_case_with_a_corrected_form_is_shown_with_the_lines_that_change(corpus):
    corpus.setattr(
        explain, "_examples", lambda: (example("patches/short"), example("patches/long"))
    )
    text = printed("PG301")
    assert "The long one (https://example.org/long)" in text
    assert ">   2 a.f = a.g" in text
    assert "4 loads became 6" in text
    assert "expected: 4" in text
    assert text.splitlines()[-3:] == [
        "correct patches/long-fixed/patch.py",
        "        - a.f = a.g",
        "        + a.f = a.h",
    ]


def test_without_a_corrected_form_the_shortest_patch_is_shown(corpus):
    corpus.setattr(
        explain, "_examples", lambda: (example("patches/long-fixed"), example("patches/short"))
    )
    assert "The short one" in printed("PG301")
    assert "correct" not in printed("PG301").partition("example")[2]


def test_a_code_without_an_example_is_explained_without_one(corpus):
    corpus.setattr(explain, "_examples", lambda: (example("patches/short", "PG302"),))
    assert "example" not in printed("PG301")


def stored() -> list[Example]:
    return [Example(**one) for one in json.loads(EXAMPLES.read_text("utf-8"))]


def test_every_stored_example_is_a_case_that_must_get_the_code_at_a_line_that_is_there():
    cases = {case.folder: case for case in load_cases(list(CORPUS))}
    for one in stored():
        case = cases[str(ROOT / one.case)]
        assert one.code in {code for expected in case.expected for code in expected.codes}
        file, _, line = one.where.rpartition(":")
        assert not line.isdecimal() or int(line) <= len(
            (ROOT / file).read_text("utf-8").splitlines()
        )


def test_every_code_that_the_corpus_shows_has_an_example():
    cases = [
        case
        for case in load_cases(list(CORPUS))
        if not case.known and not case.needs and case.kind != HOSTILE
    ]
    shown = {e.codes[0] for case in cases for e in case.expected if len(e.codes) == 1}
    missing = {code for code in shown if example_of(code) is None}
    assert missing == set(), "python -m benchmarks.corpus --examples fixtures/examples.json"
