"""`self` in a class that derives from torch's: its names and calls are torch's, but for what the
patch defines.
"""

from __future__ import annotations

import textwrap

import pytest
from toyindex import toy_releases
from toytorch import found

BASE = """
class Box:
    def __init__(self): {fields}
    def kept(self{extra}): ...
    {gone}
class Open(Box):
    def __getattr__(self, name): ...
"""
OLD = BASE.format(fields="self.old = 1", extra="", gone="def gone(self, x): ...")
NEW = BASE.format(fields="self.new = 1", extra=", needed", gone="")
TORCHES = toy_releases(
    {"2.10.0": {"torch._inductor.ir": OLD}, "2.11.0": {"torch._inductor.ir": NEW}}
)


def _told(body: str, head: str = "class Mine(Box):") -> list[str]:
    source = f"from torch._inductor.ir import Box, Open\nfrom elsewhere import Other\n{head}\n"
    return found(source + textwrap.indent(textwrap.dedent(body), "    "), TORCHES)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "def f(self): return self.gone(1)\n",
            "PG111 red `gone` missing on `torch._inductor.ir.Box` [from 2.11]",
        ),
        (
            "def f(self): return self.old\n",
            "PG111 red `old` missing on `torch._inductor.ir.Box` [from 2.11]",
        ),
        (
            "def f(self): return self.new\n",
            "PG111 red `new` missing on `torch._inductor.ir.Box` [2.10 and before]",
        ),
        ("def f(self): return self.kept()\n", "PG115 red `Box.kept` needs `needed` [from 2.11]"),
    ],
)
def test_a_name_or_a_call_that_a_release_lacks_is_red(body: str, message: str) -> None:
    assert [each.partition(": ")[2] for each in _told(body)] == [message]
    again = _told(body, "class Between(Box): ...\nclass Mine(Between):")
    assert [each.partition(": ")[2] for each in again] == [message]


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("class Mine(Box):", "def f(self): return self.gone(1)\ndef gone(self, x): ...\n"),
        ("class Mine(Box):", "gone = old = None\ndef f(self): return self.gone, self.old\n"),
        ("class Mine(Box):", "def f(self): return self.old\ndef g(self): self.old = 1\n"),
        ("class Mine(Box):", "def f(self): return self.never_in_torch\n"),
        ("class Mine(Box):", "def f(self):\n    if hasattr(self, 'gone'): self.gone(1)\n"),
        (
            "class Mine(Box):",
            "def f(self):\n    try: self.gone(1)\n    except AttributeError: pass\n",
        ),
        (
            "class Mine(Box):",
            "def f(self): return self.gone(1)\ndef __getattr__(self, name): ...\n",
        ),
        ("class Mine(Open):", "def f(self): return self.gone(1)\n"),
        ("class Mine(Box, Other):", "def f(self): return self.gone(1)\n"),
        (
            "class Base(Box):\n    def gone(self, x): ...\nclass Mine(Base):",
            "def f(self): return self.gone(1)\n",
        ),
        ("class Mine:", "def f(self): return self.gone(1)\n"),
        ("class Mine(Box):", "def f(self): return self.kept()\ndef kept(self): ...\n"),
        ("class Mine(Box):", "@staticmethod\ndef f(self): return self.gone(1)\n"),
    ],
)
def test_what_the_patch_or_something_unknown_may_have_is_not_judged(head: str, body: str) -> None:
    assert not [each for each in _told(body, head) if "PG111" in each or "PG115" in each]


def test_what_a_derived_class_of_the_file_defines_is_not_missing() -> None:
    body = "def f(self): return self.gone(1)\n"
    assert _told(body)
    source = (
        "from torch._inductor.ir import Box\nclass Mine(Box):\n    def f(self): return "
        "self.gone(1)\n"
    )
    assert not found(source + "class More(Mine):\n    def gone(self, x): ...\n", TORCHES)
