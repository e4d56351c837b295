"""A test puts something in the place of a name of torch for the code that it tests, and not for all
callers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from toyindex import toy_releases
from toytorch import TORCHES

from patchgate.lint.index.release import Release
from patchgate.lint.run import lint

HELD = """
from unittest import mock
import torch._inductor.graph
import torch._inductor.ir as ir
def test_it(monkeypatch):
    {}
"""
BY_PATH = "mock.patch('torch._inductor.ir.strides', lambda *a, **k: 1).start()"
BY_OBJECT = "mock.patch.object(ir, 'strides', lambda *a, **k: 1).start()"
BY_PYTEST = "monkeypatch.setattr(ir, 'strides', lambda *a, **k: 1)"


def _red(tmp_path: Path, name: str, source: str, torches: Sequence[Release] = TORCHES) -> list[str]:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(source.lstrip())
    return [each.code for each in lint([file], torches).findings if each.severity.value == "red"]


@pytest.mark.parametrize("how", [BY_PATH, BY_OBJECT, BY_PYTEST])
def test_a_holder_that_a_test_leaves_alone_is_a_note(tmp_path: Path, how: str) -> None:
    assert _red(tmp_path, "test_it.py", HELD.format(how)) == []
    expected = [] if how is BY_PYTEST else ["PG118"]
    assert _red(tmp_path, "install.py", HELD.format(how)) == expected
    assert _red(tmp_path, "test_it.py", HELD.format("ir.strides = lambda *a, **k: 1")) == ["PG118"]


CALLED = """
from torch._inductor.ir import Box
def test_it(monkeypatch):
    monkeypatch.setattr(Box, "should_realize", lambda self{}: 1)
"""


def test_a_mock_that_fits_until_a_release_is_red_there_and_one_that_never_fits_is_not(
    tmp_path: Path,
) -> None:
    assert _red(tmp_path, "test_it.py", CALLED.format(", users")) == ["PG113"]
    assert _red(tmp_path, "test_it.py", CALLED.format("")) == []


MOCKED = """
from torch._inductor.ir import absent
from unittest import mock
def test_it():
    with mock.patch('torch._inductor.ir.absent'{}):
        pass
"""


def test_a_mock_makes_no_missing_name_importable(tmp_path: Path) -> None:
    assert "PG111" in _red(tmp_path, "test_it.py", MOCKED.format(""))
    present = MOCKED.replace("absent", "strides").format("")
    assert "PG111" not in _red(tmp_path, "test_it.py", present)


_DEVICE = "def properties({}): ...\ndef name(): return properties({})\n"
PUBLIC, PRIVATE = (
    toy_releases(
        {
            "2.10.0": {module: _DEVICE.format("device", "0")},
            "2.11.0": {module: _DEVICE.format("device=None", "")},
        }
    )
    for module in ("torch.cuda", "torch._cuda")
)
PUT = """
import torch.cuda as cuda
def test_it(monkeypatch):
    {}
"""


@pytest.mark.parametrize(
    "how",
    ["monkeypatch.setattr(cuda, 'properties', lambda device: 1)", "cuda.properties = lambda x: 1"],
)
def test_what_a_test_puts_in_the_place_of_a_public_function_is_for_its_own_project(
    tmp_path: Path, how: str
) -> None:
    assert _red(tmp_path, "test_it.py", PUT.format(how), PUBLIC) == []
    private = PUT.replace("torch.cuda", "torch._cuda").format(how)
    assert _red(tmp_path, "test_it.py", private, PRIVATE) == ["PG113"]
    assigned = PUT.format("cuda.properties = lambda x: 1")
    assert _red(tmp_path, "install.py", assigned, PUBLIC) == ["PG113"]


PASSING = """
import torch._inductor.ir as ir
def install():
    saved = ir.strides
    ir.strides = lambda x: x
    {}
    ir.strides = saved
"""


@pytest.mark.parametrize(
    ("between", "red"),
    [("import elsewhere", False), ("ir.use(1)", True), ("yield", True), ("x = elsewhere", False)],
)
def test_what_is_put_back_after_imports_meets_no_caller(
    tmp_path: Path, between: str, red: bool
) -> None:
    torches = toy_releases({"2.11.0": {"torch._inductor.ir": STRIDES}})
    assert _red(tmp_path, "install.py", PASSING.format(between), torches) == ["PG113"] * red


STRIDES = """
def strides(x, deep=False): ...
def use(x): return strides(x, deep=True)
"""
HOOK = """
from torch._inductor.ir import Tuner
def test_it():
    tuner = Tuner()
    tuner.hook = lambda given: 0
"""


def test_what_a_test_puts_on_an_object_is_for_the_code_that_it_tests(tmp_path: Path) -> None:
    tuner = "class Tuner:\n    def __init__(self):\n        self.hook = None\n"
    tuner += "    def run(self):\n        self.hook(1, reset=True)\ndef hook(given): ...\n"
    torches = toy_releases({"2.11.0": {"torch._inductor.ir": tuner}})
    assert _red(tmp_path, "test_it.py", HOOK, torches) == []
    assert _red(tmp_path, "install.py", HOOK, torches) == ["PG113"]
