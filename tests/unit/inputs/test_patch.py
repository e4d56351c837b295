"""Read patches from disk; every refusal is tested word for word."""

from pathlib import Path

import pytest
from expecttest import assert_expected_inline
from refusals import manifest, refused

from patchgate.inputs.patch import backend_entry_points, load_patch
from patchgate.model.errors import UsageError
from patchgate.model.records import Numerics


def test_a_folder_is_a_patch_with_its_manifest(folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "patch.py").write_text("x = 1\n")
    manifest(folder / "mine", 'title = "Mine"\napplies_to = ">=2.11"\n')
    patch = load_patch(folder / "mine")
    assert (patch.id, patch.source, patch.claims.title) == ("mine", "x = 1\n", "Mine")
    assert (patch.path, patch.manifest) == (
        str(folder / "mine" / "patch.py"),
        str(folder / "mine" / "patch.toml"),
    )


def test_a_bare_file_takes_the_manifest_of_its_own_name(folder):
    (folder / "mine.py").write_text("")
    (folder / "patch.toml").write_text('title = "of another patch"')
    assert load_patch(folder / "mine.py").manifest is None
    (folder / "mine.toml").write_text('title = "Mine"')
    assert load_patch(folder / "mine.py").claims.title == "Mine"


def test_without_a_manifest_the_strict_claims_hold(folder):
    (folder / "mine.py").write_text("")
    claims = load_patch(folder / "mine.py").claims
    assert (claims.applies_to, claims.targets, claims.numerics) == (
        None,
        None,
        Numerics.BIT_IDENTICAL,
    )
    assert claims.title == "mine (no manifest: strict claims)"


def test_a_folder_is_called_by_its_name_however_it_is_reached(folder, monkeypatch):
    (folder / "mine").mkdir()
    (folder / "mine" / "patch.py").write_text("")
    monkeypatch.chdir(folder / "mine")
    assert load_patch(folder / "mine" / ".." / "mine").id == "mine"


def test_an_id_in_the_manifest_outlasts_another_name_of_the_folder(folder):
    (folder / "copy").mkdir()
    (folder / "copy" / "patch.py").write_text("def install():\n    pass\n")
    manifest(folder / "copy", 'id = "mine"\n')
    assert load_patch(folder / "copy").id == "mine"
    assert load_patch(folder / "copy::install").id == "mine-install"


def test_a_function_that_the_file_has_not_is_refused_with_those_that_are_there(folder):
    (folder / "mine.py").write_text("def install():\n    pass\n\n\ndef undo():\n    pass\n")
    with pytest.raises(UsageError) as refusal:
        load_patch(folder / "mine.py::instal(True)")
    assert_expected_inline(
        str(refusal.value),
        """\
PATCH::FUNCTION: no function `instal`
  got:  instal(True); there are install, undo
  next: did you mean `install`?""",
    )


@pytest.mark.parametrize(
    "text",
    [
        "from torch import *\n",
        "from a import b as nothere\n",
        "globals()['nothere'] = print\n",
        "import sys\nsetattr(sys.modules[__name__], 'nothere', print)\n",
        "if 1:\n    nothere = print\n",
        "class nothere:\n    install = print\n",
        "def broken(:\n",
    ],
)
def test_a_file_that_may_have_the_function_is_left_to_torch(folder, text):
    (folder / "mine.py").write_text(text)
    assert load_patch(folder / "mine.py::nothere.install").claims.apply == ("nothere.install",)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "[x]", "unpatched", "a" * 101])
def test_an_id_that_golden_could_not_hold_is_refused(folder, name):
    (folder / "mine.py").write_text("")
    (folder / "mine.toml").write_text(f'id = "{name}"\n')
    with pytest.raises(UsageError, match=r"not made of|the name of torch without a patch"):
        load_patch(folder / "mine.py")


def test_files_of_results_can_be_named_by_an_id(folder):
    names = [f"{'a' * 200}{end}.py" for end in "bc"]
    for name in names:
        (folder / name).write_text("def install(at): ...\n")
    ids = {load_patch(Path(f"{folder / name}::install('{'x' * 200}')")).id for name in names}
    assert (len(ids), {len(each) for each in ids}) == (2, {100})


