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
