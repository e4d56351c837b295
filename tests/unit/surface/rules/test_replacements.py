"""PG113 to PG115, PG118, PG119, PG120, PG122: what a replacement does to torch's own calls."""

from __future__ import annotations

import pytest
from toytorch import TORCHES, codes, found

BOX = "from torch._inductor.ir import Box\nimport torch\n"


def test_drift_names_the_parameter_and_the_release() -> None:
    lines = found(f"{BOX}def f(self, users): return 1\nBox.should_realize = f\n")
    assert lines[0] == (
        "4: PG113 red replacement of `Box.should_realize` does not take `graph_reuse`, which torch passes [from 2.13]"
    )


@pytest.mark.parametrize(
    "signature",
    [
        "self, users, *, graph_reuse=True",
        "self, users, **kw",
        "*args, **kwargs",
        "self, users, graph_reuse=1",
    ],
)
def test_a_signature_that_takes_every_call(signature: str) -> None:
    assert "PG113" not in codes(f"{BOX}def f({signature}): return 1\nBox.should_realize = f\n")


@pytest.mark.parametrize(
    "rebinding",
    [
        "setattr(Box, 'should_realize', f)",
        "from unittest.mock import patch\npatch('torch._inductor.ir.Box.should_realize', f)",
        "from unittest import mock\nmock.patch.object(Box, 'should_realize', f)",
        "def test(monkeypatch): monkeypatch.setattr(Box, 'should_realize', f)",
        "torch._inductor.ir.Box.should_realize = f",
        "import importlib\nimportlib.import_module('torch._inductor.ir').Box.should_realize = f",
        "Box.should_realize, x = f, 1",
    ],
)
def test_every_way_of_replacing(rebinding: str) -> None:
    assert "PG113" in codes(f"{BOX}def f(self, users): return 1\n{rebinding}\n")


def test_forms() -> None:
    source = f"{BOX}def f({{}}): ...\nBox.{{}} = {{}}\n"
    assert codes(source.format("self, data", "create", "f")) == ["PG113", "PG114"]
    assert codes(source.format("data", "create", "staticmethod(f)")) == []
    assert codes(source.format("cls, data", "wrap", "classmethod(f)")) == []
    assert codes(source.format("self", "first", "f")) == ["PG114", "PG119"][:1]
    assert codes(source.format("self", "first", "property(f)")) == []
    assert "PG114" in codes(f"{BOX}async def f(self, users, **kw): ...\nBox.should_realize = f\n")


def test_calls_into_torch() -> None:
    assert codes(f"{BOX}def f(b: Box): b.num_reads(1)\n") == ["PG115"]
    assert codes(f"{BOX}def f(b: Box): b.should_realize(1, graph_reuse=True)\n") == ["PG115"]
    assert codes(f"{BOX}_orig = Box.should_realize\ndef f(b): _orig(b)\n") == ["PG115"]
    assert (
        codes(f"{BOX}_orig = Box.should_realize\ndef f(b, *a, **k): _orig(b, 1), _orig(*a, **k), b.num_reads(1)\n")
        == []
    )


def test_holders_by_value() -> None:
    source = "import torch._inductor.ir as ir\ndef f(x, *args, **kwargs): ...\nir.strides = f\n"
    assert found(source) == ["3: PG118 red the original stays in `torch._inductor.graph.strides` [every release]"]
    also = "import torch._inductor.graph as graph\ngraph.strides = f\n"
    assert codes(source + also) == []


def test_a_target_that_nothing_calls() -> None:
    assert codes("import torch._inductor.ir as ir\nir.unused = lambda x: x\n") == ["PG119"]


def test_dead_gate_is_red_only_when_it_keeps_a_replacement_out() -> None:
    source = "import torch\nfrom torch._inductor.ir import Box\nif torch.__version__ < (2, 8):\n    {}\n"
    dead = found(source.format("Box.should_realize = lambda self, *a, **k: 1"))
    assert [line.split(" no known")[0] for line in dead] == ["3: PG120 red"]
    assert [line.split(" no known")[0] for line in found(source.format("raise ImportError"))] == ["3: PG120 note"]
    assert "PG120" not in codes(source.replace("2, 8", "2, 12").format("pass"))


COPY = """
from torch._inductor.ir import Box
def should_realize(self, users, **kwargs):
    a = 1
    b = {}
    c = 3
    d = 4
    print('mine')
    return a + b + c + d
Box.should_realize = should_realize
"""


def test_a_stale_copy_shows_the_edits_that_it_lost() -> None:
    assert found(COPY.format(2)) == [
        "9: PG122 red override of `Box.should_realize` copies the body of 2.11 and before"
        " and lacks 2 upstream edits [from 2.13]"
    ]
    rewritten = "from torch._inductor.ir import Box\nBox.should_realize = lambda self, *a, **k: True\n"
    assert [line.split()[2] for line in found(rewritten)] == ["note"]
    assert found(COPY.format(2), TORCHES[:2]) == []
