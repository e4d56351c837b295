"""The table of a project: where it is looked for, what it may say, and what each wrong key is
answered.
"""

import pytest
from expecttest import assert_expected_inline

from patchgate.inputs.project import Project, find_project
from patchgate.model.errors import UsageError


@pytest.fixture
def repository(folder):
    """A git repository with a package, and a function that writes its table."""
    for name in (".git", "src/engine/patches", "elsewhere"):
        (folder / name).mkdir(parents=True)
    (folder / "src/engine/patches/one.py").write_text("")

    def write(text, file="pyproject.toml", below="."):
        (folder / below / file).write_text(text)
        return folder

    return write


def refusal(folder, place="src/engine/patches/one.py"):
    with pytest.raises(UsageError) as error:
        find_project(folder / place)
    return str(error.value)


@pytest.mark.parametrize(
    ("file", "head"),
    [("pyproject.toml", "[project]\nname = 'engine'\n[tool.patchgate]\n"), ("patchgate.toml", "")],
)
def test_the_table_is_found_from_a_patch_far_below(repository, file, head):
    folder = repository(f'{head}releases = ["2.11.0"]\nbudgets.latency = "1 %"\n', file)
    project = find_project(folder / "src/engine/patches/one.py")
    assert (project.root, project.table) == (str(folder), str(folder / file))
    assert (project.releases, project.budgets["latency"].high) == (("2.11.0",), 0.01)
    assert project.where("releases") == f"{file}:{1 + head.count(chr(10))}"


@pytest.mark.parametrize(
    "text", ["", "[project]\nname = 'x'\n", "[tool.ruff]\n", "this {is no TOML"]
)
def test_without_a_table_the_project_is_the_repository_with_every_default(repository, text):
    folder = repository(text)
    assert find_project(folder / "src/engine/patches/one.py") == Project(root=str(folder))


def test_a_folder_that_is_no_repository_is_its_own_project(folder):
    (folder / "one.py").write_text("")
    (folder / "deep").mkdir()
    assert find_project(folder / "one.py").table is None
    assert find_project(folder / "deep", folder).at(".").is_dir()


def test_the_table_nearest_to_the_patch_counts_and_then_the_one_nearest_to_the_command(repository):
    folder = repository('[tool.patchgate]\nreleases = ["2.11.0"]\n')
    repository('releases = ["2.12.1"]\n', "patchgate.toml", "src")
    (folder / "elsewhere/.git").mkdir()  # another repository, without a table
    inner, outer, other = "src/engine/patches/one.py", "src", "elsewhere"
    assert find_project(folder / inner, folder).releases == ("2.12.1",)
    assert find_project(folder / other, folder).releases == ("2.11.0",)
    assert find_project(folder / other, folder / outer).releases == ("2.12.1",)
    assert find_project(folder / other).table is None


def test_a_release_is_called_as_torch_calls_it(repository):
    folder = repository("[tool.patchgate]\nreleases = ['2.11', '2.12.1', '2.13.0rc1']\n")
    assert find_project(folder).releases == ("2.11.0", "2.12.1", "2.13.0rc1")


def test_patches_are_paths_and_patterns_each_once(repository):
    package = repository("") / "src/engine/patches/__init__.py"
    package.write_text("\n")
    folder = repository(
        "[tool.patchgate]\npatches = ['src/engine/patches/*.py', 'src/engine/patches/one.py']\n"
    )
    assert find_project(folder).patch_paths() == [folder / "src/engine/patches/one.py"]
    package.write_text("import torch\n")
    assert find_project(folder).patch_paths() == [package, folder / "src/engine/patches/one.py"]


def test_a_pattern_leaves_out_what_lies_beside_patches(repository):
    folder = repository("[tool.patchgate]\npatches = ['src/engine/patches/*']\n")
    (folder / "src/engine/patches/README.md").write_text("# Patches\n")
    (folder / "src/engine/patches/two").mkdir()
    assert {path.name for path in find_project(folder).patch_paths()} >= {"one.py", "two"}
    assert not any(path.suffix == ".md" for path in find_project(folder).patch_paths())


