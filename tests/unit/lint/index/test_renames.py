"""The new name of what a release lacks under its old one."""

from __future__ import annotations

import pytest
from toyindex import toy_releases

from patchgate.lint.run import lint_source

OLD = """
def choose(first, second, third): return first + second
def tiny(x): return x
class Plan:
    def a(self): return 1
    def b(self): return 2
    def c(self): return 3
"""
SPEC = "class Spec:\n    def a(self): return 1\n    def b(self): return {}\n    def c(self): return 3\n"


@pytest.mark.parametrize(
    ("name", "new", "advice"),
    [
        ("choose", "def select(first, second, third): return first + second\n", "`select` has the same body"),
        ("choose", "def choose_it(first, second, third): return 1\n", "perhaps `choose_it`"),
        ("choose", "def other(first, second, third): return 1\n", ""),
        ("choose", "def choose_it(first, third): return 1\n", ""),
        ("tiny", "def tiny_one(x): return 1\n", ""),
        ("Plan", SPEC.format(2), "`Spec` has the same body"),
        ("Plan", SPEC.format(9), "perhaps `Spec`"),
        ("Plan", SPEC.format(9) + SPEC.format(8).replace("Spec", "Sort"), ""),
    ],
)  # fmt: skip
def test_the_one_name_that_came_in_its_place_is_advised(name: str, new: str, advice: str) -> None:
    torches = toy_releases({"2.10.0": {"torch.fx.a": OLD}, "2.11.0": {"torch.fx.a": new}})
    (finding,), _ = lint_source(f"from torch.fx.a import {name}\n", "a.py", torches)
    assert advice in finding.fix
    assert bool(finding.fix) is bool(advice)
