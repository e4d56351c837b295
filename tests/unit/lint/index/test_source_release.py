"""A release from sources alone answers as the index of the same sources does."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from toyindex import index_of

from patchgate.cli.index import index_group
from patchgate.lint.index.build import SourceRelease

FILES = {
    "torch._inductor.ir": """
import functools
from torch._inductor.tools import helper, Far
@functools.cache
def plain(a): return 1
class Base:
    def shared(self): return 2
    def both(self): return 3
class Box(Base):
    text = (
        1
)
    @staticmethod
    def both(a):
        return 4
    class Inner:
        def deep(self): return 5
class Wide(Base, Far): ...
if helper:
    def twice(): return 6
else:
    def twice(): return 7
""",
    "torch._inductor.tools": "def helper(): return 8\nclass Far:\n    def far(self): return 9\n",
}
NAMES = [
    "plain",
    "Base.shared",
    "Box.shared",
    "Box.both",
    "Box.Inner.deep",
    "Wide.shared",
    "Wide.far",
    "twice",
]
NAMES += ["helper", "Box", "Box.text", "absent", "Box.absent", "plain.absent"]


def tree(folder: Path, version: str, files: dict[str, str]) -> Path:
    texts = {f"{name.replace('.', '/')}.py": text for name, text in files.items()}
    for path, text in {**texts, "torch/version.py": f"__version__ = '{version}'\n"}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_sources_alone_answer_as_their_index_does(tmp_path: Path, name: str) -> None:
    dotted = f"torch._inductor.ir.{name}"
    indexed = index_of(tmp_path / "index", {"2.6.0": FILES}).release("2.6.0").resolve(dotted)
    bare = SourceRelease("2.6.0", tree(tmp_path / "site", "2.6.0", FILES)).resolve(dotted)
    assert (
        (bare.kind, bare.origin) == (indexed.kind, indexed.origin)
        if bare and indexed
        else bare is indexed
    )
    if bare and indexed and bare.kind == "function":
        assert bare.symbol == indexed.symbol


def test_drift_from_folders_in_any_order(tmp_path: Path) -> None:
    later = {
        **FILES,
        "torch._inductor.ir": FILES["torch._inductor.ir"].replace("return 4", "return 40"),
    }
    folders = [tree(tmp_path / "new", "2.10.0+cpu", later), tree(tmp_path / "old", "2.9.1", FILES)]
    options = [word for folder in folders for word in ("--sources", str(folder))]
    result = CliRunner().invoke(index_group, ["drift", "torch._inductor.ir.Box.both", *options])
    assert result.output == "torch._inductor.ir.Box.both\n  2.9.1 -> 2.10.0: body\n"
    nothing = CliRunner().invoke(index_group, ["drift", "torch.a", "--sources", str(tmp_path)])
    assert "no torch there" in str(nothing.exception)
