"""Names of torch that another file of the project sets: torch need not have them, or take what it
takes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from toytorch import TORCHES

from patchgate.lint.run import lint

CALLS = "from torch._inductor.ir import Box\nBox.create(1, 2, 3)\nBox.should_realise()\n"


def _red(folder: Path, other: str, name: str = "b.py") -> list[str]:
    (folder / "a.py").write_text(CALLS)
    (folder / name).write_text(other)
    return sorted(
        each.code for each in lint([folder], TORCHES).findings if each.path.endswith("a.py")
    )


@pytest.mark.parametrize(
    "other",
    [
        "from torch._inductor import ir\nir.Box.create = ir.Box.should_realise = lambda *a: 1\n",
        "from torch._inductor.ir import Box\nsetattr(Box, 'create', 1)\nsetattr(Box, "
        "'should_realise', 1)\n",
    ],
)
def test_what_another_file_sets_is_not_judged(tmp_path: Path, other: str) -> None:
    assert _red(tmp_path, other) == []


@pytest.mark.parametrize(
    "other",
    [
        "x = 1\n",
        "from torch._inductor.ir import Pointwise\nPointwise.create = Pointwise.should_realise = "
        "1\n",
        "from torch._inductor.ir import Box\nassert Box.create == Box.should_realise\n",
        "class A:\n    def f(self): self.create = self.should_realise = 1\n",
    ],
)
def test_what_no_other_file_sets_is(tmp_path: Path, other: str) -> None:
    assert _red(tmp_path, other) == ["PG111", "PG115"]


def test_what_a_test_sets_for_a_while_is_judged_in_other_files(tmp_path: Path) -> None:
    other = "from torch._inductor import ir\nir.Box.create = ir.Box.should_realise = lambda *a: 1\n"
    assert _red(tmp_path, other, "test_b.py") == ["PG111", "PG115"]


def test_the_assignment_itself_is_judged(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "from torch._inductor.ir import Box\nBox.should_realise\nBox.should_realise = 1\n"
    )
    assert [each.code for each in lint([tmp_path], TORCHES).findings] == ["PG111"]
