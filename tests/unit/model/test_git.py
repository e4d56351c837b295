"""Git is asked in one place, and runs nothing of a repository's."""

import os
import re
import subprocess

import pytest

from patchgate.model.errors import UsageError
from patchgate.model.git import GitFailed, files_in_git, last_commit, run_git, write_files
from patchgate.model.paths import PACKAGE, ROOT
from patchgate.runs.bisect.searched_items import commits_in, patch_at, repository_of

COMMIT = ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x")


def git(folder, *arguments):
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def fetches_by_a_command(config, url, ran):
    """The settings of a partial copy whose missing objects are fetched by a program."""
    config.write_text(
        config.read_text().replace("repositoryformatversion = 0", "repositoryformatversion = 1")
        + "[extensions]\n\tpartialClone = origin\n[protocol]\n\tallow = always\n"
        + '[protocol "file"]\n\tallow = always\n'
        + f'[remote "origin"]\n\turl = {url}\n\tpromisor = true\n'
        + f'\tuploadpack = "touch {ran}; false"\n'
    )


@pytest.fixture
def partial_copy(tmp_path):
    """Its first tree is missing, and the program that would fetch it makes the file `ran`."""
    folder = tmp_path / "stranger"
    git(tmp_path, "init", "-q", "stranger")
    for text in ("import torch\n", "import torch\n#\n"):
        (folder / "p.py").write_text(text)
        git(folder, "add", "-A")
        git(folder, *COMMIT)
    tree = git(folder, "rev-parse", "HEAD~1^{tree}")
    (folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    fetches_by_a_command(folder / ".git" / "config", folder, tmp_path / "ran")
    return folder


def test_git_itself_runs_the_program(partial_copy, tmp_path):
    with pytest.raises(subprocess.CalledProcessError):
        git(partial_copy, "log", "-1", "--format=%h", "--", "p.py")
    assert (tmp_path / "ran").exists()


def test_nothing_is_fetched_for_an_object_that_is_missing(partial_copy, tmp_path):
    assert last_commit(partial_copy / "p.py") == ""
    assert files_in_git(partial_copy) == ["p.py"]
    with pytest.raises(UsageError, match="git refuses"):
        patch_at("HEAD~1", partial_copy / "p.py", partial_copy, tmp_path / "commits")
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
def test_a_repository_of_another_user_is_not_read(partial_copy, tmp_path):
    for place in (partial_copy, partial_copy / ".git"):
        os.chown(place, 12345, 12345)
    with pytest.raises(GitFailed, match="dubious ownership"):
        run_git(partial_copy, "rev-parse", "HEAD")
    assert last_commit(partial_copy / "p.py") == ""
    assert not (tmp_path / "ran").exists()


def test_a_bare_repository_that_is_tracked_is_not_searched(tmp_path):
    """A pull request can track the files of one, its settings included."""
    folder = tmp_path / "clone" / "patches" / "mine"
    git(tmp_path, "init", "-q", "clone")
    git(tmp_path, "init", "-q", "--bare", folder)
    fetches_by_a_command(folder / "config", folder, tmp_path / "ran")
    (folder / "refs" / "heads" / "main").write_text(f"{'1' * 40}\n")
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "patch.py").write_text("import torch\n")
    with pytest.raises(UsageError, match="git refuses"):
        repository = repository_of(folder)
        commits_in("HEAD~1..HEAD", repository)
    assert not (tmp_path / "ran").exists()
    assert files_in_git(folder) is None


def test_files_of_a_commit_are_written_as_they_are_stored(tmp_path):
    git(tmp_path, "init", "-q", "r")
    folder = tmp_path / "r"
    (folder / "a").mkdir()
    (folder / "a" / "p.py").write_text("x = 1\n")
    (folder / "a" / "q.txt").write_text("no\n")
    (folder / "link.py").symlink_to("/etc/passwd")
    (folder / ".gitattributes").write_text("*.py filter=mine\n")
    git(folder, "add", "-A")
    git(folder, *COMMIT)
    git(folder, "config", "filter.mine.smudge", f"touch {tmp_path}/ran; cat")
    write_files(folder, "HEAD", tmp_path / "w", lambda name: name.endswith(".py"))
    written = [path for path in (tmp_path / "w").rglob("*") if path.is_file()]
    assert written == [tmp_path / "w" / "a" / "p.py"]
    assert written[0].read_text() == "x = 1\n"
    assert not (tmp_path / "ran").exists()
    with pytest.raises(GitFailed):
        write_files(folder, "--output=x", tmp_path / "w", lambda name: True)


def test_a_name_in_a_tree_does_not_lead_out_of_the_folder(tmp_path):
    git(tmp_path, "init", "-q", "r")
    folder = tmp_path / "r"
    (folder / "f").write_text("x\n")
    blob = git(folder, "hash-object", "-w", "f")
    entries = b"".join(
        b"100644 %s\0%s" % (name.encode(), bytes.fromhex(blob))
        for name in (f"{tmp_path}/absolute", "../above", "inside")
    )
    (folder / "tree").write_bytes(entries)
    tree = git(folder, "hash-object", "-w", "-t", "tree", "--literally", "tree")
    write_files(folder, tree, tmp_path / "w" / "x", lambda name: True)
    written = {path.name for path in tmp_path.rglob("*")} & {"absolute", "above", "inside"}
    assert written == {"inside"}


def test_no_other_place_starts_git():
    files = [*PACKAGE.rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    starts = [
        path.name for path in files if re.search(r"""[\[(]\s*["']git["']\s*,""", path.read_text())
    ]
    assert starts == ["git.py"]
