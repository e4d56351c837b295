"""A failure says where a patch hung or crashed, and of an exception the lines of the patch and of
torch.
"""

import linecache
import sys
import traceback
from pathlib import Path
from types import ModuleType

import pytest

from patchgate.probe.process import reply
from patchgate.probe.process.reply import exception_failure, exit_failure, line_in_patch

TRACE = """Current thread 0x00007f (most recent call first):
  File "/site-packages/torch/_inductor/ir.py", line 9 in realize
  File "/home/me/patch.py", line 4 in inner
  File "/home/me/patch.py", line 7 in <module>
"""
PATCH, TORCH = "/home/me/patch.py", "/env/site-packages/torch/_inductor/ir.py"


@pytest.mark.parametrize(
    ("trace", "patch", "where"),
    [
        (TRACE, "/home/me/patch.py", "/home/me/patch.py:4"),
        (TRACE, "/home/me/other.py", None),
        (TRACE, "/home/meXpatch.py", None),
        (TRACE, None, None),
        ("", "/home/me/patch.py", None),
    ],
)
def test_the_innermost_frame_of_the_patch(trace, patch, where):
    assert line_in_patch(trace, patch) == where


def failure_of(patch_source, torch_source, patch=PATCH):
    """The failure of `main()` in the patch, whose globals are torch's and its own."""
    names = {}
    exec(compile(torch_source, TORCH, "exec"), names)
    exec(compile(patch_source, PATCH, "exec"), names)
    try:
        names["main"]()
    except Exception as error:
        return exception_failure(error, patch)
    raise AssertionError("nothing was raised")


RAISES = "def realize():\n    raise KeyError('buf0')"
CALLS = "def inner():\n    realize()\ndef main():\n    inner()"


def test_the_innermost_line_of_the_patch_and_then_the_line_that_raised():
    failure = failure_of(CALLS, RAISES)
    assert failure["signature"] == "KeyError: 'buf0'"
    assert (failure["where"], failure["raised_at"]) == (f"{PATCH}:2", "torch/_inductor/ir.py:2")
    assert failure["detail"].splitlines()[-2:] == [
        f'  File "{TORCH}", line 2, in realize',
        "KeyError: 'buf0'",
    ]


def test_no_line_of_the_probe_is_named():
    with pytest.raises(TypeError) as raised:
        exit_failure("no status")
    assert exception_failure(raised.value, PATCH)["raised_at"] is None


def test_an_error_of_our_own_comparison_is_never_the_patch():
    """Code of torch that a comparison calls may have been replaced."""
    ours = Path(reply.__file__).parents[1] / "numerics" / "sample_differences.py"
    found = []
    for source in ("def main():\n    [][0]", "def main():\n    realize()"):
        names = {}
        exec(compile("def realize():\n    [][0]", TORCH, "exec"), names)
        exec(compile(source, ours, "exec"), names)
        with pytest.raises(IndexError) as raised:
            names["main"]()
        failure = exception_failure(raised.value, PATCH)
        found.append((failure["cause"], failure["signature"].startswith("a comparison")))
    assert found == [("machine", True), ("raised", False)]


def test_a_line_of_the_patch_that_raises_is_named_once():
    failure = failure_of("def main():\n    raise ValueError('no')", "")
    assert (failure["where"], failure["raised_at"]) == (f"{PATCH}:2", None)


def test_a_patch_of_which_no_line_took_part_is_named_without_a_line():
    assert failure_of(CALLS, RAISES, "/home/me/other.py")["where"] == "/home/me/other.py"
    assert failure_of(CALLS, RAISES, None)["where"] is None, "unpatched"


WRAPS = """
def realize():
    raise KeyError('buf0')
def compile_fx(f):
    try:
        f()
    except KeyError as error:
        raise RuntimeError('backend failed') from error
"""


def test_the_innermost_error_counts_and_the_patch_may_stand_only_around_the_wrapper():
    outer = failure_of("def main():\n    compile_fx(realize)", WRAPS)
    assert (outer["signature"], outer["where"]) == ("KeyError: 'buf0'", f"{PATCH}:2")
    assert outer["raised_at"] == "torch/_inductor/ir.py:3"
    inner = failure_of("def mine():\n    realize()\ndef main():\n    compile_fx(mine)", WRAPS)
    assert inner["where"] == f"{PATCH}:2", (
        "the innermost of the patch's lines, not the last of the outer error"
    )


def test_no_replaced_module_of_python_changes_the_lines(monkeypatch):
    def broken(*arguments, **keywords):
        raise RuntimeError("replaced by a patch")

    for module in (linecache, traceback):
        for name, value in list(vars(module).items()):
            if callable(value) and not isinstance(value, type):
                monkeypatch.setattr(module, name, broken)
    monkeypatch.delitem(sys.modules, "linecache")
    failure = failure_of(CALLS, RAISES)
    assert (failure["where"], failure["raised_at"]) == (f"{PATCH}:2", "torch/_inductor/ir.py:2")


def test_a_name_that_torch_does_not_have_is_said_to_be_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    found = [
        failure_of(f"def main():\n    import {module}\n    {module}.npu", "")["missing"]
        for module in ("torch", "json")
    ]
    assert found == [["torch.npu"], []]


def test_an_exception_that_has_no_text_is_named_by_its_type():
    silent = (
        "class Silent(Exception):\n    def __str__(self):\n        raise ValueError('no text')\n"
    )
    failure = failure_of(f"{silent}def main():\n    raise Silent()", "")
    assert (failure["signature"], failure["where"]) == ("Silent", f"{PATCH}:5")


def test_the_text_has_no_path_of_this_machine():
    text = (
        "cannot import name 'x' from 'torch.y' "
        "(/home/me/env/lib/python3.11/site-packages/torch/y.py)"
    )
    signature = failure_of(f"def main():\n    raise ImportError({text!r})", "")["signature"]
    assert signature == "ImportError: cannot import name 'x' from 'torch.y' (torch/y.py)"


def test_a_chain_that_leads_back_to_itself_ends():
    loop = (
        "def main():\n    error = ValueError('round')\n    error.__cause__ = error\n    raise error"
    )
    assert failure_of(loop, "")["signature"] == "ValueError: round"
