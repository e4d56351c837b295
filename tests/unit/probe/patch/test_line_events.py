"""Lines and outcomes of a file are the same by trace events and, from Python 3.12 on, by
monitoring.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from patchgate.probe.patch import coverage
from patchgate.probe.patch.coverage import LinesRun, taken
from patchgate.probe.patch.original_calls import OriginalCalls

SOURCE = """\
def chooses(x):
    if x > 2:
        y = 1
    else:
        y = 2
    for i in range(x):
        y += i
    return y

def yields(n):
    for i in range(n):
        yield i
        if i > 0:
            return

def raises(x):
    try:
        if x:
            raise KeyError(x)
        return 1
    except KeyError:
        if x == 2:
            raise ValueError
        return 3

def recurs(n):
    if n == 0:
        return 0
    return 1 + recurs(n - 1)

def never():
    return 1
"""
Events = Callable[[str, LinesRun], contextlib.AbstractContextManager[None]]
WAYS = [coverage.traced] + ([coverage._monitored] if sys.version_info >= (3, 12) else [])


@pytest.mark.parametrize("events", WAYS)
@pytest.mark.parametrize("is_imported_before", [True, False])
def test_lines_and_outcomes_of_one_file(
    tmp_path: Path, events: Events, is_imported_before: bool
) -> None:
    path, ran = tmp_path / "patch.py", LinesRun()
    path.write_text(SOURCE)
    code = compile(SOURCE, str(path), "exec")
    names = imported(code) if is_imported_before else {}
    with events(str(path), ran):
        names = names or imported(code)
        work(names)
    names["never"]()
    defined = {1, 10, 16, 26, 31}
    body = {2, 3, 5, 6, 7, 8, 11, 12, 13, 14, 17, 18, 19, 20, 21, 22, 23, 24, 27, 28, 29}
    assert ran.lines == (body if is_imported_before else body | defined)
    assert set(taken(str(path), ran.jumps)) == {
        (2, "true"), (2, "false"), (6, "entered"), (6, "left"),
        (11, "entered"), (11, "left"), (13, "true"), (13, "false"),
        (18, "true"), (18, "false"), (22, "true"), (22, "false"), (27, "true"), (27, "false"),
    }  # fmt: skip


def imported(code: CodeType) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def work(names: dict[str, Any]) -> None:
    for x in (0, 3):
        names["chooses"](x)
    assert [*names["yields"](5), *names["yields"](1)] == [0, 1, 0]
    for x in (0, 1):
        names["raises"](x)
    with pytest.raises(ValueError, match=r"^$"):
        names["raises"](2)
    assert names["recurs"](3) == 3


def test_the_tracer_of_before_is_back(tmp_path: Path) -> None:
    before = sys.gettrace()
    with contextlib.suppress(KeyError), coverage.line_events(str(tmp_path), LinesRun()):
        raise KeyError
    assert sys.gettrace() is before


def test_what_runs_in_a_pause_is_not_traced(tmp_path: Path) -> None:
    path, ran = tmp_path / "patch.py", LinesRun()
    names = imported(compile(SOURCE, str(path), "exec"))
    with coverage.traced(str(path), ran):
        with coverage.untraced():
            names["chooses"](3)
        names["never"]()
    assert ran.lines == {32}


Record = Callable[[str, LinesRun], contextlib.AbstractContextManager[None]]


@pytest.mark.parametrize("record", [coverage.traced, coverage.line_events])
@pytest.mark.parametrize(
    ("files", "line"),
    [
        (["torch/ir.py"], "torch/ir.py:2"),
        (["patch.py"], ""),
        (["mine/torch/ir.py"], ""),
        (["torch/decorator.py", "torch/ir.py"], "torch/ir.py:2"),
        (["torch/decorator.py", "patch.py"], ""),
        (["torch/helper.py", "patch.py"], ""),
        (["torch/replacement.py", "torch/ir.py"], ""),
    ],
)
def test_the_first_line_of_torch_that_calls_an_original_is_noted(
    record: Record, files: list[str], line: str, tmp_path: Path
) -> None:
    """`files` have the functions that call each other, the innermost first."""
    patch = str(tmp_path / "patch.py")
    names = imported(compile(SOURCE, patch, "exec"))
    calls = OriginalCalls(patch, str(tmp_path))
    calls.names[id(names["chooses"].__code__)] = "torch.chooses"
    function: Callable[[int], int] = names["chooses"]
    for file in files:
        source = "def calls(x):\n    return function(x)\n"
        exec(compile(source, str(tmp_path / file), "exec"), around := {"function": function})
        function = around["calls"]
        known = {"torch/decorator.py": calls.decorators, "torch/replacement.py": calls.replacements}
        known.get(file, set()).add(id(function.__code__))
    with record(patch, LinesRun(calls=calls)):
        function(1)
    assert calls.lines == ({"torch.chooses": line} if line else {})
