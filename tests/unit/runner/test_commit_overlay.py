"""Sources of a commit laid over an installed package: the commit's where it has them, links to the
installed else.
"""

import pytest

from patchgate.runner.torch_environments import built_commit, link_missing


@pytest.fixture
def installed(tmp_path):
    torch = tmp_path / "site" / "torch"
    for name, text in {
        "__init__.py": "old",
        "version.py": "__version__ = '2.11.0'\ngit_version = 'abc'\n",
        "lib/lib.so": "binary",
        "_inductor/ir.py": "old",
        "_inductor/same.py": "same",
        "_inductor/__pycache__/ir.pyc": "old",
    }.items():
        (torch / name).parent.mkdir(parents=True, exist_ok=True)
        (torch / name).write_text(text)
    return torch


def test_what_the_commit_changes_is_its_own_and_all_else_is_linked(installed, tmp_path):
    laid = tmp_path / "laid"
    (laid / "_inductor").mkdir(parents=True)
    for name, text in {
        "_inductor/ir.py": "new",
        "_inductor/same.py": "same",
        "_inductor/added.py": "new",
    }.items():
        (laid / name).write_text(text)
    link_missing(installed, laid)
    assert {
        str(path.relative_to(laid)): path.is_symlink() for path in laid.rglob("*") if path.is_file()
    } == {
        "__init__.py": True,
        "version.py": True,
        "_inductor/ir.py": False,
        "_inductor/same.py": True,
        "_inductor/added.py": False,
    }
    assert (laid / "lib").is_symlink()
    assert ((laid / "_inductor" / "ir.py").read_text(), (laid / "__init__.py").read_text()) == (
        "new",
        "old",
    )
    assert (installed / "_inductor" / "ir.py").read_text() == "old"
    assert not (laid / "_inductor" / "__pycache__").exists()


@pytest.mark.parametrize(
    ("line", "commit"),
    [
        ("git_version = 'abc'", "abc"),
        ('git_version: Optional[str] = "abc"', "abc"),
        ("debug = False", None),
    ],
)
def test_the_commit_that_a_torch_was_built_from_is_read(installed, line, commit):
    (installed / "version.py").write_text(f"__version__ = '2.11.0'\n{line}\n")
    assert built_commit(installed.parent) == commit
