"""A void edit: every digest of the patch's functions sees it, and nothing else does."""

import pytest
from patchgate.checks.edits import edited

SOURCE = '''
"""A patch."""

VALUE = 3  # a comment


def f(x):
    """Doubles."""
    return x + x


class Pass:
    def uuid(self):
        return "mine"

    async def later(self):
        return [value async for value in self.all()]
'''


def run(source):
    names = {}
    exec(source, names)
    return names


def test_an_edit_changes_every_function_and_no_result():
    before, after = run(SOURCE), run(edited(SOURCE))
    for one, other in ((before["f"], after["f"]), (before["Pass"].uuid, after["Pass"].uuid)):
        assert one.__code__.co_code != other.__code__.co_code
    assert (after["f"](2), after["f"].__doc__, after["Pass"]().uuid(), after["VALUE"]) == (4, "Doubles.", "mine", 3)


def test_a_text_that_is_not_python_is_refused():
    with pytest.raises(SyntaxError):
        edited("def (")
