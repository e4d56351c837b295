"""Atomic writing: the old text or the new, never half of it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from patchgate.model.errors import UsageError
from patchgate.model.files import (
    read_bytes,
    read_text,
    refuse_links,
    refuse_tracked,
    write_atomically,
)
from patchgate.model.git import is_in_repository


def test_a_file_is_made_with_its_folders(tmp_path):
    write_atomically(tmp_path / "a" / "b.txt", "new\n")
    assert (tmp_path / "a" / "b.txt").read_text() == "new\n"


def test_others_may_read_what_was_written(tmp_path):
    write_atomically(tmp_path / "b.txt", "new\n")
    assert (tmp_path / "b.txt").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("step", ["fsync", "fchmod", "replace"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_the_old_text_stays_when_writing_fails(tmp_path, monkeypatch, step, error):
    path = tmp_path / "b.txt"
    path.write_text("old\n")

    def fail(*arguments):
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        write_atomically(path, "new\n")
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("lasting", [True, False])
def test_only_what_is_to_last_waits_for_the_disk(tmp_path, monkeypatch, lasting):
    waited = []
    monkeypatch.setattr(os, "fsync", waited.append)
    write_atomically(tmp_path / "b.txt", "new\n", lasting=lasting)
    assert (tmp_path / "b.txt").read_text() == "new\n"
    assert len(waited) == lasting


def test_half_a_surrogate_pair_is_written_as_its_escape(tmp_path):
    path = tmp_path / "b.txt"
    write_atomically(path, "\ud800 ä\n")
    assert (path.read_text(encoding="utf-8"), list(tmp_path.iterdir())) == ("\\ud800 ä\n", [path])


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """One that brings results along, and that says what git is to run."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".patchgate" / "gate").mkdir(parents=True)
    (tmp_path / ".patchgate" / "gate" / "judged.jsonl").write_text("forged\n")
    subprocess.run(
        ["git", "-C", tmp_path, "config", "core.fsmonitor", f"touch {tmp_path}/ran; false"],
        check=True,
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_results_that_the_repository_brings_along_are_refused(repository):
    refuse_tracked(Path(".patchgate"))  # only on the disk: an earlier run's
    subprocess.run(["git", "-c", "core.fsmonitor=false", "add", "-f", ".patchgate"], check=True)
    for path in (Path(".patchgate"), Path(".patchgate/gate").resolve()):
        with pytest.raises(UsageError, match="results that are part of the repository"):
            refuse_tracked(path)
    assert not (repository / "ran").exists()


def test_a_link_that_stands_for_results_is_refused_too(repository):
    shutil.rmtree(repository / ".patchgate")
    (repository / ".patchgate").symlink_to("/nowhere")
    subprocess.run(["git", "-c", "core.fsmonitor=false", "add", "-f", ".patchgate"], check=True)
    with pytest.raises(UsageError, match="results that are part of the repository"):
        refuse_tracked(Path(".patchgate"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda git: git.rename(git.with_name("moved")) and git.write_text("gitdir: /nowhere\n"),
        lambda git: (git / "index").write_bytes(b"damaged"),
        lambda git: (git / "HEAD").unlink(),
    ],
)
def test_results_are_refused_where_git_fails(repository, damage):
    damage(repository / ".git")
    with pytest.raises(UsageError, match="git does not say"):
        refuse_tracked(Path(".patchgate"))


def test_a_variable_of_the_caller_does_not_hide_what_is_tracked(repository, monkeypatch):
    subprocess.run(["git", "-c", "core.fsmonitor=false", "add", "-f", ".patchgate"], check=True)
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere")
    with pytest.raises(UsageError, match="results that are part of the repository"):
        refuse_tracked(Path(".patchgate"))


def test_a_pipe_among_results_is_refused_and_not_waited_for(tmp_path):
    (tmp_path / "gate").mkdir()
    (tmp_path / "gate" / "costs.jsonl").write_text("")
    refuse_links(tmp_path)
    os.mkfifo(tmp_path / "gate" / "judged.jsonl")
    with pytest.raises(UsageError, match="no file among results"):
        refuse_links(tmp_path)


def test_without_a_repository_nothing_is_tracked(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / ".patchgate").mkdir()
    refuse_tracked(tmp_path / ".patchgate")
    assert not is_in_repository(tmp_path)


def test_a_text_is_not_read_through_a_link_out_of_the_repository(repository, tmp_path_factory):
    outside = tmp_path_factory.mktemp("home") / "key"
    outside.write_text("secret")
    (repository / "patch.toml").symlink_to(outside)
    (repository / "inside.toml").write_text("x = 1\n")
    (repository / "link.toml").symlink_to("inside.toml")
    with pytest.raises(UsageError, match="a link out of the repository"):
        read_text(repository / "patch.toml")
    assert read_text(repository / "link.toml") == "x = 1\n"


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", tmp_path):
        for read in (read_text, read_bytes):
            with pytest.raises(UsageError, match="cannot be read"):
                read(place)
