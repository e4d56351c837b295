"""Atomic writing: the old text or the new, never half of it."""

import os

import pytest

from patchgate.model.files import line_of, write_atomically


def test_a_file_is_made_with_its_folders(tmp_path):
    write_atomically(tmp_path / "a" / "b.txt", "new\n")
    assert (tmp_path / "a" / "b.txt").read_text() == "new\n"


def test_others_may_read_what_was_written(tmp_path):
    write_atomically(tmp_path / "b.txt", "new\n")
    assert (tmp_path / "b.txt").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
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


@pytest.mark.parametrize(("start", "number"), [("a", 1), ("b", 4), ("[c]", 5), ("z", 1), ("bb", 2)])
def test_the_line_of_a_key_is_the_first_that_begins_with_it(start, number):
    assert line_of("a = 1\nbb = 1\n# b\n  b = 2\n[c]\nb = 3\n", start) == number


@pytest.mark.parametrize(
    ("start", "table", "number"),
    [("title", "symptom", 4), ("title", "", 1), ("fact", "symptom", 5), ("absent", "symptom", 3), ("x", "none", 1)],
)
def test_a_key_of_a_table_is_looked_for_inside_it(start, table, number):
    assert line_of("title = 1\nfact = 2\n[symptom]\ntitle = 3\nfact = 4\n", start, table) == number


@pytest.mark.parametrize("text", ["title = 1\nsymptom = {title = 2}\n", "title = 1\n[[symptom]]\n x = 2\n"])
def test_a_key_that_begins_no_line_of_its_table_is_where_the_table_is(text):
    assert line_of(text, "title", "symptom") == 2
