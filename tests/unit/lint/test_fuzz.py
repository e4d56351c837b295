"""Mutated patches: whatever the text is, lint answers with findings.

Twenty thousand of them with `-m fuzz`.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toytorch import TORCHES

from patchgate.lint.rules import CODES
from patchgate.lint.run import lint_source

SEEDS = [
    (Path(__file__).parents[3] / "fixtures" / "patches" / "vllm-42686" / "patch.py").read_text(),
    """
import torch, importlib
from packaging.version import Version
from unittest import mock
from torch._inductor import config, ir
from torch._inductor.ir import Box, strides as _orig
from torch._inductor.virtualized import V
def helper(text): return Version(torch.__version__) >= Version(text)
class Mine(Box):
    @classmethod
    def make(cls, x: "Box | None" = None, *a, **k): return [y.first for y in x.data if hasattr(y, "first")]
@mock.patch("torch._inductor.ir.Box.create", lambda d: d)
async def f(self, users, *, graph_reuse=True):
    global Box
    match users:
        case Box(data=d) if d: return d.num_reads(1, *users, **{})
        case [x, *rest]: pass
    with config.patch({"threshold": 2}) as c, open("x") as (a, b): await c
    for i, (j, k) in enumerate(users): i.x, *j = k[1:2]
    else: del i
    try: V.graph.sizevars.size_hint(1)
    except (AttributeError, ValueError) as e: raise
    finally: users = lambda q=Box: (yield q)
    while (n := users) and not isinstance(n, (Box, ir.IRNode)): n += 1; break
    return {k: v for k, v in users.items()}, f"{users!r:>{n}}", users[1:2, ...], -users
if helper("2.11") and not torch.__version__.split("+")[0] < "2.9": Box.should_realize = f
elif (2, 9) <= tuple(int(p) for p in torch.__version__.split(".")[:2]): setattr(Box, "wrap", classmethod(f))
else: ir.strides = _orig  # patchgate: ignore[PG118]
""",
]
TOKENS = sorted(
    {
        *SEEDS[0].split(),
        *SEEDS[1].split(),
        "(",
        ")",
        ":",
        "\n",
        "    ",
        "0",
        "''",
        "\0",
        "ä",
        "lambda: (",
    }
)
EDIT = st.tuples(
    st.sampled_from(["delete", "repeat", "insert", "swap", "cut"]),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from(TOKENS),
)


def mutated(seed: str, edits: list[tuple[str, float, float, str]]) -> str:
    text = seed
    for kind, first, second, token in edits:
        start, stop = sorted((int(first * len(text)), int(second * len(text))))
        stop = min(stop, start + 60)
        if kind == "delete":
            text = text[:start] + text[stop:]
        elif kind == "repeat":
            text = text[:stop] + text[start:stop] + text[stop:]
        elif kind == "insert":
            text = text[:start] + token + text[start:]
        elif kind == "swap":
            text = text[:start] + text[stop : stop + 40] + text[start:stop] + text[stop + 40 :]
        else:
            text = text[:stop]
    return text


def renamed(seed: str, picks: list[int]) -> str:
    """Still Python: names, attributes and constants exchanged for others of the same file."""
    tree = ast.parse(seed)
    names = sorted({each.id for each in ast.walk(tree) if isinstance(each, ast.Name)})
    attributes = sorted({each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)})
    in_text = {
        id(part)
        for each in ast.walk(tree)
        if isinstance(each, ast.JoinedStr)
        for part in ast.walk(each)
    }
    kinds = (ast.Name, ast.Attribute, ast.Constant)
    nodes = [each for each in ast.walk(tree) if isinstance(each, kinds) and id(each) not in in_text]
    for pick in picks:
        node = nodes[pick % len(nodes)]
        if isinstance(node, ast.Name):
            node.id = names[pick % len(names)]
        elif isinstance(node, ast.Attribute):
            node.attr = attributes[pick % len(attributes)]
        else:
            node.value = [None, "", "2.11.0", 7, "torch._inductor.ir.Box"][pick % 5]
    return ast.unparse(tree)


def assert_ends_in_findings(source: str) -> None:
    findings, _ = lint_source(source, "patch.py", TORCHES)
    assert {each.code for each in findings} <= {code.code for code in CODES}


TEXTS = st.builds(mutated, st.sampled_from(SEEDS), st.lists(EDIT, min_size=1, max_size=6))
PROGRAMS = st.builds(
    renamed, st.sampled_from(SEEDS), st.lists(st.integers(0, 100_000), min_size=1, max_size=12)
)
SLOW_IS_FINE = [HealthCheck.too_slow]


@settings(max_examples=150, deadline=None, suppress_health_check=SLOW_IS_FINE)
@given(st.one_of(TEXTS, PROGRAMS))
def test_any_text_ends_in_findings(source: str) -> None:
    assert_ends_in_findings(source)


@pytest.mark.fuzz
@settings(max_examples=20_000, deadline=2_000, suppress_health_check=SLOW_IS_FINE)
@given(st.one_of(TEXTS, PROGRAMS))
def test_twenty_thousand_texts_end_in_findings(source: str) -> None:
    assert_ends_in_findings(source)
