"""Annotations that say the same are written the same."""

from __future__ import annotations

import ast

import pytest

from patchgate.lint.index.read_module import spelled


@pytest.mark.parametrize(
    ("annotation", "one"),
    [
        ("Optional[List['X']]", "list[X] | None"),
        ("typing.Union[int, None, 'a.B']", "int | a.B | None"),
        ("None | Optional[str]", "str | None"),
        ("Dict[str, Tuple[int, ...]]", "dict[str, tuple[int, ...]]"),
        ("Literal['a', 'b']", "Literal['a', 'b']"),
        ("collections.abc.Sequence[X]", "Sequence[X]"),
        ("'no annotation at all'", "'no annotation at all'"),
    ],
)
def test_one_spelling_for_annotations(annotation: str, one: str) -> None:
    assert spelled(ast.parse(annotation, mode="eval").body) == one
