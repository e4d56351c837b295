"""Functions handed over by value, and neighbours that are only called."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from toyindex import built, index_of

from patchgate.lint.index.read_module import handed_over


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("@register_lowering(1)\ndef f(): ...", {("register_lowering", "f")}),
        ("@a.register_decomposition\ndef f(): ...", {("register_decomposition", "f")}),
        ("make_fallback(1, f)", {("make_fallback", "f")}),
        ("for x in 'ab': add(x, key=f)", {("add", "f"), ("add", "x")}),
        ("def g(): add_layout_constraint(1, f)", {("add_layout_constraint", "f")}),
        ("TABLE = {1: f, 2: g()}", {("TABLE", "f")}),
        ("TABLE = [f]", {("TABLE", "f")}),
        ("TABLE[1] = f", {("TABLE", "f")}),
        ("@functools.cache\ndef f(): ...", set()),
        ("def g(): print(f)", set()),
        ("f()", set()),
        ("g = f", set()),
    ],
)
def test_what_is_handed_over(text: str, pairs: set[tuple[str, str]]) -> None:
    assert set(handed_over(ast.parse(text))) == pairs


def test_the_index_has_who_holds_a_function(tmp_path: Path) -> None:
    modules = {
        "torch.fx.a": "def f(): ...\ndef g(): ...\nregister(f, unknown)\n",
        "torch.fx.b": "from torch.fx.a import f as h\nTABLE = {1: h}\n",
    }
    release = index_of(tmp_path, {"2.6.0": modules}).release("2.6.0")
    assert release.registries("torch.fx.a.f") == ("torch.fx.a.register", "torch.fx.b.TABLE")
    assert release.registries("torch.fx.a.g") == ()
    assert release.holders("torch.fx.a.f") == ("torch.fx.b.h",)
    assert release.records().modules == built("2.6.0", modules).modules
