"""Files that a child leaves are copied only if they are files, and its folders can always be
removed.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from patchgate.probe.process import child_cleanup
from patchgate.probe.process.child_cleanup import hand_over, kill_children, remove_folder

LIMITS = {"limits": {"seconds": 5, "bytes": 1000}}


@pytest.fixture
def child(tmp_path: Path) -> Path:
    (tmp_path / "child").mkdir()
    return tmp_path / "child"


def test_outputs_are_copied_to_where_the_host_wants_them(child, tmp_path):
    (child / "outputs").write_bytes(b"tensors")
    assert hand_over(str(child), {"outputs": str(tmp_path / "unpatched"), **LIMITS}) is None
    (child / "outputs").write_bytes(b"forged")
    assert (tmp_path / "unpatched").read_bytes() == b"tensors"


def test_a_trace_is_copied_with_its_folders(child, tmp_path):
    (child / "trace" / "deep").mkdir(parents=True)
    (child / "trace" / "deep" / "log").write_text("x")
    assert hand_over(str(child), {"trace": str(tmp_path / "trace"), **LIMITS}) is None
    assert (tmp_path / "trace" / "deep" / "log").read_text() == "x"


def link_to_a_secret(path: Path) -> None:
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("make", [link_to_a_secret, os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_copied(child, tmp_path, make):
    make(child / "outputs")
    assert "`outputs`" in (
        hand_over(str(child), {"outputs": str(tmp_path / "wanted"), **LIMITS}) or ""
    )
    assert not (tmp_path / "wanted").exists()


def test_no_more_than_so_much_is_copied(child, tmp_path, monkeypatch):
    monkeypatch.setattr(child_cleanup, "largest_file", lambda limits: 4)
    (child / "outputs").write_bytes(b"tensors")
    assert "`outputs` is no file of at most" in (
        hand_over(str(child), {"outputs": str(tmp_path / "wanted"), **LIMITS}) or ""
    )


def test_an_answer_without_outputs_has_none(child, tmp_path):
    assert hand_over(str(child), {"outputs": str(tmp_path / "wanted"), **LIMITS}) is None
    assert hand_over(str(child), {"do": "observe", **LIMITS}) is None


def test_a_folder_that_is_too_deep_is_removed(child):
    here = os.open(child, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    assert (remove_folder(str(child)).wait(), child.exists()) == (0, False)


def test_a_folder_that_is_closed_to_its_owner_is_removed(child):
    (child / "closed").mkdir()
    (child / "closed" / "file").write_text("x")
    (child / "closed").chmod(0)
    assert (remove_folder(str(child)).wait(), child.exists()) == (0, False)


def test_all_children_end_but_those_that_are_known():
    first, second = (subprocess.Popen(["sleep", "600"]) for _ in range(2))
    kill_children({int(pid) for pid in children()} - {second.pid})
    assert (first.poll(), str(second.pid) in children()) == (None, False)
    first.kill()
    first.wait()


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


@pytest.mark.parametrize("inner", ["", "/deep"])
def test_no_link_in_a_trace_or_in_its_place_is_followed(child, tmp_path, inner):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "key").write_text("secret")
    if inner:
        (child / "trace").mkdir()
    (child / f"trace{inner}").symlink_to(tmp_path / "home")
    told = hand_over(str(child), {"trace": str(tmp_path / "trace"), **LIMITS})
    assert bool(told) is not bool(inner)
    assert not [path for path in (tmp_path / "trace").rglob("*") if path.is_file()]
