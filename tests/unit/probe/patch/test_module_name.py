"""Which name a project gives a file: packages, `src`, namespaces, and files that are in no package."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgate.probe.patch.module_name import place_in_package


def made(folder: Path, *files: str, text: str = "") -> str:
    """The last of the files, each with folders around it; its text is `text`."""
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if name == files[-1] else "")
    return str(folder / files[-1])


@pytest.mark.parametrize(
    ("files", "text", "name", "root"),
    [
        (["acme/__init__.py", "acme/patch.py"], "import torch", "acme.patch", "."),
        (["acme/__init__.py"], "import torch", "acme", "."),
        (["src/acme/__init__.py", "src/acme/deep/__init__.py", "src/acme/deep/p.py"], "", "acme.deep.p", "src"),
        # The folder of a checkout is often called as the package in it.
        (["acme/acme/__init__.py", "acme/acme/patch.py"], "from acme.helpers import x", "acme.patch", "acme"),
        (["acme/hw/__init__.py", "acme/hw/p.py"], "from acme.hw.helpers import x", "acme.hw.p", "."),
        (["acme/hw/p.py"], "import acme.hw.helpers", "acme.hw.p", "."),
        (["pyproject.toml", "src/acme/hw/p.py"], "from ..names import x", "acme.hw.p", "src"),
        (["pyproject.toml", "acme/hw/p.py"], "from .names import x", "acme.hw.p", "."),
        (["acme/hw/p.py"], "from .names import x", "hw.p", "acme"),
        (["acme/hw/p.py"], "from ..names import x", "acme.hw.p", "."),
        (["acme/p.py"], "import torch", None, "acme"),
        (["json/p.py"], "import json", None, "json"),
        (["acme/p.py"], "import (", None, "acme"),
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
