"""PG111, PG112: a name is not there, or has moved; neighbours that are there."""

from __future__ import annotations

from toytorch import found, toy


def test_moved_name() -> None:
    old = toy("2.10.0")
    new = toy("2.11.0")
    new.known["torch._inductor.ir"].functions.pop("unused")
    new.known["torch._inductor.graph"].functions["unused"] = old.known["torch._inductor.ir"].functions["unused"]
    assert found("from torch._inductor.ir import unused\n", (old, new)) == [
        "1: PG112 red `unused` moved to `torch._inductor.graph.unused` [from 2.11]"
    ]
    assert found("from torch._inductor.ir import unused\n") == []


def test_a_name_that_is_nowhere_is_missing() -> None:
    assert found("from torch._inductor.ir import Absent, Box\n") == [
        "1: PG111 red `Absent` missing on `torch._inductor.ir` [every release]"
    ]
