"""How a usage error is worded: where, what, got, next; lines without a text are left out."""

from expecttest import assert_expected_inline

from patchgate.model.errors import UsageError
from patchgate.model.records import Command


def test_a_full_error_has_three_lines():
    error = UsageError("no such row", where="matrix.toml:3", got="2.99", next="one of: 2.11.0")
    assert_expected_inline(
        str(error),
        """\
matrix.toml:3: no such row
  got:  2.99
  next: one of: 2.11.0""",
    )


def test_the_next_step_may_be_a_command_that_is_worded_where_it_is_shown():
    command = Command(name="gate", arguments=("p.py",))
    error = UsageError("no run", next=command)
    assert (error.next, str(error)) == (command, "no run\n  next: patchgate gate p.py")
    error.next = "nox -s gate -- p.py"
    assert str(error) == "no run\n  next: nox -s gate -- p.py"


def test_what_is_not_known_leaves_no_empty_line():
    assert str(UsageError("no run")) == "no run"
