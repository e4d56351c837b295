"""Find the files of a run that its user may edit, and wait for an edit to end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patchgate.inputs.patch import load_patch
from patchgate.inputs.project import find_project
from patchgate.runs import watch
from patchgate.runs.watch import edited_files, wait_for_edit


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a patch in a package, its manifest, and a table that names a workload and a
    device.
    """
    package = tmp_path / "package"
    package.mkdir()
    for name in ("__init__.py", "mine.py", "helper.py"):
        (package / name).write_text("")
    (package / "mine.toml").write_text("title = 'mine'\n")
    (tmp_path / "work.py").write_text(
        "CHECKS = ('kernels',)\ndef build(device, dtype, size): ...\n"
    )
    (tmp_path / "npu.toml").write_text("kind = 'simulated'\n")
    (tmp_path / "patchgate.toml").write_text("workloads = ['work.py']\ndevices = ['npu.toml']\n")
    return tmp_path


def files_of(project: Path) -> set[str]:
    patch = load_patch(project / "package" / "mine.py")
    return {
        str(Path(file).relative_to(project))
        for file in edited_files(find_project(project), [patch])
    }


def test_a_user_may_edit_the_patch_with_its_package_and_what_the_table_names(project):
    own = {"patchgate.toml", "work.py", "npu.toml"}
    assert files_of(project) == own | {
        f"package/{name}" for name in ("__init__.py", "mine.py", "mine.toml", "helper.py")
    }
    (project / "work.py").unlink()
    assert files_of(project).isdisjoint(own)


def steps(
    monkeypatch: pytest.MonkeyPatch, *each: Callable[[], object]
) -> list[Callable[[], object]]:
    """Take one step between any two looks; no look may follow the last one without an end."""
    left = list(each)
    monkeypatch.setattr(watch.time, "sleep", lambda seconds: left.pop(0)())
    return left


def test_an_edit_is_waited_for_until_nothing_changes_any_more(project, monkeypatch):
    patch = load_patch(project / "package" / "mine.py")
    found, file = find_project(project), Path(patch.path)
    before = edited_files(found, [patch])
    left = steps(
        monkeypatch,
        lambda: None,
        file.unlink,
        lambda: file.write_text("x = 1"),
        lambda: None,
        lambda: None,
    )
    after = wait_for_edit(found, [patch], before)
    assert len(left) == 1
    assert {name for name in after if after[name] != before[name]} == {str(file)}
