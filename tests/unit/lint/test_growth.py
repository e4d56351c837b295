"""The work of lint grows with a file, and not with its square: else one file takes all the time.

Counted are calls, which are the same each time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from toytorch import TORCHES

from patchgate.lint.run import lint_source

HEAD = """import torch
from torch._inductor import ir
from packaging.version import Version
from packaging.specifiers import SpecifierSet
"""


def each(line: str) -> Callable[[int], str]:
    """A line, or some, for each of so many numbers, which stand for `#`."""
    return lambda count: "\n".join(line.replace("#", str(number)) for number in range(count))


GROWING: dict[str, Callable[[int], str]] = {
    "missing names that are set": each("ir.Box.should_realiz# = 1"),
    "missing names that are set and read": each("ir.Box.realiz# = 1\nir.Box.realiz#"),
    "one missing name": each("ir.Box.should_realiz = 1"),
    "missing names that are read": each("ir.Box.should_realiz#"),
    "missing names that are mocked": each("mock.patch('torch._inductor.ir.Box.realiz#', None)"),
    "early returns": each(
        "def f#():\n    if Version(torch.__version__) >= Version('2.0'): return\n    ir.Box.x# = 1\nf#()"
    ),
    "checks that are too wide": each(
        "if Version(torch.__version__) >= Version('2.0.#'):\n    torch._inductor.ir.Gone.x"
    ),
    "functions": each("def f#(self):\n    return ir.Box.create(1)"),
    "ignores": each("ir.Box.realiz#  # patchgate: ignore[PG118]"),
    "options": each("torch.compile(f, options={'max#': 1})"),
    "scopes": each("with ir.config.patch(a=#):\n    ir.Box"),
    "terms": lambda count: "x = " + " or ".join(["ir.Box"] * count),
    "comparisons": lambda count: "x = " + " < ".join(["ir.Box"] * count),
    "bounds of a specifier": lambda count: (
        "x = torch.__version__ in SpecifierSet('"
        + ",".join(f"!=2.9.{number}" for number in range(count))
        + "')"
    ),
}


def calls_of(source: str) -> int:
    """The number of calls that linting a source takes."""
    count = 0

    def counted(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        lint_source(source, "patch.py", TORCHES)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("name", GROWING)
def test_twice_the_file_is_twice_the_work(name: str) -> None:
    few, many = (calls_of(HEAD + GROWING[name](count)) for count in (120, 240))
    assert many < 2.3 * few


def test_work_that_grows_with_the_square_is_seen() -> None:
    def squared(count: int) -> int:
        seen = 0

        def counted(_frame: object, event: str, _argument: object) -> None:
            nonlocal seen
            seen += event == "c_call"

        sys.setprofile(counted)
        for _ in range(count * count):
            len("")
        sys.setprofile(None)
        return seen

    assert squared(40) > 2.3 * squared(20)
