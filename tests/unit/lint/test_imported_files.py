"""The files that run when a file of their project is imported are found, and no others."""

import ast

import pytest

from patchgate.lint.imported_files import imported_files


@pytest.fixture
def project(tmp_path):
    def files(**texts):
        for name, text in ({"__init__": ""} | texts).items():
            file = tmp_path / "mine" / f"{name}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        patch = tmp_path / "mine" / "patch.py"
        return sorted(path.stem for path in imported_files(patch, ast.parse(patch.read_text())))

    return files


@pytest.mark.parametrize(
    "line",
    [
        "from mine import streams",
        "from mine.streams import x",
        "from .streams import x",
        "from . import streams",
        "import torch, mine.streams",
        "try:\n    import mine.streams\nexcept ImportError:\n    pass",
        "if True:\n    from mine import streams",
    ],
)
def test_what_an_import_runs_is_found_also_through_another_file(project, line):
    texts = {
        "patch": line,
        "streams": "from mine.more import x",
        "more": "from mine import streams",
    }
    assert project(**texts) == ["more", "streams"]


@pytest.mark.parametrize(
    "line",
    [
        "def f():\n    from mine import streams",
        "if TYPE_CHECKING:\n    from mine import streams",
        "import torch.streams",
        "x = 1",
    ],
)
def test_what_an_import_does_not_run_is_not_found(project, line):
    assert project(patch=line, streams="") == []


def test_what_the_package_imports_before_is_left_out(project):
    texts = {"patch": "from mine import streams, more", "streams": "", "more": ""}
    assert project(**texts, __init__="from mine import streams") == ["more"]
    both = "from mine import streams, patch"
    assert project(**texts, __init__=both) == ["__init__", "more", "streams"]
    assert project(**texts | {"streams": "def"}) == ["more", "streams"]
