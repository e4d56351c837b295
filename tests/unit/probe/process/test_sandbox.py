"""A child may read only some of the files around a patch."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from patchgate.probe.process import sandbox
from patchgate.probe.process.sandbox import _read_by, is_trusted


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sandbox, "SHARED", ())
    return tmp_path / "home"


def read_for(path: Path, text: str = "x = 1\n", **request: object) -> list[str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return list(_read_by({"patch": str(path), **request}))


def test_a_patch_reads_its_folder_or_its_package(home):
    assert read_for(home / "patches" / "mine" / "patch.py") == [str(home / "patches" / "mine")]
    (home / "src" / "pack").mkdir(parents=True)
    (home / "src" / "pack" / "__init__.py").touch()
    assert read_for(home / "src" / "pack" / "patch.py") == [str(home / "src")]


@pytest.mark.parametrize("place", ["home", ""])
def test_a_patch_beside_everything_else_reads_itself_alone(home, place):
    path = home.parent / place / "patch.py"
    assert read_for(path) == [str(path)]


def test_what_the_request_names_is_read(home):
    named = {
        "import_path": ["/project"],
        "unpatched": "/run/a",
        "patched": "/run/b",
        "libraries": "/cpp",
    }
    assert set(read_for(home / "p" / "patch.py", **named)) == {
        str(home / "p"),
        "/project",
        "/run/a",
        "/run/b",
        "/cpp",
    }


def test_a_patch_that_says_it_is_a_part_of_another_reads_that_file_and_nothing_beside_it(home):
    (home / "secrets").mkdir()
    (home / "secrets" / "setup.py").touch()
    part = "run_subset('{}', {{'a'}}, {{}})\n"
    found = read_for(home / "p" / "patch.py", part.format(home / "secrets" / "setup.py"))
    assert found == [str(home / "p"), str(home / "secrets" / "setup.py")]
    assert read_for(home / "p" / "patch.py", part.format(home / "secrets" / "none.py")) == [
        str(home / "p")
    ]
    (home / "secrets" / "pack").mkdir()
    for name in ("__init__.py", "whole.py"):
        (home / "secrets" / "pack" / name).touch()
    found = read_for(home / "p" / "patch.py", part.format(home / "secrets" / "pack" / "whole.py"))
    assert found == [str(home / "p"), str(home / "secrets" / "pack")]


def test_a_manifest_that_names_the_whole_file_gets_that_file_or_its_package_alone(home):
    (home / "keys" / "pack").mkdir(parents=True)
    for name in ("id_rsa", "setup.py", "pack/__init__.py", "pack/whole.py"):
        (home / "keys" / name).touch()
    (home / "keys" / "link.py").symlink_to("id_rsa")
    for name, place in (("setup.py", "setup.py"), ("pack/whole.py", "pack")):
        found = read_for(home / "p" / "patch.py", part_of=str(home / "keys" / name))
        assert found == [str(home / "p"), str(home / "keys" / place)]
    for name in ("id_rsa", "link.py", "none.py"):
        assert read_for(home / "p" / "patch.py", part_of=str(home / "keys" / name)) == [
            str(home / "p")
        ]


@pytest.mark.parametrize(
    ("request_", "trusted"),
    [
        ({}, True),
        ({"patch": None}, True),
        ({"patch": "patch.py"}, False),
        ({"patch": None, "foreign": True}, False),
    ],
)
def test_only_what_is_all_ours_makes_headers_for_everybody(request_, trusted):
    assert is_trusted(request_) is trusted


def test_headers_are_kept_beside_what_is_compiled():
    free = sandbox.Sandbox(headers="/shared")
    assert sandbox.headers_of({}, free) == "/shared"
    assert (
        sandbox.headers_of({"env": {"TORCHINDUCTOR_CACHE_DIR": "/cpp/unpatched"}}, free)
        == "/cpp/headers"
    )
    assert sandbox.headers_of({"libraries": "/cpp/patched"}, free) == "/cpp/headers"


def test_what_the_server_keeps_of_other_children_is_not_read(home, monkeypatch):
    (home / "server" / "lib").mkdir(parents=True)
    monkeypatch.chdir(home / "server")
    monkeypatch.setattr(
        "sys.path", [str(home / "server"), "", str(home / "server" / "lib"), str(home / "none")]
    )
    monkeypatch.setenv("PATH", f"{home}:relative:{home}/tools/bin")
    found = set(sandbox._system())
    assert str(home / "server" / "lib") in found
    assert f"{home}/tools/bin" in found
    assert not found & {str(home), str(home / "server"), "", "relative", f"{home}/lib"}


def test_of_a_home_into_which_python_was_installed_only_python_is_read(home, monkeypatch):
    """Also where a module, or a place of modules, lies in the home itself."""
    for name in ("bin", "lib", "keys"):
        (home / name).mkdir()
    (home / "one.py").touch()
    monkeypatch.setattr("sys.prefix", str(home))
    monkeypatch.setattr("sys.path", [str(home), str(home / "lib")])
    monkeypatch.setitem(sys.modules, "one", SimpleNamespace(__file__=str(home / "one.py")))
    found = set(sandbox._system())
    assert {str(home / "bin"), str(home / "lib"), str(home / "one.py")} <= found
    assert not {path.rstrip("/") for path in found} & {str(home), str(home / "keys")}
    monkeypatch.setattr("sys.prefix", str(home / "keys"))
    assert f"{home}/keys/" in set(sandbox._system())


def test_of_what_is_installed_by_hand_only_the_interpreter_and_the_compiler_are_read(
    home, monkeypatch, tmp_path
):
    opt = tmp_path / "opt"
    for name in ("gcc/bin", "gcc/libexec", "python/lib", "secrets/lib", "bin", "lib"):
        (opt / name).mkdir(parents=True)
    (opt / "gcc" / "bin" / "g++-14").touch(mode=0o755)
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr" / "g++").symlink_to(opt / "gcc" / "bin" / "g++-14")
    monkeypatch.setattr(sandbox, "_INSTALLED", str(opt))
    monkeypatch.setenv("PATH", str(tmp_path / "usr"))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("sys.prefix", str(opt / "python"))
    found = {path.rstrip("/") for path in sandbox._system()}
    assert {f"{opt}/gcc/bin", f"{opt}/gcc/libexec", f"{opt}/python"} <= found
    assert not found & {"/opt", str(opt), f"{opt}/gcc", f"{opt}/secrets", f"{opt}/secrets/lib"}
    monkeypatch.setattr("sys.prefix", str(opt))  # Python lies in it directly
    found = {path.rstrip("/") for path in sandbox._system()}
    assert {f"{opt}/bin", f"{opt}/lib"} <= found
    assert str(opt) not in found


@pytest.mark.parametrize("server", [0, 1 << 40])
def test_memory_is_limited_beyond_what_the_server_has(monkeypatch, server):
    """A process that is no fork of it has still to load torch."""
    limited = {}
    monkeypatch.setattr(
        sandbox.resource, "setrlimit", lambda which, pair: limited.update({which: pair})
    )
    sandbox.limit_resources({"seconds": 1.0, "bytes": 5}, server)
    before = sandbox.private_bytes()
    assert limited[sandbox.resource.RLIMIT_DATA][0] == pytest.approx(
        max(server, before) + 5, abs=1 << 24
    )
