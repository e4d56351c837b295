"""The page of many projects: `patchgate ecosystem`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def commit(folder: Path) -> str:
    project = folder / "projects" / "a+b"
    project.mkdir(parents=True)
    (project / "mine.py").write_text("from torch._dynamo.exc import unimplemented_v2\n")
    (project / "picture.bin").write_text("")
    (project / "requirements.txt").write_text("torch>=2.8,<2.10\n")
    git = ["git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all", "--no-gpg-sign"]):
        subprocess.run([*git, *words], check=True)
    return subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()


def test_what_breaks_next_is_on_the_page(command: Command, folder: Path, commit: str) -> None:
    (folder / "list.toml").write_text(f'[[project]]\nrepository = "a/b"\ncommit = "{commit}"\n')
    assert command("ecosystem", "list.toml", "--folder", "projects")[0] == 0
    page = (folder / "ecosystem.md").read_text()
    row = f"| [a/b](https://github.com/a/b/blob/{commit}) | 1 | 2.9.1 | 0 | 2.10.0 | 1 |  |"
    assert row in page.splitlines()
    assert f"* [mine.py:1](https://github.com/a/b/blob/{commit}/mine.py#L1) PG111" in page
    (project,) = json.loads((folder / "ecosystem.json").read_text())["projects"]
    (finding,) = project["findings"]
    assert (finding["when"], finding["path"]) == ("breaks next", "mine.py")


@pytest.mark.parametrize(
    ("repository", "commit_of", "said"),
    [
        ("a/b", "0" * 40, "no such commit"),
        ("a/c", "0" * 40, "no history of a project"),
    ],
)
def test_what_is_not_there(
    command: Command, folder: Path, commit: str, repository: str, commit_of: str, said: str
) -> None:
    text = f'[[project]]\nrepository = "{repository}"\ncommit = "{commit_of}"\n'
    (folder / "list.toml").write_text(text)
    code, _, errors = command("ecosystem", "list.toml", "--folder", "projects")
    assert (code, said in errors) == (2, True)
