"""What a child starts with: copies of what was compiled without the patch, and never through a link that one left."""

import fcntl
from pathlib import Path

from patchgate.probe.serve.child import copy_missing_libraries


def test_a_library_is_copied_where_there_is_none(tmp_path: Path) -> None:
    source, target = tmp_path / "unpatched", tmp_path / "patched"
    for place, text in (
        (source / "ab" / "k.so", "new"),
        (source / "cd" / "k.so", "new"),
        (target / "cd" / "k.so", "own"),
    ):
        place.parent.mkdir(parents=True)
        place.write_text(text)
    (source / "ab" / "k.cpp").write_text("not a library")
    copy_missing_libraries(source, target)
    assert {str(path.relative_to(target)): path.read_text() for path in target.rglob("*.*")} == {
        "ab/k.so": "new",
        "cd/k.so": "own",
    }
    (target / "ab" / "k.so").write_text("changed")
    assert (source / "ab" / "k.so").read_text() == "new"


def test_a_library_that_is_being_linked_is_not_copied(tmp_path: Path) -> None:
    source, target = tmp_path / "unpatched", tmp_path / "patched"
    for name in ("ab/half.main.so", "cd/whole.main.so", "locks/half.lock", "locks/whole.lock"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).touch()
    with open(source / "locks" / "half.lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        copy_missing_libraries(source, target)
        assert [path.name for path in target.rglob("*.so")] == ["whole.main.so"]
    copy_missing_libraries(source, target)
    assert len([*target.rglob("*.so")]) == 2


def test_a_folder_that_is_not_there_has_no_libraries(tmp_path: Path) -> None:
    copy_missing_libraries(tmp_path / "none", tmp_path)
    assert not list(tmp_path.iterdir())
