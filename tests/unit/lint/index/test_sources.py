"""Sources come from folders, cache or wheels; lint without an option asks for none of them."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier

import pytest
from toyindex import index_of
from toyserver import serving, wheel_of

from patchgate.lint.index import release as index
from patchgate.lint.index.read_module import call_line, function_text
from patchgate.lint.index.sources import Sources
from patchgate.lint.index.wheel import open_wheel
from patchgate.model.errors import UsageError
from patchgate.model.paths import user_cache

IR = """
import abc
def helper(a): ...
if abc:
    def helper(b): ...
class Box:
    @property
    def size(self): return 1
    @size.setter
    def size(self, value): ...
    class Inner:
        def deep(self):
            helper(1)
            return helper(1,
                          b=2)
    if abc:
        def late(self): ...
helper(*abc)
"""
FILES = {
    "torch/_inductor/ir.py": IR,
    "torch/_inductor/__init__.py": "def compile(x):\n    return x\n",
}


class Wheels:
    """Stands for the package index: notes what is opened and read."""

    def __init__(self, broken: bool = False) -> None:
        self.asked: list[str] = []
        self.broken = broken

    def __call__(self, project: str, requirement: str) -> Wheels:
        self.asked.append(f"{project}{requirement}")
        if self.broken:
            raise UsageError("no wheel", where="the package index", got="offline")
        return self

    def text(self, path: str) -> str | None:
        self.asked.append(path)
        return FILES.get(path)


def installed(folder: Path, version: str) -> Path:
    for path, text in {**FILES, "torch/version.py": f"__version__ = '{version}+cpu'\n"}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_an_installed_torch_is_known_by_its_release(tmp_path: Path) -> None:
    sources = Sources([installed(tmp_path, "2.11.0")])
    assert sources.text("2.11.0", "torch/_inductor/ir.py") == IR
    assert sources.text("2.11.0", "torch/_inductor/absent.py") == ""
    assert sources.text("2.12.0", "torch/_inductor/ir.py") is None


@pytest.mark.parametrize(
    "path", ["torch/../../secret.py", "/etc/passwd", "test/inductor/test_ir.py", ""]
)
def test_only_files_of_torch_and_triton_are_read(tmp_path: Path, path: str) -> None:
    wheels = Wheels()
    assert Sources([installed(tmp_path, "2.11.0")], open_wheel=wheels).text("2.11.0", path) is None
    assert wheels.asked == []


def test_a_wheel_is_opened_once_and_what_was_read_is_kept(tmp_path: Path) -> None:
    wheels = Wheels()
    for _ in range(2):
        sources = Sources(open_wheel=wheels, triton={"2.11.0": "3.6.0"}, cache=tmp_path)
        assert sources.text("2.11.0", "torch/_inductor/ir.py") == IR
        assert sources.text("2.11.0", "torch/absent.py") == ""
        assert sources.text("2.11.0", "triton/runtime/jit.py") == ""
        assert sources.text("2.12.0", "triton/runtime/jit.py") is None
    assert wheels.asked == [
        "torch==2.11.0",
        "torch/_inductor/ir.py",
        "torch/absent.py",
        "triton==3.6.0",
        "triton/runtime/jit.py",
    ]


def test_releases_are_read_side_by_side_and_a_wheel_of_several_once() -> None:
    """Each reading waits until another has begun: one after the other, they would wait in vain."""
    begun, opened = Barrier(2, timeout=30), Wheels()

    class Waiting:
        def text(self, path: str) -> str:
            begun.wait()
            return path

    sources = Sources(open_wheel=lambda project, requirement: Waiting())
    assert sources.texts(["2.12.0", "2.13.0"], "torch/version.py") == dict.fromkeys(
        ["2.12.0", "2.13.0"], "torch/version.py"
    )
    shared = Sources(open_wheel=opened, triton={"2.12.0": "3.7.0", "2.13.0": "3.7.0"})
    shared.texts(["2.12.0", "2.13.0"], "triton/__init__.py")
    assert opened.asked == ["triton==3.7.0", "triton/__init__.py", "triton/__init__.py"]


def test_without_a_network_it_is_tried_once_and_told(tmp_path: Path) -> None:
    wheels = Wheels(broken=True)
    sources = Sources(open_wheel=wheels, cache=tmp_path)
    assert [sources.text(version, "torch/_inductor/ir.py") for version in ("2.11.0", "2.12.0")] == [
        None,
        None,
    ]
    assert (sources.trouble, wheels.asked, list(tmp_path.iterdir())) == (
        "no wheel: offline",
        ["torch==2.11.0"],
        [],
    )


def test_a_cache_that_cannot_be_written_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    sources = Sources(open_wheel=Wheels(), cache=tmp_path / "file")
    assert (sources.text("2.11.0", "torch/_inductor/ir.py"), sources.trouble) == (IR, "")


def test_the_cache_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/where")
    assert user_cache("sources") == Path("/some/where/patchgate/sources")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert user_cache("sources") == Path.home() / ".cache" / "patchgate" / "sources"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("helper", "def helper(a): ..."),
        ("Box.size", "    def size(self): return 1"),
        ("Box.late", "        def late(self): ..."),
        (
            "Box.Inner.deep",
            "        def deep(self):\n            helper(1)\n            return helper(1,\n"
            + 26 * " "
            + "b=2)",
        ),
        ("Box", None),
        ("Box.absent", None),
        ("absent.deep", None),
    ],
)
def test_the_text_of_a_function(name: str, text: str | None) -> None:
    assert function_text(IR, name) == text


def test_what_is_not_python_has_no_functions() -> None:
    assert function_text("def f(:", "f") is None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shipped index, for the length of a test, is one of two toy releases."""
    modules = {"torch._inductor": FILES["torch/_inductor/__init__.py"], "torch._inductor.ir": IR}
    index_of(tmp_path / "surface", {"2.6.0": modules, "2.7.0": modules})
    monkeypatch.setattr(index, "FOLDER", tmp_path / "surface")
    return tmp_path


