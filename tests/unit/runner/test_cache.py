"""Entries of the cache by content key: what is kept, and where the file of an entry comes back."""

import errno
import os

import pytest

from patchgate.runner.cache import Cache, prune


def test_outputs_are_put_where_they_are_wanted(tmp_path):
    cache, written, wanted = Cache(tmp_path / "cache"), tmp_path / "written", tmp_path / "wanted"
    assert cache.load("abc", wanted) is None
    written.write_bytes(b"tensors")
    cache.save("abc", {"environment": {}}, written)
    assert cache.load("abc", wanted) == {"environment": {}}
    assert wanted.read_bytes() == b"tensors"
    cache.save("abd", {"calls": {"torch": 1}}, None)
    assert cache.load("abd", None) == {"calls": {"torch": 1}}


def test_what_was_used_longest_ago_goes_first(tmp_path):
    """A file of an entry is as old as its last use; a folder goes with all that is in it."""
    cache, files = Cache(tmp_path), []
    for number, key in enumerate(("aaa", "bbb", "ccc")):
        cache.save(key, {"facts": "x" * 5000})
        files.append(tmp_path / key[:2] / f"{key}.json")
        os.utime(files[-1], (number, number))
    assert cache.load("aaa")
    prune(tmp_path, "*/*", 11000)
    assert [file.exists() for file in files] == [True, False, True]
    prune(tmp_path, "*", 0)
    prune(tmp_path / "none", "*", 0)
    assert not [*tmp_path.iterdir()]


def kept(tmp_path):
    cache, made = Cache(tmp_path / "cache"), tmp_path / "made"
    made.write_bytes(b"tensors")
    cache.save("abc", {"environment": {}}, made)
    (entry,) = (tmp_path / "cache").glob("*/*.json")
    (file,) = (tmp_path / "cache").glob("*/*.file")
    return cache, entry, file


def test_what_a_patch_does_to_its_copy_does_not_reach_what_is_kept(tmp_path):
    cache, _, _ = kept(tmp_path)
    given = tmp_path / "given"
    cache.load("abc", given)
    with open(given, "r+b") as file:
        file.write(b"forged!")
    assert cache.load("abc", tmp_path / "again") == {"environment": {}}
    assert (tmp_path / "again").read_bytes() == b"tensors"


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry, file: entry.write_bytes(entry.read_bytes()[:-9]),
        lambda entry, file: entry.write_bytes(
            entry.read_bytes().replace(b"environment", b"environmemt")
        ),
        lambda entry, file: entry.write_bytes(b"\xff\xfe"),
        lambda entry, file: entry.write_bytes(b"[" * 100_000),
        lambda entry, file: entry.write_bytes(b"7"),
        lambda entry, file: entry.write_bytes(b'{"environment": {}}'),
        lambda entry, file: file.write_bytes(b"tensorz"),
        lambda entry, file: file.write_bytes(b""),
        lambda entry, file: file.unlink(),
        lambda entry, file: (entry.unlink(), os.mkfifo(entry)),
        lambda entry, file: (file.unlink(), os.mkfifo(file)),
        lambda entry, file: (file.unlink(), file.mkdir()),
    ],
)
def test_what_is_damaged_is_measured_again_and_heals(tmp_path, damage):
    cache, entry, file = kept(tmp_path)
    damage(entry, file)
    assert cache.load("abc", tmp_path / "given") is None
    assert not (tmp_path / "given").exists()
    for path in (entry, file):
        if path.exists() and not path.is_file():
            path.rmdir() if path.is_dir() else path.unlink()
    cache.save("abc", {"environment": {}}, tmp_path / "made")
    assert cache.load("abc", tmp_path / "given") == {"environment": {}}


def test_an_entry_of_another_key_is_not_this_ones(tmp_path):
    cache, entry, _ = kept(tmp_path)
    cache.save("abd", {"environment": {"torch": "2"}}, None)
    entry.with_name("abd.json").write_bytes(entry.read_bytes())
    assert cache.load("abd", None) is None


def test_a_temporary_folder_on_another_file_system_is_no_hindrance(tmp_path, monkeypatch):
    cache, _, _ = kept(tmp_path)

    def refuse(*paths, **options):
        raise OSError(errno.EXDEV, "cross-device link")

    monkeypatch.setattr("os.link", refuse)
    assert cache.load("abc", tmp_path / "given") == {"environment": {}}


@pytest.mark.parametrize("link", ["unpatched", "unpatched/ab"])
def test_what_lies_behind_a_link_is_not_pruned(tmp_path, link):
    theirs = tmp_path / "theirs"
    for folder in (theirs / "ab", tmp_path / "kept" / "unpatched" / "cd"):
        folder.mkdir(parents=True)
        (folder / "one.json").write_text("{}")
    place = tmp_path / "kept" / link
    if place.is_dir():
        place.rename(tmp_path / "before")
    place.symlink_to(theirs if link == "unpatched" else theirs / "ab")
    prune(tmp_path / "kept" / "unpatched", "*/*", 0)
    assert (theirs / "ab" / "one.json").is_file()
    assert not (tmp_path / "kept" / "unpatched" / "cd" / "one.json").exists()