@pytest.mark.parametrize(
    ("name", "identity"), [("my patch", "my-patch"), ("a.b", "a-b"), ("_x", "_x"), ("ä", "patch")]
)
def test_an_id_has_no_character_that_would_break_a_case_id(folder, name, identity):
    (folder / f"{name}.py").write_text("")
    assert load_patch(folder / f"{name}.py").id == identity


def test_a_file_that_is_not_python_is_a_patch_all_the_same(folder):
    (folder / "mine.py").write_bytes(b"def \xff")
    assert load_patch(folder / "mine.py").source == "def \ufffd"


def test_a_path_that_is_not_there_is_refused(folder):
    assert_expected_inline(
        refused(load_patch, folder / "none"),
        """\
none: no such patch
  got:  nothing at that path
  next: give a folder that holds patch.py or patch.diff (and patch.toml), or a .py or .diff file""",
    )


def test_a_misspelt_path_is_corrected_with_its_folder(folder):
    (folder / "pkg").mkdir()
    (folder / "pkg" / "patches").mkdir()
    assert refused(load_patch, Path("pkg/patchs")).endswith("next: did you mean `pkg/patches`?")
    (folder / "mine.py").touch()
    assert refused(load_patch, Path("mien.py")).endswith("next: did you mean `mine.py`?")


def test_a_folder_without_patch_py_is_refused(folder):
    (folder / "empty").mkdir()
    assert_expected_inline(
        refused(load_patch, folder / "empty"),
        """\
empty: not a patch
  got:  a folder without patch.py or patch.diff
  next: patchgate lint reads all of a folder; `patches` in a table names some; or give a folder that holds patch.py or patch.diff (and patch.toml), or a .py or .diff file""",
    )


def test_a_file_that_is_no_python_file_is_refused(folder):
    (folder / "mine.txt").write_text("")
    assert_expected_inline(
        refused(load_patch, folder / "mine.txt"),
        """\
mine.txt: not a patch
  got:  a file with the suffix '.txt'
  next: give a folder that holds patch.py or patch.diff (and patch.toml), or a .py or .diff file""",
    )


def test_a_link_out_of_the_repository_is_no_patch(folder, tmp_path_factory):
    """A child may read what lies beside a patch: beside the file that a link leads to, a key
    perhaps.
    """
    (tmp_path_factory.mktemp("home") / "hosts.py").write_text("")
    (folder / "pyproject.toml").write_text("")
    (folder / "mine.py").symlink_to(next(tmp_path_factory.getbasetemp().glob("home*/hosts.py")))
    assert "a link out of the repository" in refused(load_patch, folder / "mine.py")
    (folder / "own.py").write_text("")
    (folder / "link.py").symlink_to("own.py")
    assert load_patch(folder / "link.py").path == str(folder / "own.py")


def test_a_folder_may_be_a_link_out_of_the_repository_no_more_than_a_file(
    folder, tmp_path_factory, monkeypatch
):
    home = tmp_path_factory.mktemp("home")
    (home / "hosts.py").write_text("")
    (folder / "repository").mkdir()
    (folder / "repository" / "pyproject.toml").write_text("")
    (folder / "repository" / "linked").symlink_to(home)
    (folder / "elsewhere").symlink_to(home)
    monkeypatch.chdir(folder / "repository")
    assert "linked: a link out of" in refused(load_patch, Path("linked/hosts.py"))
    # A link above the repository is the user's own.
    assert load_patch(folder / "elsewhere" / "hosts.py").path == str(home / "hosts.py")


def test_the_backend_entry_points_of_a_project_are_those_that_name_the_file(tmp_path):
    package = tmp_path / "src" / "mine"
    package.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (package / "backend.py").write_text("def compile_graph(gm, inputs): ...\n")
    named = 'mine = "mine.backend:compile_graph"\nother = "mine.other:compile_graph"\n'
    (tmp_path / "pyproject.toml").write_text(
        f"[project.entry-points.torch_dynamo_backends]\n{named}"
    )
    assert backend_entry_points(load_patch(package / "backend.py")) == ["compile_graph"]


def test_an_old_setup_file_names_backend_entry_points_too(tmp_path):
    (tmp_path / "backend.py").write_text("def compile_graph(gm, inputs): ...\n")
    listed = "{'torch_dynamo_backends': ['mine = backend:compile_graph']}"
    (tmp_path / "setup.py").write_text(f"setup(entry_points={listed})\n")
    assert backend_entry_points(load_patch(tmp_path / "backend.py")) == ["compile_graph"]
