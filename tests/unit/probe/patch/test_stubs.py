"""A stub stands for a module that is not there, and every name that is used of it is known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from patchgate.model.paths import PACKAGE

PATCH = """
import acme._C as ext
from flash import attention
from acme.helper import seen

@attention.register
def kept(x):
    return isinstance(x, ext.Tensor) or seen

class Sub(ext.Base):
    pass

with ext.guard(3) as guard:
    rows = ext.table["a"] or []
"""


def run(folder: Path, code: str) -> list[str]:
    """Lines printed by code that has installed the stubs; the import system of this process stays
    as it is.
    """
    (folder / "acme").mkdir()
    (folder / "acme" / "__init__.py").write_text("raise RuntimeError('the package was run')\n")
    (folder / "acme" / "helper.py").write_text("import flash\nseen = flash.version\n")
    (folder / "acme" / "patch.py").write_text(PATCH)
    before = f"""
    import sys
    sys.path[:0] = [{str(PACKAGE.parent)!r}, {str(folder)!r}]
    from patchgate.probe.patch.stubs import install_stubs, uses
    patch = {str(folder / "acme" / "patch.py")!r}
    install_stubs(["acme", "acme._C", "flash"], patch, {str(folder)!r})
    """
    ended = subprocess.run(
        [sys.executable, "-c", dedent(before) + dedent(code)], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_every_use_is_recorded_with_its_line_and_who_made_it(tmp_path: Path) -> None:
    code = """
    import acme.patch
    for use in uses():
        print(use["name"], use["where"].rpartition("/")[2], use["by_patch"])
    acme.patch.kept(1)
    print(*[use["name"] for use in uses()][-1:], [use["name"] for use in uses() if "Tensor" in use["name"]])
    """
    assert run(tmp_path, code) == [
        "acme._C patch.py:2 True",
        "acme._C.Base patch.py:10 True",
        "acme._C.guard patch.py:13 True",
        "acme._C.guard() patch.py:13 True",
        "acme._C.table patch.py:14 True",
        "flash patch.py:3 True",
        "flash.attention patch.py:3 True",
        "flash.attention.register patch.py:6 True",
        "flash.version helper.py:2 False",
        "flash.version ['acme._C.Tensor']",
    ]


def test_a_stub_decorates_nothing_and_is_no_type_of_anything(tmp_path: Path) -> None:
    code = """
    import acme.patch as patch
    print(patch.kept.__name__, issubclass(patch.Sub, type(patch.ext)), patch.rows)
    import importlib.util
    print(importlib.util.find_spec("numpy_that_is_not_there"))
    try:
        patch.ext.__version__
    except AttributeError as error:
        print(error)
    """
    assert run(tmp_path, code) == ["kept False []", "None", "a stub has no acme._C.__version__"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("import flash\nseen = bool(flash.is_npu())", "False"),
        ("import flash.deep.down as down\nseen = down.__name__", "flash.deep.down"),
        ("try:\n    import flash\nexcept ImportError:\n    seen = 'without'", "without"),
        (
            "import contextlib\nseen = 'without'\nwith contextlib.suppress(ImportError):\n    "
            "import flash",
            "without",
        ),
        ("import importlib.util\nseen = importlib.util.find_spec('flash')", "None"),
        (
            "from flash import Model\nclass Own(Model, frozen=True):\n    pass\nseen = "
            "Own(a=1).__class__.__name__",
            "Own",
        ),
        (
            "import copy, flash, pickle\nx = pickle.loads(pickle.dumps(flash.x))\nseen = "
            "f'{x} {copy.deepcopy(x)}'",
            "<stub flash.x> <stub flash.x>",
        ),
        (
            "import flash\nseen = flash.version >= 3",
            "StandsIn: flash.version, which is not here, decides",
        ),
        (
            "import flash\nseen = flash.version == 3",
            "StandsIn: flash.version, which is not here, decides",
        ),
        (
            "import flash\nfrom typing import Dict, Optional\nseen = 'a type'\n"
            "Dict[str, Optional[flash.Type]]",
            "a type",
        ),
        (
            "import flash\nseen = [*flash.table]",
            "StandsIn: flash.table, which is not here, decides",
        ),
        ("import torch._no_such_module", "ModuleNotFoundError: No module named 'torch'"),
        (
            "try:\n    import flash\nexcept ImportError as no:\n    raise SystemError from "
            "no\nseen = 'stood in'",
            "stood in",
        ),
    ],
)
def test_what_a_file_needs_and_is_not_installed_has_a_stand_in(
    tmp_path: Path, text: str, shown: str
) -> None:
    (tmp_path / "patch.py").write_text(text)
    code = f"""
    import sys
    sys.path[:0] = [{str(PACKAGE.parent)!r}, {str(tmp_path)!r}]
    from patchgate.probe.patch.stubs import install_stubs
    install_stubs([], {str(tmp_path / "patch.py")!r}, {str(tmp_path)!r})
    try:
        import patch
        print(patch.seen)
    except Exception as error:
        print(f"{{type(error).__name__}}: {{error}}")
    """
    ended = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True)
    assert ended.stdout.strip() == shown, ended.stderr


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        ({"mine/patch.py": "import flash.ops\nimport regex"}, "flash regex"),
        ({"mine/patch.py": "import json"}, ""),
        # The package runs nothing, so that nothing below it is asked for.
        ({"mine/__init__.py": "from mine import other", "mine/other.py": "import flash"}, "flash"),
        ({"mine/__init__.py": "try:\n    import flash\nexcept ImportError:\n    pass"}, ""),
    ],
)
def test_what_is_missing_is_named_all_at_once(
    tmp_path: Path, files: dict[str, str], missing: str
) -> None:
    (tmp_path / "mine").mkdir()
    for name, text in ({"mine/__init__.py": "", "mine/patch.py": ""} | files).items():
        (tmp_path / name).write_text(text)
    code = f"""
    import sys
    sys.path[:0] = [{str(PACKAGE.parent)!r}, {str(tmp_path)!r}]
    from patchgate.probe.patch.stubs import install_stubs, missing_packages
    install_stubs(["mine"], {str(tmp_path / "mine/patch.py")!r}, {str(tmp_path)!r})
    import mine.patch
    print(*missing_packages())
    """
    ended = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True)
    assert ended.stdout.strip() == missing, ended.stderr


def test_a_device_that_a_package_adds_to_torch_is_there_without_an_import(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    code = f"""
    import sys
    sys.path[:0] = [{str(PACKAGE.parent)!r}, {str(tmp_path)!r}]
    import torch
    from patchgate.probe.patch.stubs import install_stubs, missing_packages
    install_stubs(["torch.npu"], {str(tmp_path / "patch.py")!r}, {str(tmp_path)!r})
    print(torch.npu.memory_stats, hasattr(torch, "xpu"), *missing_packages())
    """
    ended = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True)
    assert ended.stdout.strip() == "<stub torch.npu.memory_stats> False torch_npu", ended.stderr
