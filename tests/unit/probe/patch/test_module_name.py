"""A project's file gets the name that the project gives it: packages, `src`, namespaces, files in
no package; and what runs it again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgate.probe.patch.module_name import (
    foreign_imports,
    place_in_package,
    what_runs_again,
)


def made(folder: Path, *files: str, text: str = "") -> str:
    """The last of the files, each with folders around it; its text is `text`."""
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if name == files[-1] else "")
    return str(folder / files[-1])


def test_what_a_file_imports_from_other_projects(tmp_path: Path) -> None:
    text = """\"\"\"A patch.\"\"\"
from __future__ import annotations
import torch.fx
from acme.helpers import x
from .. import acme
level = 3
from flash.ops import attention
if level:
    import slow
"""
    helpers = made(tmp_path, "acme/__init__.py", "acme/helpers.py", text="import regex")
    file = made(tmp_path, "acme/patch.py", text=text)
    leading = ["__future__.annotations", "torch.fx", "regex"]
    assert foreign_imports(file, str(tmp_path), leading=True) == leading
    assert set(foreign_imports(file, str(tmp_path))) == {*leading, "flash.ops.attention"}
    assert foreign_imports(helpers, str(tmp_path)) == ["regex"]


@pytest.mark.parametrize(
    ("files", "text", "name", "root"),
    [
        (["acme/__init__.py", "acme/patch.py"], "import torch", "acme.patch", "."),
        (["acme/__init__.py"], "import torch", "acme", "."),
        (
            ["src/acme/__init__.py", "src/acme/deep/__init__.py", "src/acme/deep/p.py"],
            "",
            "acme.deep.p",
            "src",
        ),
        # The folder of a checkout is often called as the package in it.
        (
            ["acme/acme/__init__.py", "acme/acme/patch.py"],
            "from acme.helpers import x",
            "acme.patch",
            "acme",
        ),
        (
            ["acme/hw/__init__.py", "acme/hw/p.py"],
            "from acme.hw.helpers import x",
            "acme.hw.p",
            ".",
        ),
        (["acme/hw/p.py"], "import acme.hw.helpers", "acme.hw.p", "."),
        (["pyproject.toml", "src/acme/hw/p.py"], "from ..names import x", "acme.hw.p", "src"),
        (["pyproject.toml", "acme/hw/p.py"], "from .names import x", "acme.hw.p", "."),
        (["acme/hw/p.py"], "from .names import x", "hw.p", "acme"),
        (["acme/hw/p.py"], "from ..names import x", "acme.hw.p", "."),
        (["acme/p.py"], "import torch", None, "acme"),
        (["json/p.py"], "import json", None, "json"),
        (["acme/p.py"], "import (", None, "acme"),
        (["acme/.parts/p.py"], "import acme", None, "acme/.parts"),
    ],
)
def test_a_file_has_the_name_that_its_package_gives_it(
    tmp_path: Path, files: list[str], text: str, name: str | None, root: str
) -> None:
    assert place_in_package(made(tmp_path, *files, text=text)) == (name, str(tmp_path / root))


def test_a_folder_of_the_project_says_otherwise(tmp_path: Path) -> None:
    path = made(tmp_path, "python/acme/patches/one.py")
    assert place_in_package(path) == (None, str(Path(path).parent))
    python = str(tmp_path / "python")
    assert place_in_package(path, [str(tmp_path), python]) == ("acme.patches.one", python)
    assert place_in_package(path, [str(tmp_path / "elsewhere")]) == (None, str(Path(path).parent))


def test_a_file_whose_path_is_no_dotted_name_is_in_no_package(tmp_path: Path) -> None:
    path = made(tmp_path, "my-patches/one.py")
    assert place_in_package(path, [str(tmp_path)]) == (None, str(Path(path).parent))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import acme.patches.one\n", ""),
        ("from acme.patches import one\nfrom .patches import one\n", ""),
        (
            "import importlib\nfrom acme.patches import one\nimportlib.reload(one)\n",
            "acme/user.py:3",
        ),
        (
            "from importlib import reload\nimport acme.patches.one\nreload(acme.patches.one)\n",
            "acme/user.py:3",
        ),
        ("import importlib\nfrom acme.patches import one\nimportlib.reload(acme.two)\n", ""),
        ("from acme.patches import one\nfrom patches import one\n", "acme/user.py:2"),
        ("import patches.one as one\n", "acme/user.py:1"),
        ("import one (", ""),
    ],
)
def test_a_file_runs_again_where_the_project_reloads_it_or_has_it_by_two_names(
    tmp_path: Path, text: str, line: str
) -> None:
    path = made(tmp_path, "acme/__init__.py", "acme/patches/__init__.py", "acme/patches/one.py")
    made(tmp_path, "acme/user.py", text=text)
    assert what_runs_again(path, "acme.patches.one", str(tmp_path)) == line


def test_a_module_with_the_name_of_another_is_not_it(tmp_path: Path) -> None:
    path = made(tmp_path, "acme/__init__.py", "acme/logging.py")
    made(tmp_path, "acme/user.py", text="import logging\nimport pytest.logging\n")
    assert what_runs_again(path, "acme.logging", str(tmp_path)) == ""


def test_a_file_in_no_package_runs_again_where_a_file_beside_it_reloads_it(tmp_path: Path) -> None:
    path = made(tmp_path, "one.py")
    assert what_runs_again(path, None, str(tmp_path)) == ""
    made(tmp_path, "two.py", text="import importlib, one\nimportlib.reload(one)\n")
    assert what_runs_again(path, None, str(tmp_path)) == "two.py:2"


def test_what_cannot_be_read_beside_a_patch_runs_nothing(tmp_path: Path) -> None:
    path = made(tmp_path, "one.py")
    (tmp_path / "broken.py").symlink_to("nowhere.py")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "bytes.py").write_bytes(b"import one\n\0")
    assert what_runs_again(path, None, str(tmp_path)) == ""