def test_a_release_has_the_sources_it_is_loaded_with(folder: Path) -> None:
    sources = Sources([installed(folder / "site", "2.7.0")])
    with_them, without = index.load("2.7.0", sources), index.load("2.7.0")
    assert with_them.source("torch._inductor.ir.Box.size") == "    def size(self): return 1"
    assert with_them.source("torch._inductor.compile") == "def compile(x):\n    return x"
    assert with_them.source("torch._inductor.absent.f") is None
    assert index.load("2.6.0", sources).source("torch._inductor.ir.Box.size") is None
    assert without.source("torch._inductor.ir.Box.size") is None


def test_a_call_is_placed_by_line_where_there_are_sources(folder: Path) -> None:
    sources = Sources([installed(folder / "site", "2.7.0")])
    for release, places in (
        (
            index.load("2.7.0", sources),
            ["torch/_inductor/ir.py:18", "torch/_inductor/ir.py:13", "torch/_inductor/ir.py:14"],
        ),
        (index.load("2.7.0"), ["torch._inductor.ir", *["torch._inductor.ir.Box.Inner.deep"] * 2]),
    ):
        sites = release.calls("helper")
        assert sorted(release.place(site, "helper") for site in sites) == sorted(places)
    assert call_line(IR, "absent", index.load("2.7.0").calls("helper")[0]) is None


def test_sources_come_from_a_wheel_by_ranges(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(
        {"torch-2.7.0-py3-none-any.whl": wheel_of("torch", "2.7.0", FILES)}, monkeypatch
    ) as asked:
        release = index.load("2.7.0", Sources(open_wheel=open_wheel, cache=folder / "cache"))
        assert release.source("torch._inductor.ir.Box.size") == "    def size(self): return 1"
        assert release.source("torch._inductor.ir.Box.absent") is None
        sources = Sources(open_wheel=open_wheel)
        assert index.load("2.6.0", sources).source("torch._inductor.ir.Box.size") is None
    assert asked and all(each.startswith("bytes=") for each in asked)
    assert sources.trouble == "no wheel of torch on the package index: torch==2.6.0"
    # Once read, the server is not needed.
    again = Sources(open_wheel=Wheels(broken=True), cache=folder / "cache")
    assert (
        index.load("2.7.0", again).source("torch._inductor.ir.Box.size")
        == "    def size(self): return 1"
    )


def test_a_server_without_ranges_is_not_asked_for_the_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"torch-2.7.0-py3-none-any.whl": wheel_of("torch", "2.7.0", FILES)}
    with serving(files, monkeypatch, ranges=False) as asked:
        sources = Sources(open_wheel=open_wheel)
        assert index.load("2.7.0", sources).source("torch._inductor.ir.Box.size") is None
    assert asked == []
    assert (
        sources.trouble
        == "the wheel of torch could not be read: the package index does not support range requests"
    )
