"""Test which bytes of a wheel are read, from whose index, and what is said of it; the server is one
of this machine.
"""

from __future__ import annotations

import os
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from toyserver import serving, wheel_of

from patchgate.lint.index.wheel import Fetched, PipSettings, fetch, open_wheel, spans_of
from patchgate.model.errors import UsageError

FILES = {
    "torch/fx/a.py": "a = 1\n" * 10,
    "torch/lib/large.so": "".join(f"{number:x}" for number in range(1_000_000)),
    "torch/fx/b.py": "b = 1\n",
    "torch/fx/c.py": "c = 1\n",
}
REQUIRES = "Requires-Dist: sympy\nRequires-Dist: triton==3.4.0; x\n\nText\n"
WHEEL = wheel_of("torch", "2.8.0", FILES, REQUIRES)
SOURCES = [(path, text) for path, text in FILES.items() if path.endswith(".py")]


def is_source(path: str) -> bool:
    return path.endswith(".py")


def test_near_members_are_read_together_and_large_ones_not_at_all() -> None:
    with zipfile.ZipFile(BytesIO(WHEEL)) as wheel:
        first, second = spans_of(
            each for each in wheel.infolist() if not each.filename.endswith(".so")
        )
        large = wheel.getinfo("torch/lib/large.so")
    assert first[0] == 0 and first[1] < large.header_offset + 1000
    assert second[0] > large.header_offset + large.compress_size
    assert spans_of([]) == []


def test_the_wanted_members_and_what_the_wheel_requires(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({"torch-2.8.0-py3-none-any.whl": WHEEL}, monkeypatch) as requests:
        fetched = fetch("torch", "==2.8.0", is_source)
    assert fetched.files == SOURCES and not fetched.whole
    assert fetched.version == "2.8.0" and fetched.triton_requirement == "==3.4.0"
    # The directory (the last 3 MB), what stands before large.so, and what stands behind it.
    assert len(requests) == 3 and all(each.startswith("bytes=") for each in requests)


def test_a_large_wheel_is_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = wheel_of("torch", "2.8.0", {**FILES, "torch/lib/larger.so": "0" * 10_000_000}, REQUIRES)
    with serving({"torch-2.8.0-py3-none-any.whl": wheel}, monkeypatch):
        fetched = fetch("torch", "==2.8.0", is_source)
    assert fetched.files == SOURCES and 3 << 20 < fetched.bytes_read < 4 << 20


@pytest.mark.parametrize(
    ("line", "requirement"),
    [
        ("Requires-Dist: triton==3.2.0; platform_system == 'Linux'", "==3.2.0"),
        ("Requires-Dist: triton (==3.2.0) ; x", "==3.2.0"),
        ('Requires-Dist: triton~=3.8.0; python_version < "3.15"', "~=3.8.0"),
        ("Requires-Dist: tritonclient==1", ""),
        ("Requires-Dist: sympy>=1", ""),
    ],
)
def test_the_triton_that_a_torch_requires(line: str, requirement: str) -> None:
    assert Fetched(requires=(line,)).triton_requirement == requirement


def test_a_server_without_ranges_costs_the_whole_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({"torch-2.8.0-py3-none-any.whl": WHEEL}, monkeypatch, ranges=False) as requests:
        fetched = fetch("torch", "==2.8.0", lambda path: path.endswith("b.py"))
    assert fetched.whole and fetched.bytes_read == len(WHEEL) and requests == ["whole"]
    assert fetched.files == [("torch/fx/b.py", "b = 1\n")]


def test_a_wheel_in_a_folder_of_the_user_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch-2.8.0-py3-none-any.whl").write_bytes(WHEEL)
    with serving({}, monkeypatch):
        monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path} {tmp_path / 'absent'}")
        assert fetch("torch", "==2.8.0", is_source).files == SOURCES


def test_no_server_at_all_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({}, monkeypatch):
        address = os.environ["PIP_INDEX_URL"]
    monkeypatch.setenv("PIP_INDEX_URL", address)
    with pytest.raises(UsageError, match="ConnectError") as raised:
        fetch("torch", "==2.8.0", is_source)
    assert "pip download --no-deps torch==2.8.0" in str(raised.value)


def test_what_is_no_wheel_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        serving({"torch-2.8.0-py3-none-any.whl": b"<html>Sign in</html>"}, monkeypatch),
        pytest.raises(UsageError, match="BadZipFile"),
    ):
        open_wheel("torch", "==2.8.0").text("torch/fx/a.py")


@pytest.mark.parametrize(
    ("requirement", "text"),
    [("==2.13.0", "wanted"), ("==2.14.0.dev1", "nightly"), ("==2.14.0", None), (">2", "nightly")],
)
def test_local_builds_archives_and_other_versions_are_passed_over(
    requirement: str, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {
        "torch-2.13.0+cpu-py3-none-any.whl": "local",
        "torch-2.13.0.tar.gz": "archive",
        "torch-2.13.0-py3-none-any.whl": "wanted",
        "torch-2.12.1-py3-none-any.whl": "other",
        "torch-2.14.0.dev1-py3-none-any.whl": "nightly",
        "torch-2.15.0-cp27-cp27m-win32.whl": "elsewhere",
    }
    files = {name: wheel_of("torch", "0", {"torch/fx/a.py": text}) for name, text in texts.items()}
    with serving(files, monkeypatch):
        if text is None:
            with pytest.raises(UsageError, match="no wheel of torch"):
                open_wheel("torch", requirement)
        else:
            assert open_wheel("torch", requirement).text("torch/fx/a.py") == text


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with a configuration file of pip's, and nothing in the environment."""
    for name in [each for each in os.environ if each.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "pip.conf").write_text(
        "[global]\nindex-url = https://first.example/simple\nextra-index-url =\n    "
        "https://second.example/simple\n"
        f"    https://third.example/simple\ncert = {tmp_path}/own.pem\n[install]\nindex-url = "
        "https://other.example\n"
    )
    return tmp_path


def test_the_configuration_file_of_pip_is_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"https://{name}.example/simple" for name in ("first", "second", "third")]
    settings = PipSettings.load()
    assert settings.index_urls == tuple(names) and settings.cert == f"{home}/own.pem"
    monkeypatch.setenv("PIP_INDEX_URL", "https://fourth.example/simple")
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "60")
    settings = PipSettings.load()
    assert (
        settings.index_urls == ("https://fourth.example/simple", *names[1:])
        and settings.timeout == 60
    )
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert PipSettings.load().index_urls == ()


def test_without_any_configuration_it_is_the_public_index(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    settings = PipSettings.load()
    (default,) = settings.index_urls
    assert default.startswith("https://")
    assert settings == PipSettings(
        index_urls=(default,), find_links=(), trusted_hosts=(), cert=None, proxy=None, timeout=15
    )
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://second.example/simple")
    assert PipSettings.load().index_urls == (default, "https://second.example/simple")


def test_without_an_index_nothing_is_asked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "true")
    with pytest.raises(UsageError, match="no wheel of torch on the package index"):
        open_wheel("torch", "==2.8.0")
