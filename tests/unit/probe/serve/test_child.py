"""A child starts with copies of what was compiled without the patch, and never through a link that
one left.
"""

import fcntl
from pathlib import Path

from patchgate.probe.serve.child import copy_missing_libraries, link_headers


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


def test_a_patch_reads_the_headers_that_are_made_and_makes_its_own_beside_links_to_them(
    tmp_path: Path,
) -> None:
    shared, own = tmp_path / "shared", tmp_path / "child" / "headers"
    for name in (
        "half.h",
        "half.h.gch",
        "whole.h",
        "whole.h.gch",
        "locks/half.lock",
        "locks/whole.lock",
    ):
        (shared / name).parent.mkdir(parents=True, exist_ok=True)
        (shared / name).write_text("shared")
    with open(shared / "locks" / "half.lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert link_headers(shared, own) == str(own)
    assert sorted(path.name for path in own.iterdir()) == ["whole.h", "whole.h.gch"]
    assert (own / "whole.h.gch").read_text() == "shared"
    (own / "half.h").write_text("its own")
    assert (shared / "half.h").read_text() == "shared"


def test_where_no_headers_are_made_a_patch_has_a_folder_for_its_own(tmp_path: Path) -> None:
    assert (
        list(Path(link_headers(tmp_path / "none", tmp_path / "child" / "headers")).iterdir()) == []
    )


def test_a_folder_for_headers_is_there_where_none_are_made_yet(tmp_path: Path) -> None:
    """A plain run's script finds it through a link, which must lead somewhere."""
    assert Path(link_headers(tmp_path / "none", tmp_path / "child" / "headers")).is_dir()
