"""How a usage error is worded: where, what, got, next; lines without a text are left out."""

from expecttest import assert_expected_inline

from patchgate.model.errors import UsageError


def test_a_full_error_has_three_lines():
    error = UsageError("no such row", where="matrix.toml:3", got="2.99", next="one of: 2.11.0")
    assert_expected_inline(
        str(error),
        """\
matrix.toml:3: no such row
  got:  2.99
  next: one of: 2.11.0""",
    )


def test_what_is_not_known_leaves_no_empty_line():
    assert str(UsageError("no run")) == "no run"
