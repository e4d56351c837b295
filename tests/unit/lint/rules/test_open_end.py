"""PG130: wrappers behind a gate without an upper bound, of a body that has changed since; and
bounded neighbours.
"""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet
from toytorch import TORCHES, found

from patchgate.lint.run import lint_source

WRAPPER = """
import torch
from packaging.version import Version
from torch._inductor.ir import Box
original = Box.{name}
def wrapper(self, *args, **kwargs):
    return {call}
if {gate}:
    Box.{name} = wrapper
"""
VERSION = "Version(torch.__version__).release"


def notes(
    gate: str, name: str = "should_realize", call: str = "original(self, *args, **kwargs)"
) -> list[str]:
    lines = found(WRAPPER.format(gate=gate, name=name, call=call))
    return [line for line in lines if "PG130" in line]


def test_a_wrapper_with_an_open_end_is_reported_with_the_change() -> None:
    assert notes(f"{VERSION} >= (2, 11)") == [
        "8: PG130 note the version check has no upper bound, and `Box.should_realize`, which this "
        "wraps,"
        " has another body in 2.13.0 than in 2.11.0 [from 2.13]"
    ]


@pytest.mark.parametrize(
    ("gate", "name", "call"),
    [
        (f"(2, 11) <= {VERSION} < (2, 13)", "should_realize", "original(self, *args, **kwargs)"),
        (f"{VERSION} >= (2, 13)", "should_realize", "original(self, *args, **kwargs)"),
        (f"{VERSION} >= (2, 11)", "num_reads", "original(self, *args, **kwargs)"),
        (f"{VERSION} >= (2, 11)", "should_realize", "True"),
        ("True", "should_realize", "original(self, *args, **kwargs)"),
    ],
)
def test_a_bounded_gate_an_unchanged_body_and_an_override_are_quiet(
    gate: str, name: str, call: str
) -> None:
    assert notes(gate, name, call) == []


def test_a_claim_that_ends_ends_the_gate() -> None:
    source = WRAPPER.format(
        gate=f"{VERSION} >= (2, 11)", name="should_realize", call="original(self, *args, **kwargs)"
    )
    findings, _ = lint_source(source, "patch.py", TORCHES, claimed=SpecifierSet(">=2.11,<2.13"))
    assert [each.code for each in findings if each.code == "PG130"] == []
