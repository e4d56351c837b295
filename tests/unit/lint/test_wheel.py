"""Which bytes of a wheel are asked for, and what is told of it; the server is a file in memory."""

from __future__ import annotations

import io
import zipfile
from types import SimpleNamespace

import pytest
from packaging.version import Version

from patchgate.lint.index.wheel import Client, Fetched, _counting, _ranges, _read, triton_of
from patchgate.model.errors import UsageError

FILES = {
    "torch/fx/a.py": "a = 1\n" * 10,
    "torch/lib/large.so": "".join(f"{number:x}" for number in range(1_000_000)),
    "torch/fx/b.py": "b = 1\n",
    "torch/fx/c.py": "c = 1\n",
    "torch-2.8.0.dist-info/METADATA": "Version: 2.8.0\nRequires-Dist: sympy\nRequires-Dist: triton==3.4.0; x\n\nText\n",
}


class Remote(io.BytesIO):
    """A wheel that notes the large reads."""

    asked: list[tuple[int, int]]

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > 100:
            self.asked.append((self.tell(), size))
        return super().read(size)


def wheel() -> Remote:
    file = Remote()
    file.asked = []
    with zipfile.ZipFile(file, "w") as written:
        for path, text in FILES.items():
            written.writestr(path, text)
    return file


def test_near_members_are_read_together_and_large_ones_not_at_all() -> None:
    with zipfile.ZipFile(wheel()) as opened:
        wanted = [each for each in opened.infolist() if not each.filename.endswith(".so")]
        first, second = _ranges(wanted)
        large = opened.getinfo("torch/lib/large.so")
    assert first[0] == 0 and first[1] < large.header_offset + 1000
    assert second[0] > large.header_offset + large.compress_size
    assert list(_ranges([])) == []


def test_the_wanted_members_and_what_the_wheel_requires() -> None:
    remote = wheel()
    fetched = _read(remote, lambda path: path.endswith(".py"), Fetched(), ask=_counting(remote))
    assert fetched.files == [(path, text) for path, text in FILES.items() if path.endswith(".py")]
    assert fetched.version == "2.8.0" and triton_of(fetched) == "==3.4.0"


@pytest.mark.parametrize(
    ("line", "wish"),
    [
        ("Requires-Dist: triton==3.2.0; platform_system == 'Linux'", "==3.2.0"),
        ("Requires-Dist: triton (==3.2.0) ; x", "==3.2.0"),
        ('Requires-Dist: triton~=3.8.0; python_version < "3.15"', "~=3.8.0"),
        ("Requires-Dist: tritonclient==1", ""),
        ("Requires-Dist: sympy>=1", ""),
    ],
)
def test_the_triton_a_torch_asks_for(line: str, wish: str) -> None:
    assert triton_of(Fetched(requires=(line,))) == wish


class Server:
    """Stands for pip's session: gives the whole wheel, or nothing."""

    def __init__(self, broken: bool) -> None:
        self.broken = broken

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None: ...

    def get(self, url: str, stream: bool) -> Server:
        if self.broken:
            raise OSError("no route")
        return self

    def raise_for_status(self) -> None: ...

    def iter_content(self, size: int) -> list[bytes]:
        return [wheel().getvalue()]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """A client whose server answers no ranges."""
    pytest.importorskip("pip._internal.network.lazy_wheel")

    def client(broken: bool) -> Client:
        made = Client()

        def no_ranges(*_: object) -> None:
            raise made._lazy.HTTPRangeRequestUnsupported

        monkeypatch.setattr(made._lazy, "LazyZipOverHTTP", no_ranges)
        monkeypatch.setattr(made._command, "_build_session", lambda options: Server(broken))
        monkeypatch.setattr(made._command, "_build_package_finder", lambda **_: None)
        monkeypatch.setattr(made, "url", lambda *_: "wheel")
        return made

    return client


def test_a_server_without_ranges_costs_the_whole_wheel(client) -> None:  # type: ignore[no-untyped-def]
    fetched = client(broken=False).fetch("torch", "==2.8.0", lambda path: path.endswith("b.py"))
    assert fetched.whole and fetched.bytes_read == len(wheel().getvalue())
    assert fetched.files == [("torch/fx/b.py", "b = 1\n")]


def test_no_server_at_all_is_a_usage_error(client) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match="no route"):
        client(broken=True).fetch("torch", "==2.8.0", lambda path: True)


def test_local_builds_and_other_versions_are_passed_over() -> None:
    pytest.importorskip("pip._internal.network.lazy_wheel")

    def candidate(version: str, name: str) -> SimpleNamespace:
        link = SimpleNamespace(is_wheel=name.endswith(".whl"), filename=name, url_without_fragment=name)
        return SimpleNamespace(version=Version(version), link=link)

    candidates = [
        candidate("2.13.0+cpu", "local.whl"),
        candidate("2.13.0", "sources.tar.gz"),
        candidate("2.13.0", "wanted.whl"),
        candidate("2.12.1", "other.whl"),
    ]
    finder = SimpleNamespace(find_all_candidates=lambda project: candidates)
    assert Client().url(finder, "torch", "==2.13.0") == "wanted.whl"
    with pytest.raises(UsageError, match="no wheel of torch"):
        Client().url(finder, "torch", "==2.14.0")
