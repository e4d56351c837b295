"""PG141: an ignore silences its own line and code, and one that silences nothing is told."""

from __future__ import annotations

from toytorch import codes, found


def test_an_ignore_silences_its_line_and_its_code_only() -> None:
    source = "import torch._inductor.old  # patchgate: ignore[{}]\nimport torch._inductor.new\n"
    assert codes(source.format("PG110")) == ["PG110"]
    assert codes(source.format("PG110, PG111")) == ["PG141", "PG110"]
    assert found(source.format("PG111"))[-2:] == [
        "1: PG141 red ignore silences nothing: PG111 []",
        "2: PG110 red module `torch._inductor.new` missing [2.10 and before]",
    ]


def test_an_ignore_in_a_string_is_none_and_one_without_codes_is_refused() -> None:
    assert codes('x = "# patchgate: ignore[PG110]"\n') == []
    assert codes("x = 1  # patchgate: ignore\n") == ["PG141"]
