"""Conditions and loops of a text, and what the jumps of a run of it tell of them."""

import ast
import sys
import textwrap

import pytest

from patchgate.probe.patch.coverage import lines_that_can_run, outcomes, taken

TEXT = textwrap.dedent(
    """\
    def f(x, items=()):
        if (
            x > 1
            and x < 9
        ):
            x += 1
        for item in items:
            x += item
        while x > 100:
            return x
        return x


    def short(x):
        if x: return 1
        while True:
            break
        return 0


    def chain(x):
        if x == 1:
            return "one"
        elif x == 2:
            return "two"
        return None
    """
)


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "patch.py"
    path.write_text(TEXT)
    return str(path)


def run(path, name, *args):
    """The jumps of one call, as Python's trace events tell them."""
    scope, jumps = {}, set()
    exec(compile(TEXT, path, "exec"), scope)

    def follow(frame, event, argument):
        last = [None]

        def hear(frame, event, argument):
            if last[0]:
                jumps.add((last[0], frame.f_lineno if event == "line" else 0))
            last[0] = frame.f_lineno
            return hear

        return hear if frame.f_code.co_filename == path else None

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        scope[name](*args)
    finally:
        sys.settrace(before)
    return jumps


def test_every_branch_has_two_outcomes_and_one_on_a_single_line_has_none(module):
    assert outcomes(module) == {
        "f:1": [
            (2, "true"),
            (2, "false"),
            (7, "entered"),
            (7, "left"),
            (9, "entered"),
            (9, "left"),
        ],
        "chain:21": [(22, "true"), (22, "false"), (24, "true"), (24, "false")],
    }


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("f", 5), [(2, "true"), (7, "left"), (9, "left")]),
        (("f", 0, (1, 2)), [(2, "false"), (7, "entered"), (7, "left"), (9, "left")]),
        (("f", 200), [(2, "false"), (7, "left"), (9, "entered")]),
        (("chain", 1), [(22, "true")]),
        (("chain", 2), [(22, "false"), (24, "true")]),
        (("chain", 3), [(22, "false"), (24, "false")]),
    ],
)
def test_the_jumps_tell_how_each_came_out(module, call, told):
    assert taken(module, run(module, *call)) == told


GATED = """import torch
from acme import is_torch

def helper():
    from torch._a import for_both

def for_2_9(self):
    from torch._a import gone

class Choices:
    def pick(self):
        helper()

def unused():
    for_2_9(None)

if is_torch("2.9"):
    torch.a = for_2_9
else:
    torch.b(
        Choices,
    )
"""


def test_what_stands_behind_the_gate_of_another_release_cannot_run():
    lines = lines_that_can_run(ast.parse(GATED), {1, 2, 4, 7, 10, 11, 14, 17, 20})
    assert {5, 12, 21} <= lines
    assert not {8, 15, 18} & lines


def test_a_name_in_a_text_or_an_attribute_lets_a_function_run():
    text = (
        "def a():\n    b = 1\n\ndef c():\n    d = 2\n\nsetattr(torch, 'x', getattr(me, "
        "'a'))\nme.c()\n"
    )
    assert {2, 5} <= lines_that_can_run(ast.parse(text), {1, 4, 7, 8})
    assert not {2, 5} & lines_that_can_run(ast.parse(text), {1, 4})
