"""Make the items of a search, each as a patch on disk: releases, commits, targets and hunks."""

import subprocess

import pytest

from patchgate.inputs.patch import load_patch
from patchgate.model.errors import UsageError
from patchgate.runs.bisect.searched_items import (
    commits_in,
    diff_of,
    hunks_of,
    patch_at,
    releases_in,
    repository_of,
    write_hunks,
    write_targets,
)

DIFF = """\
--- a/torch/a.py
+++ b/torch/a.py
@@ -1,2 +1,2 @@
 x = 1
-y = 2
+y = 3
@@ -9,2 +9,2 @@
-z = 1
+z = 2
 w = 1
"""


def test_releases_lie_between_both_ends():
    known = ["2.10.0", "2.11.0", "2.9.0", "2.12.1"]
    assert releases_in("2.10.0..2.12.0", known) == ["2.10.0", "2.11.0", "2.12.0"]
    for text in ("2.10.0", "2.10.0..2.10.0", "a..b", ""):
        with pytest.raises(UsageError):
            releases_in(text, known)


@pytest.fixture
def repository(tmp_path):
    def git(*arguments):
        command = [
            "git",
            "-C",
            str(tmp_path),
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b.c",
            *arguments,
        ]
        subprocess.run(command, check=True, capture_output=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "empty")
    for number in range(3):
        (tmp_path / "p.py").write_text(f"x = {number}\n")
        (tmp_path / "p.toml").write_text('title = "p"\n')
        git("add", "-A")
        git("commit", "-qm", f"step {number}")
    return tmp_path


def test_commits_are_listed_oldest_first_and_a_patch_is_read_as_it_was(
    repository, tmp_path_factory
):
    commits = commits_in("HEAD~3..HEAD", repository)
    folder = tmp_path_factory.mktemp("commits")
    paths = [
        patch_at(commit, repository / "p.py", repository_of(repository), folder)
        for commit in commits
    ]
    assert paths[0] is None
    assert [load_patch(path).source for path in paths[1:]] == ["x = 0\n", "x = 1\n", "x = 2\n"]
    assert load_patch(paths[1]).claims.title == "p"
    for text in ("HEAD", "HEAD..HEAD", "nothing..HEAD"):
        with pytest.raises(UsageError):
            commits_in(text, repository)


def test_a_subset_of_targets_is_a_patch_of_its_own(repository):
    patch = load_patch(repository / "p.py")
    some, none = (
        load_patch(write_targets(patch, names, repository / "w"))
        for names in (["torch.a", "torch.b"], [])
    )
    assert "{'torch.a', 'torch.b'}" in some.source
    assert "{*()}" in none.source
    assert some.claims == patch.claims


def test_a_subset_keeps_the_workload_of_its_symptom(folder):
    (folder / "workloads").mkdir()
    (folder / "workloads" / "own.py").write_text(
        'DTYPE = "float32"\ndef build(device, dtype, scale): ...\n'
    )
    (folder / "patch.py").write_text("")
    symptom = 'workload = "own"\ndevice = "cpu"\nfact = "mine"\npredicate = "> 4"\n'
    (folder / "patch.toml").write_text(f"[symptom]\n{symptom}")
    some = load_patch(write_targets(load_patch(folder), ["torch.a"], folder / "w"))
    assert some.claims.symptom == load_patch(folder).claims.symptom


def test_a_subset_of_hunks_is_a_diff_of_its_own(tmp_path):
    diff = tmp_path / "p.diff"
    diff.write_text(DIFF)
    patch = load_patch(diff)
    assert hunks_of(diff_of(diff)) == ["torch/a.py:1", "torch/a.py:9"]
    made = diff_of(write_hunks(patch, diff, ["torch/a.py:9"], tmp_path / "w"))
    text = made.read_text()
    assert (hunks_of(made), "y = 3" in text, "z = 2" in text) == (["torch/a.py:9"], False, True)
    with pytest.raises(UsageError):
        diff_of(tmp_path / "p.py")
