"""PG126: a function is assigned to a name that torch does not have, and neighbours that may be."""

from __future__ import annotations

from toytorch import codes


def test_missing_target() -> None:
    source = "from torch._inductor.ir import Box\ndef f(self): ...\nBox.{} = {}\n"
    assert codes(source.format("should_realise", "f")) == ["PG126"]
    assert codes(source.format("_patched", "True")) == []
    assert codes(source.format("helper", "f") + "Box.should_realize = lambda self, *a, **k: self.helper()\n") == [
        "PG122"
    ]


def test_a_name_read_elsewhere_does_not_excuse_the_wrong_owner() -> None:
    source = "from torch._inductor import graph, ir\nkept = ir.unused\ngraph.unused = lambda x: kept(x)\n"
    assert codes(source) == ["PG126"]
    assert codes(source.replace("graph.unused", "ir.unused")) == ["PG119"]
