"""Atomic writing: the old text or the new, never half of it."""

import os

import pytest

from patchgate.model.files import write_atomically


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


def test_half_a_surrogate_pair_is_written_as_its_escape(tmp_path):
    path = tmp_path / "b.txt"
    write_atomically(path, "\ud800 ä\n")
    assert (path.read_text(encoding="utf-8"), list(tmp_path.iterdir())) == ("\\ud800 ä\n", [path])
