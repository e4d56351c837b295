"""Names of torch that another file of the project sets: torch need not have them, or take what it
takes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from toyindex import toy_releases
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


MOVED = "import torch\ndef f(): torch.fx.passes.brought(), torch.fx.passes.gone()\n"


@pytest.mark.parametrize(
    ("other", "red"),
    [
        ("import torch.fx\ntorch.fx.passes = mine\nfx.passes = mine\n", 0),
        ("import torch.fx\ntorch.fx.other = mine\n", 2),
    ],
)
def test_names_of_a_module_that_another_file_replaces(tmp_path: Path, other: str, red: int) -> None:
    passes = {"torch.fx.passes": "", "torch.fx": ""}
    (tmp_path / "a.py").write_text(MOVED)
    (tmp_path / "b.py").write_text(other)
    found = lint([tmp_path], toy_releases({"2.11.0": passes})).findings
    assert len([each for each in found if each.path.endswith("a.py")]) == red


def test_a_package_hands_on_what_another_file_sets(tmp_path: Path) -> None:
    fx = {"torch.fx": "from torch.fx.inner import shard\n", "torch.fx.inner": "def shard(x): ...\n"}
    (tmp_path / "a.py").write_text("from torch.fx import shard\nshard(1, hook=2)\n")
    for other, red in (("fx.shard = mine\n", 0), ("fx.other = mine\n", 1)):
        (tmp_path / "b.py").write_text(f"from torch import fx\n{other}")
        found = lint([tmp_path], toy_releases({"2.11.0": fx})).findings
        assert [each.code for each in found if each.path.endswith("a.py")] == ["PG115"] * red


@pytest.mark.parametrize(
    ("name", "other", "severity"),
    [
        ("reinit", "import torch_npu\n", "note"),
        ("_reinit", "import torch_npu\n", "red"),
        ("reinit", "import torch_other\n", "red"),
    ],
)
def test_a_vendor_adds_public_names_for_all_files_of_a_project(
    tmp_path: Path, name: str, other: str, severity: str
) -> None:
    (tmp_path / "a.py").write_text(f"import torch._inductor.ir\ntorch._inductor.ir.{name}()\n")
    (tmp_path / "b.py").write_text(other)
    found = lint([tmp_path], TORCHES).findings
    assert [each.severity.value for each in found] == [severity]