@pytest.mark.parametrize("entry", ["src/none.py", "src/none/*.py"])
def test_an_entry_that_names_no_patch_is_refused_at_its_line(repository, entry):
    project = find_project(repository(f"[tool.patchgate]\npatches = ['{entry}']\n"))
    with pytest.raises(UsageError) as error:
        project.patch_paths()
    assert (error.value.where, error.value.got) == ("pyproject.toml:2", entry)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("rleases = ['2.11.0']", "unknown key"),
        ("root = '/etc'", "unknown key"),
        ("releases = '2.11.0'", "not a list of strings"),
        ("releases = ['newest']", "not a version"),
        ("torch_range = '2.9'", "not a PEP 440 specifier"),
        ("patches = ['../other/patch.py']", "not a path below the folder of the table"),
        ("golden = '/golden'", "not a path below the folder of the table"),
        ('golden = "a\\u0000"', "not a path below the folder of the table"),
        ("golden = ''", "not a path below the folder of the table"),
        (f"golden = '{'x' * 256}'", "longer than any path"),
        (f"golden = '{'x/' * 1100}'", "longer than any path"),
        ("requires = ['torch==2.9']", "torch itself"),
        ('gpu_runner = "gpu\\nshares=[]"', "not a label"),
        ('gpu_runner = "gpu\\n"', "not a label"),
        ("requires = ['a b']", "not a requirement"),
        ("install = true", "not a string"),
        ("budgets = '1 %'", "not a table"),
        ("budgets.latency = '-1 %'", "a budget with a sign is a range"),
        ("budgets.latencey = '1 %'", "unknown key"),
    ],
)
def test_a_wrong_key_is_refused_at_its_line_with_what_to_write(repository, line, told):
    folder = repository(f"[project]\n[tool.patchgate]\n{line}\n")
    message = refusal(folder).splitlines()
    assert message[0].startswith("pyproject.toml:3: ")
    assert (told in message[0], [each[:7] for each in message[1:]]) == (
        True,
        ["  got: ", "  next:"],
    )


def test_two_tables_of_one_folder_are_refused(repository):
    repository("[tool.patchgate]\n")
    assert_expected_inline(
        refusal(repository("", "patchgate.toml")),
        """\
patchgate.toml: two tables of one project
  got:  [tool.patchgate] in pyproject.toml and patchgate.toml next to it
  next: keep one of the two""",
    )


@pytest.mark.parametrize(
    "text", ["[tool.patchgate\n", "[tool.patchgate]\nreleases = [\n", "[tool]\npatchgate = 3\n"]
)
def test_a_broken_table_is_refused(repository, text):
    assert refusal(repository(text)).startswith("pyproject.toml")


@pytest.mark.parametrize(
    ("key", "read"),
    [
        ("path", lambda project: project.import_path),
        ("workloads", lambda project: project.own_workloads()),
        ("devices", lambda project: project.profiles),
    ],
)
def test_a_link_that_leads_out_of_the_repository_is_refused(
    repository, key, read, tmp_path_factory
):
    outside = tmp_path_factory.mktemp("home")
    (outside / "npu.toml").write_text("")
    folder = repository(f'{key} = ["keys/npu.toml"]\n', "patchgate.toml", "src")
    (folder / "src/keys").symlink_to(outside)
    with pytest.raises(UsageError, match="outside of the project"):
        read(find_project(folder / "src/engine/patches/one.py"))
    (folder / "src/keys").unlink()
    (folder / "src/keys").symlink_to(folder / "elsewhere")
    (folder / "elsewhere/npu.toml").write_text("")
    assert read(find_project(folder / "src/engine/patches/one.py"))


@pytest.mark.parametrize(
    ("there", "table", "golden"),
    [
        ([], "", "patchgate-golden"),
        (["patchgate/golden"], "", "patchgate/golden"),
        (["patchgate/golden", "patchgate-golden"], "", "patchgate-golden"),
        (["patchgate/golden"], 'golden = "facts"', "facts"),
    ],
)
def test_golden_makes_no_second_package_and_its_older_folder_is_still_read(
    folder, there, table, golden
):
    for name in there:
        (folder / name).mkdir(parents=True)
    (folder / "patchgate.toml").write_text(table)
    assert find_project(folder).golden_folder == folder / golden


@pytest.mark.parametrize("name", ["cpu", "h200", "cuda"])
def test_a_profile_is_not_called_as_a_device_of_patchgate(folder, name):
    (folder / "patchgate.toml").write_text(f'devices = ["{name}.toml", "cpu"]\n')
    (folder / f"{name}.toml").write_text('kind = "codegen"\n')
    with pytest.raises(UsageError, match=f"patchgate has a device `{name}`"):
        find_project(folder).check_profiles()


@pytest.mark.parametrize("table", ['patches = ["place/*.py"]', 'golden = "place"'])
def test_no_link_out_of_the_project_is_followed_to_a_patch_or_to_golden(
    folder, tmp_path_factory, table
):
    outside = tmp_path_factory.mktemp("home")
    (outside / "own.py").write_text("")
    (folder / "place").symlink_to(outside)
    (folder / "patchgate.toml").write_text(f"{table}\n")
    project = find_project(folder)
    with pytest.raises(UsageError, match="outside of the project"):
        _ = project.patch_paths(), project.golden_folder


def test_what_is_no_pattern_of_patches_is_refused_with_its_line(folder):
    (folder / "patchgate.toml").write_text('patches = ["a/**py"]\n')
    with pytest.raises(UsageError, match=r"patchgate\.toml:1: not a pattern"):
        find_project(folder).patch_paths()


def test_a_line_feed_in_the_path_of_a_patch_would_be_two_patches_of_a_pipeline(tmp_path):
    (tmp_path / "patchgate.toml").write_text('patches = ["*.py"]\n')
    (tmp_path / "one.py").touch()
    assert len(find_project(tmp_path).patch_paths()) == 1
    (tmp_path / "two\nthree.py").touch()
    with pytest.raises(UsageError, match="line feed"):
        find_project(tmp_path).patch_paths()
