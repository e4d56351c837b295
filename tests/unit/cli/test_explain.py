"""`patchgate explain` as it is typed."""

import ast
import re

from expecttest import assert_expected_inline

from patchgate.checks.framework.find_checks import every_code
from patchgate.model.paths import PACKAGE, PAGES, ROOT


def test_a_code_is_explained_however_it_is_typed(command):
    status, printed, _ = command("explain", "pg301")
    assert (status, printed.splitlines()[0]) == (0, "PG301  kernel facts changed")


def test_each_page_that_a_message_names_is_printed_and_is_in_the_wheel(command):
    texts = [path.read_text("utf-8") for path in PACKAGE.rglob("*.py")]
    word = re.compile(r"patchgate explain ([a-z][a-z-]+)")
    assert {name for text in texts for name in word.findall(text)} == {*PAGES}
    for name, page in PAGES.items():
        assert command("explain", name)[:2] == (0, page.read_text("utf-8"))
        assert f'"patchgate/_shipped/docs/{name}.md"' in (ROOT / "pyproject.toml").read_text(
            "utf-8"
        )


def test_no_message_names_a_page_that_a_wheel_lacks():
    page, named = re.compile(r"docs/[a-z-]+\.md"), []
    for path in PACKAGE.rglob("*.py"):
        module = ast.parse(path.read_text("utf-8"))
        texts = [each.value for each in ast.walk(module) if isinstance(each, ast.Constant)]
        told = texts[1:] if ast.get_docstring(module) else texts
        named += [text for text in told if isinstance(text, str) and page.search(text)]
    assert named == []


def test_without_a_code_all_are_listed_in_order(command):
    status, printed, _ = command("explain")
    assert (status, [line[:5] for line in printed.splitlines()]) == (0, sorted(every_code()))


def test_a_code_that_is_like_no_other_is_answered_with_the_list(command):
    _, _, wrong = command("explain", "PG999")
    assert wrong.splitlines()[2] == "  next: patchgate explain   (lists all)"


def test_an_unknown_code_is_answered_with_its_neighbour(command):
    status, _, wrong = command("explain", "PG3010")
    assert status == 2
    assert_expected_inline(
        wrong,
        """\
error: explain: no such code
  got:  PG3010
  next: patchgate explain PG301
""",
    )


def test_lines_to_paste_are_printed_as_lines_of_a_patch(command):
    _, printed, _ = command("explain", "PG701")
    lines = printed[printed.index("  paste ") :].splitlines()
    text = "\n".join(
        line[8:]
        for line in lines[: lines.index(" " * 8 + "FxGraphHashDetails.__init__ = keyed") + 1]
    )
    assert ast.parse(text)
    assert "fixtures/" not in printed[: printed.index("  paste ")]
