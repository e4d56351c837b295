"""Environments that are there, and how others are made: from an index, from one of nightly builds,
over a release.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from patchgate.runner import torch_environments
from patchgate.runner.torch_environments import (
    NIGHTLY_INDEX,
    Environments,
    NotInstallable,
    cached_environment,
    commit_version,
    installed_release,
    nightlies,
)

BUILDS = [
    "2.13.0",
    "2.14.0.dev20260102+cu130",
    "2.14.0.dev20260101+cpu",
    "2.14.0",
    "2.15.0.dev20260401",
    "2.14.0rc1",
]


@pytest.fixture
def calls(monkeypatch):
    made = []
    monkeypatch.setattr(torch_environments.shutil, "which", lambda name, path: "uv")
    monkeypatch.setattr(
        torch_environments, "_call", lambda *command: made.append(" ".join(command))
    )
    return made


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index in a folder, which pip reads as it reads one of the web."""
    links = "".join(
        f'<a href="torch-{build.replace("+", "%2B")}-py3-none-any.whl">x</a>\n' for build in BUILDS
    )
    (tmp_path / "simple" / "torch").mkdir(parents=True)
    (tmp_path / "simple" / "torch" / "index.html").write_text(
        f"<!DOCTYPE html><html><body>{links}</body></html>"
    )
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(NIGHTLY_INDEX, f"file://{tmp_path}/simple")


def test_a_row_that_is_there_is_not_made(calls):
    assert (Environments({"2.11.0": "here"}).python("2.11.0"), calls) == ("here", [])


def test_a_release_is_installed_once(calls):
    made = Environments({})
    assert made.python("2.12.0") == made.python("2.12.0")
    assert [call.rpartition("/")[2].partition(" ")[2] for call in calls] == [
        "",
        "torch==2.12.0 numpy packaging setuptools",
    ]
    made.close()


def test_a_nightly_build_comes_from_its_own_index_and_what_it_stands_on_does_not(
    calls, index, monkeypatch
):
    made = Environments({})
    made.python("2.14.0.dev20260101")
    assert [("--index-url" in call, "torch==" in call) for call in calls[1:]] == [
        (False, False),
        (True, True),
    ]
    monkeypatch.delenv(NIGHTLY_INDEX)
    with pytest.raises(NotInstallable, match=NIGHTLY_INDEX):
        made.python("2.14.0.dev20260102")
    made.close()


def test_the_nightly_builds_between_two_releases_are_read_from_the_index(index, monkeypatch):
    assert nightlies("2.13.0", "2.14.0") == ["2.14.0.dev20260101", "2.14.0.dev20260102"]
    assert nightlies("2.11.0", "2.12.0") == []
    monkeypatch.setenv(NIGHTLY_INDEX, "file:///nowhere")
    assert nightlies("2.13.0", "2.14.0") == []
    monkeypatch.delenv(NIGHTLY_INDEX)
    assert nightlies("2.13.0", "2.14.0") == []


def test_a_commit_is_named_with_the_release_that_it_is_laid_over():
    assert commit_version("2.13.0", "0123456789abcdef") == "2.13.0+git0123456789ab"
    assert (installed_release("2.13.0+git0123456789ab"), installed_release("2.13.0")) == (
        "2.13.0",
        "2.13.0",
    )


@pytest.mark.parametrize(
    ("checkout", "told"), [(False, "--checkout"), (True, "bad revision|not a valid|Not a valid")]
)
def test_a_commit_that_cannot_be_laid_is_reported(checkout, told, tmp_path, monkeypatch):
    if checkout:
        subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.setattr(
        torch_environments, "read_environment", lambda python: {"home": str(tmp_path)}
    )
    made = Environments({"2.13.0": "python"}, tmp_path if checkout else None)
    with pytest.raises(NotInstallable, match=told):
        made.python("2.13.0+git0123456789ab")
    made.close()


def test_a_row_that_is_there_is_used_and_a_release_that_is_not_is_reported_each_time(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    environments = Environments({"2.11.0": "python"})
    assert environments.python("2.11.0") == "python"
    for _ in range(2):
        with pytest.raises(NotInstallable, match="no `uv`"):
            environments.python("0.0.1")
    assert (environments.made, list(environments.failed)) == ({}, ["0.0.1"])
    environments.close()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The user's cache, and what was installed there."""
    made = []

    def install(torch, home, more):
        home.mkdir(parents=True, exist_ok=True)
        made.append(
            [
                sorted(path.name for path in Path(each).rglob("*")) if "/" in each else each
                for each in more
            ]
        )

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(torch_environments, "_install", install)
    return made


def test_an_environment_is_made_once_for_what_is_in_it(cache):
    first = cached_environment("2.11.0")
    assert cached_environment("2.11.0") == first
    more = cached_environment("2.11.0", ("b", "a"))
    assert cached_environment("2.11.0", ("a", "b")) == more
    assert len({first, more, cached_environment("2.12.1")}) == 3
    assert cache == [[], ["b", "a"], []]


@pytest.mark.parametrize("git", [True, False])
def test_a_package_is_installed_from_a_copy_and_again_when_it_has_changed(cache, tmp_path, git):
    package = tmp_path / "package"
    for name in (
        "setup.py",
        "engine/__init__.py",
        ".venv/junk",
        ".patchgate/gate/run.json",
        "build.log",
    ):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("1")
    (package / ".gitignore").write_text("*.log\n")
    if git:
        subprocess.run(["git", "init", "-q", package], check=True)
    copied = ["__init__.py", *["build.log"] * (not git), "engine", "setup.py"]
    python = cached_environment("2.11.0", (), package)
    assert cached_environment("2.11.0", (), package) == python
    assert cache == [[copied]]
    (package / "engine" / "__init__.py").write_text("2")
    assert cached_environment("2.11.0", (), package) == python
    assert cache == [[copied], [copied]]


def test_what_was_interrupted_is_made_anew(cache, tmp_path, monkeypatch):
    def fail(torch, home, more):
        home.mkdir(parents=True)
        (home / "half").touch()
        raise NotInstallable("no wheel")

    with monkeypatch.context() as context:
        context.setattr(torch_environments, "_install", fail)
        with pytest.raises(NotInstallable):
            cached_environment("2.11.0")
    home = Path(cached_environment("2.11.0")).parents[1]
    assert ((home / "half").exists(), (home / "complete").is_file()) == (False, True)


def test_what_installs_does_not_stand_in_the_users_folder_where_a_stranger_may_have_left_settings(
    tmp_path,
):
    torch_environments._call(
        sys.executable, "-c", f"import os; open({str(tmp_path / 'at')!r}, 'w').write(os.getcwd())"
    )
    assert (tmp_path / "at").read_text() == "/"
