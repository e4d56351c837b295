"""Entries of the cache by content key: what is kept, and where the file of an entry comes back."""

import pytest

from patchgate.model.records import Case, Cause, Failure, Observation
from patchgate.runner.cache import Cache

CASE = Case(torch="2.11.0", device="h200", workload="pointwise", patch="mine")


def test_outputs_are_put_where_they_are_wanted(tmp_path):
    cache, written, wanted = Cache(tmp_path / "cache"), tmp_path / "written", tmp_path / "wanted"
    assert cache.load("abc", wanted) is None
    written.write_bytes(b"tensors")
    cache.save("abc", {"environment": {}}, written)
    assert cache.load("abc", wanted) == {"environment": {}}
    assert wanted.read_bytes() == b"tensors"
    cache.save("abd", {"calls": {"torch": 1}}, None)
    assert cache.load("abd", None) == {"calls": {"torch": 1}}


def test_the_cache_gives_the_generated_code_back(tmp_path):
    cache, here, there = Cache(tmp_path / "cache"), tmp_path / "here.py", tmp_path / "there.py"
    here.write_text("kernel")
    cache.save_observation("abc", Observation(case=CASE, facts={"loads": 1}, artifacts={"code": str(here)}), here)
    found = cache.load_observation("abc", there)
    assert found.artifacts["code"].endswith("there.py")
    assert there.read_text() == "kernel"


@pytest.mark.parametrize(("cause", "kept"), [(None, True), (Cause.RAISED, True), (Cause.MACHINE, False)])
def test_the_cache_keeps_all_but_failures_of_the_machine(tmp_path, cause, kept):
    failure = Failure(cause=cause, stage="compile", signature="it failed") if cause else None
    observation = Observation(case=CASE, failure=failure, facts={} if cause else {"loads": (1, 2)})
    cache = Cache(tmp_path)
    cache.save_observation("abc", observation, tmp_path / "code.py")
    assert cache.load_observation("abc", tmp_path / "code.py") == (observation if kept else None)
    assert cache.load_observation("abd", tmp_path / "code.py") is None


def test_an_entry_without_code_has_no_code(tmp_path):
    cache, here = Cache(tmp_path / "cache"), tmp_path / "here.py"
    cache.save_observation("abc", Observation(case=CASE, artifacts={"trace": "there"}), here)
    assert (cache.load_observation("abc", here).artifacts, here.exists()) == ({}, False)


def test_a_file_on_another_file_system_is_copied(tmp_path, monkeypatch):
    cache, here = Cache(tmp_path / "cache"), tmp_path / "here"
    here.write_text("tensors")
    cache.save("abc", {}, here)

    def refuse(*paths):
        raise OSError("cross-device link")

    monkeypatch.setattr("os.link", refuse)
    assert cache.load("abc", here) == {}
    assert here.read_text() == "tensors"
