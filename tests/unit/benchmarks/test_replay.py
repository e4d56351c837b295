"""A repair of a project, judged before and after: `python -m benchmarks.replay`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.replay.__main__ import REPAIRS, summary
from benchmarks.replay.judge import Judged, Repair, judged, read_repairs
from patchgate.model.errors import UsageError

BROKEN = "from torch._dynamo.exc import unimplemented_v2\nimport torch._inductor\n"
MENDED = "from torch._dynamo.exc import unimplemented\nimport torch._inductor\n"


def committed(folder: Path, *texts: str) -> list[str]:
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    folder.mkdir(parents=True)
    subprocess.run([*git, "init", "-q"], check=True)
    for text in texts:
        (folder / "mine.py").write_text(text)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", "next", "--no-gpg-sign"], check=True)
    log = subprocess.run([*git, "log", "--reverse", "--format=%H"], capture_output=True, check=True)
    return log.stdout.decode().split()


@pytest.fixture
def repair(tmp_path: Path) -> Callable[..., Repair]:
    def of(*texts: str, name: str = "torch._dynamo.exc.unimplemented_v2") -> Repair:
        parent, after = committed(tmp_path / "a" / "b", *texts)
        return Repair(
            repository="a/b",
            parent=parent,
            repair=after,
            file="mine.py",
            name=name,
            release="2.10.0",
            kind="name",
        )

    return of


@pytest.mark.parametrize(
    ("texts", "before", "after"),
    [
        ((BROKEN, MENDED), True, False),
        ((BROKEN, f"{BROKEN}x = 1\n"), True, True),
        ((MENDED, f"{MENDED}x = 1\n"), False, False),
    ],
)
def test_red_before_and_quiet_after(
    repair: Callable[..., Repair],
    tmp_path: Path,
    texts: tuple[str, str],
    before: bool,
    after: bool,
) -> None:
    found = judged(repair(*texts), tmp_path)
    assert (found.before, found.after, found.unasked) == (before, after, before)


def test_another_name_does_not_count(repair: Callable[..., Repair], tmp_path: Path) -> None:
    assert not judged(repair(BROKEN, MENDED, name="torch._dynamo.exc.other"), tmp_path).before


def test_a_project_that_is_not_there(repair: Callable[..., Repair], tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with pytest.raises(UsageError, match="no history of a project"):
        judged(repair(BROKEN, MENDED), elsewhere)


def test_the_shares(repair: Callable[..., Repair]) -> None:
    of = repair(BROKEN, MENDED)
    found = [
        Judged(repair=of, before=before, after=False, unasked=False) for before in (True, False)
    ]
    assert list(summary(found))[-2].startswith("all: red before 1 of 2 (9% to 91%), quiet after 1 ")


def test_the_lists_are_large_enough_and_have_no_project_in_common() -> None:
    first, second = (
        read_repairs(REPAIRS.with_name(name)) for name in ("repairs.toml", "second.toml")
    )
    assert len({each.repair for each in first}) >= 55
    assert len(second) >= 40
    projects = [{each.repository for each in repairs} for repairs in (first, second)]
    assert min(map(len, projects)) >= 15
    assert not projects[0] & projects[1]
