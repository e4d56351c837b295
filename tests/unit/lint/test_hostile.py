"""Files and folders that were made to stop lint, or to make it read what is not theirs."""

from __future__ import annotations

from pathlib import Path

import pytest
from toyindex import index_of
from toytorch import TORCHES, codes

from patchgate.lint.run import lint
from patchgate.model.errors import UsageError

OLD = "import torch._inductor.old\n"


def test_a_number_that_python_cannot_write_is_read() -> None:
    source = f"import torch\nif torch.__version__ > '2.9' and 0x{'f' * 5000}:\n    {OLD}"
    assert codes(source) == ["PG121", "PG110"]


@pytest.mark.parametrize("call", ["setattr(*pair)", "owner.__setattr__(pair)", "setattr(owner)"])
def test_a_setattr_without_a_name_to_read_is_no_crash(call: str) -> None:
    assert codes(f"def set_one(owner, pair):\n    return {call}\n{OLD}") == ["PG110"]


def test_a_name_that_no_file_can_have_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(f"from .{'a' * 300} import b\nimport {'c' * 300}\nb()\n{OLD}")
    assert [each.code for each in lint([tmp_path], TORCHES).findings] == ["PG110"]


def test_a_link_to_itself_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "p.py").write_text(OLD)
    assert lint([tmp_path], TORCHES).files == (str(tmp_path / "p.py"),)
    with pytest.raises(UsageError, match="no such patch"):
        lint([tmp_path / "loop.py"], TORCHES)


def test_links_are_followed_within_the_repository_only(tmp_path: Path) -> None:
    inside, outside = tmp_path / "repository", tmp_path / "secret.py"
    (inside / ".git").mkdir(parents=True)
    outside.write_text(OLD + "NAME = 'secret'\n")
    (inside / "own.py").write_text(OLD)
    (inside / "within.py").symlink_to("own.py")
    (inside / "without.py").symlink_to(outside)
    assert {Path(each).name for each in lint([inside], TORCHES).files} == {"own.py", "within.py"}


def test_a_value_is_not_read_through_a_link_out_of_the_repository(tmp_path: Path) -> None:
    inside, outside = tmp_path / "repository", tmp_path / "secret.py"
    (inside / ".git").mkdir(parents=True)
    outside.write_text("VERSION_2_10 = False\nimport torch\n")
    (inside / "helper.py").symlink_to(outside)
    (inside / "p.py").write_text(f"from helper import VERSION_2_10\nif VERSION_2_10:\n    {OLD}")
    assert [each.severity.value for each in lint([inside], TORCHES).findings] == ["note"]


@pytest.mark.parametrize("damage", ["missing", "cut"])
@pytest.mark.parametrize(
    "name",
    [
        "api/torch._inductor.ir.jsonl",
        "imports/torch._inductor.jsonl",
        "modules.jsonl",
        "digests.json",
    ],
)
def test_a_damaged_index_is_told(tmp_path: Path, name: str, damage: str) -> None:
    modules = {
        "torch._inductor.ir": "from torch._inductor.box import Box\ndef f(): ...\n",
        "torch._inductor.box": "",
    }
    index = index_of(tmp_path, {"2.10.0": modules})
    assert index.release("2.10.0").resolve("torch._inductor.ir.f")
    file = tmp_path / name
    if damage == "missing":
        file.unlink()
    else:
        file.write_text(file.read_text()[:-3])
    with pytest.raises(UsageError, match="damaged index"):
        type(index)(tmp_path).release("2.10.0").resolve("torch._inductor.ir.f")


def test_an_index_without_its_digests_is_damaged(tmp_path: Path) -> None:
    index = index_of(tmp_path, {"2.10.0": {"torch._inductor.ir": ""}})
    (tmp_path / "digests.json").unlink()
    with pytest.raises(UsageError, match=r"damaged index"):
        type(index)(tmp_path)
