"""`patchgate explain` as it is typed."""

import ast

from expecttest import assert_expected_inline

from patchgate.checks.framework.find_checks import every_code


def test_a_code_is_explained_however_it_is_typed(command):
    status, printed, _ = command("explain", "pg301")
    assert (status, printed.splitlines()[0]) == (0, "PG301  kernel facts changed")


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
