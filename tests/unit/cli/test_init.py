"""`patchgate init` on every patch that there is: the manifest loads, and claims what the patch's
author claimed.
"""

import shlex
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from expecttest import assert_expected_inline
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from patchgate.cli import main as cli
from patchgate.inputs.manifest import Claims
from patchgate.inputs.patch import load_claims, load_patch
from patchgate.inputs.project import find_project
from patchgate.lint.index.release import releases
from patchgate.lint.infer_manifest import Inferred, InferredClaims, manifest_text
from patchgate.model.paths import ROOT

OLD, NEW = "0123abcd" * 5, "4567def0" * 5
PATCHES = sorted(path for path in (ROOT / "fixtures" / "patches").iterdir() if path.is_dir())
# The index calls a method by the module that defines its class; the gate takes both names.
ELSEWHERE = {"torch._tensor.Tensor.__getitem__": "torch.Tensor.__getitem__"}
# Applied by what Triton has, by what torch's source says, or everywhere: no check shows in names of
# torch.
NO_CHECK_OF_TORCH = {"unsloth-cluster", "vllm-rawstream", "ttxla-source", "ttxla-source-fixed"}
# The check is wrong, which is the fault: where it holds, and not where its author says.
WRONG_CHECKS = {
    "ani-float": ">=2.7,<2.10",
    "ao-strversion": ">=2.9,<2.10",
    "nemo-strings": ">=2.9,<2.10",
}
# The option is wrong, which is the fault: the author means another one.
WRONG_OPTIONS = {"rbln-limits"}
# The scope is made by no decorated function of the file: by a class, or by a function that returns
# one.
NO_DECORATOR = ("own_mode", "watched", "without_compiler")
# The file has a function that nobody calls; the author says nothing of it.
NEVER_INSTALLED = {"xdit-overlap"}


@pytest.fixture
def command(folder, monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["patchgate", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (ended.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def bare(folder):
    """A copy of a patch without its manifest."""

    def copy(source):
        shutil.copytree(source, folder / source.name)
        (folder / source.name / "patch.toml").unlink()
        return folder / source.name

    return copy


@pytest.mark.parametrize("source", PATCHES, ids=lambda path: path.name)
def test_the_manifest_claims_what_the_author_claimed(command, bare, source):
    theirs, copy = load_patch(source).claims, bare(source)
    assert command("init", copy)[0] == 0
    ours = load_patch(copy).claims
    if (source / "patch.py").is_file() and theirs.targets is not None:
        assert {ELSEWHERE.get(name, name) for name in ours.targets or ()} == set(theirs.targets)
    if (source / "patch.py").is_file() and source.name not in NO_CHECK_OF_TORCH:
        assert held(ours.applies_to) == held(WRONG_CHECKS.get(source.name, theirs.applies_to))
    if source.name not in WRONG_OPTIONS:
        assert {*theirs.effects} <= {*ours.effects}
    assert theirs.scope in (None, ours.scope, *NO_DECORATOR)
    if source.name not in NEVER_INSTALLED:
        assert {*ours.apply} <= {call.partition("(")[0] for call in theirs.apply}
    assert command("lint", copy)[0] in ((0, 1) if (source / "patch.py").is_file() else (3,))


def held(applies_to):
    return [
        SpecifierSet(applies_to or "").contains(version, prereleases=True) for version in releases()
    ]


def test_there_are_claims_to_compare():
    claims = [load_patch(path).claims for path in PATCHES]
    assert sum(one.targets is not None for one in claims) > 25
    assert sum(one.applies_to is not None for one in claims) > 9


def test_each_line_says_what_suggests_it_and_what_settles_it(command, bare):
    copy = bare(ROOT / "fixtures" / "patches" / "vllm-42686")
    (copy / "patch.py").write_text(
        (copy / "patch.py").read_text() + "# from https://example.org/pull/1.\n"
    )
    assert command("init", copy.name)[1].splitlines()[0] == "wrote vllm-42686/patch.toml"
    assert_expected_inline(
        (copy / "patch.toml").read_text().partition("\n\n# Not guessed")[0],
        """\
# Written by `patchgate init` from patch.py, without running it. Each guess says what verifies it;
# all at once: patchgate gate vllm-42686

# guessed: how patch.py begins
title = "vLLM #42686 re-created from its description: a cost model for realising reused buffers"

# guessed: the first change or issue, patch.py:43. To verify: where the patch is from
source = "https://example.org/pull/1"

# guessed: the version check, patch.py:41, lets it through: 2.11.
# To verify: PG201 and PG202 say where this is not so
applies_to = "==2.11.0"

# guessed: assigned at patch.py:42. To verify, run the gate: PG207 names extra replacements, PG209 missing ones
targets = [
    "torch._inductor.ir.StorageBox.should_realize_on_reuse",
]""",
    )


def test_a_bare_file_gets_a_manifest_of_its_own_name(command, folder):
    (folder / "mine.py").write_text("ready = True\n")
    assert command("init", "mine.py")[0] == 0
    assert load_claims(folder / "mine.toml") == Claims(title="mine")


def test_nothing_is_replaced_unless_told(command, folder):
    (folder / "mine.py").write_text('"""Mine."""\nready = True\n')
    (folder / "mine.toml").write_text("not TOML at all")
    status, _, wrong = command("init", "mine.py")
    assert (status, (folder / "mine.toml").read_text()) == (2, "not TOML at all")
    assert_expected_inline(
        wrong,
        """\
error: mine.toml: already exists
  got:  a file that would be replaced
  next: the same command with --force replaces it
""",
    )
    status, printed, _ = command("init", "mine.py", "--force")
    assert (status, printed.splitlines()[0]) == (0, "replaced mine.toml")
    assert load_patch(folder / "mine.py").claims.title == "Mine"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("none.py", None, "error: none.py: no such patch"),
        ("mine.txt", "", "error: mine.txt: not a patch"),
        ("mine.py", "x = (\n", "error: mine.py:1: not readable as Python"),
        ("deep.py", "(" * 5000, "error: deep.py:1: not readable as Python"),
        ("null.py", "x = 1\0", "error: null.py:1: not readable as Python"),
    ],
)
def test_bad_input_is_reported_by_its_place(command, folder, name, text, told):
    if text is not None:
        (folder / name).write_text(text)
    status, printed, wrong = command("init", name)
    assert (status, printed, wrong.splitlines()[0]) == (2, "", told)
    assert not list(folder.glob("*.toml"))


def test_a_folder_that_cannot_be_written_is_reported(command, folder, monkeypatch):
    (folder / "mine.py").write_text("ready = True\n")

    def refuse(path, text):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("patchgate.cli.init.write_atomically", refuse)
    assert command("init", "mine.py")[2].splitlines() == [
        "error: mine.toml: cannot be written",
        "  got:  Permission denied",
        "  next: make room there, or the right to write",
    ]


@pytest.fixture
def repository(folder):
    (folder / ".git").mkdir()
    (folder / "patches" / "mine").mkdir(parents=True)
    (folder / "patches" / "mine" / "patch.py").write_text("ready = True\n")
    (folder / "two words").mkdir()
    for path in ("patches/other.py", "two words/mine.py"):
        (folder / path).write_text("ready = True\n")
    return folder


@pytest.mark.parametrize(
    ("patch", "watched"),
    [
        ("patches/mine", "patches/mine/**"),
        ("patches/other.py", "patches/other.*"),
        ("two words/mine.py", "two words/mine.*"),
    ],
)
def test_the_workflows_call_ours_for_the_patch(command, repository, patch, watched):
    status, printed, _ = command("init", patch, "--workflow", f"them/gate@{OLD}")
    assert status == 0
    words = [line.partition(" ")[0] for line in printed.splitlines()]
    assert words == ["wrote", "wrote", "wrote", "patchgate.toml:", ".gitignore:", "next:", "then:"]
    manifest = f"{patch}/patch.toml" if watched.endswith("**") else f"{patch[:-3]}.toml"
    assert printed.splitlines()[-1] == (
        f"then: git add .github .gitignore patchgate.toml {shlex.quote(manifest)}"
    )
    gate, comment = (
        yaml.safe_load((repository / ".github" / "workflows" / f"patchgate{name}.yml").read_text())
        for name in ("", "-comment")
    )
    assert gate["jobs"]["gate"]["uses"] == f"them/gate/.github/workflows/gate.yml@{OLD}"
    assert "with" not in gate["jobs"]["gate"]  # all patches of the table
    assert gate[True]["pull_request"]["paths"] == [
        watched,
        "patchgate.toml",
        "patchgate-golden/**",
        ".github/workflows/patchgate.yml",
    ]
    assert comment["jobs"]["comment"]["uses"] == f"them/gate/.github/workflows/comment.yml@{OLD}"
    assert comment[True]["workflow_run"]["workflows"] == [gate["name"]]


def test_a_workflow_judges_after_an_edit_of_what_the_patch_imports(command, repository):
    (repository / "pyproject.toml").write_text("[tool.patchgate]\ngolden = 'facts'\n")
    for path, text in {
        "package/__init__.py": "",
        "package/mine.py": "from package import cost\nfrom .below import more\n",
        "package/cost.py": "from package.table import entries\n",
        "package/table.py": "entries = {}\n",
        "package/other.py": "",
        "package/below.py": "more = 1\n",
    }.items():
        (repository / path).parent.mkdir(exist_ok=True)
        (repository / path).write_text(text)
    assert command("init", "package/mine.py", "--workflow", f"them/gate@{OLD}")[0] == 0
    gate = yaml.safe_load((repository / ".github" / "workflows" / "patchgate.yml").read_text())
    assert gate[True]["pull_request"]["paths"] == [
        "package/mine.*",
        "package/__init__.py",
        "package/below.py",
        "package/cost.py",
        "package/table.py",
        "pyproject.toml",
        "facts/**",
        ".github/workflows/patchgate.yml",
    ]


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("table", [".", "engine"])
def test_a_second_patch_is_judged_too_and_the_first_still_is(command, repository, table, force):
    (repository / "engine").mkdir()
    (repository / table / "patchgate.toml").write_text("patches = [\n    'one.py'\n]\n")
    for name in ("one.py", "two.py"):
        (repository / table / name).write_text("ready = True\n")
    first, second = (str(Path(table, name)) for name in ("one.py", "two.py"))
    assert command("init", first, "--workflow", f"them/gate@{OLD}")[0] == 0
    workflow = repository / ".github" / "workflows" / "patchgate.yml"
    workflow.write_text(workflow.read_text() + "# mine\n")
    status, printed, _ = command("init", second, "--workflow", f"them/gate@{NEW}", *force)
    done = "replaced" if force else "added to"
    assert (status, f"{done} .github/workflows/patchgate.yml\n" in printed) == (0, True)
    gate = yaml.safe_load(workflow.read_text())
    assert {str(Path(table, f"{name}.*")) for name in ("one", "two")} < {
        *gate[True]["pull_request"]["paths"]
    }
    if table == ".":
        assert "with" not in gate["jobs"]["gate"]
    else:  # the table of a folder is not the one that a job finds
        assert gate["jobs"]["gate"]["with"]["patches"].split() == [first, second]
    assert gate["jobs"]["gate"]["uses"].endswith(NEW if force else OLD)
    assert (workflow.read_text().endswith("# mine\n")) is not bool(force)
    project = find_project(repository / table)
    assert [path.name for path in project.patch_paths()] == ["one.py", "two.py"]


def test_no_workflow_is_written_through_a_link_out_of_the_repository(
    command, repository, tmp_path_factory
):
    outside = tmp_path_factory.mktemp("outside")
    (repository / ".github").symlink_to(outside)
    status, _, said = command("init", "patches/mine", "--workflow", f"them/gate@{OLD}")
    assert (status, "a link out of the repository" in said) == (2, True)
    assert not list(outside.iterdir())


def test_workflows_are_written_beside_a_manifest_that_is_kept_even_by_force(command, repository):
    manifest = repository / "patches" / "mine" / "patch.toml"
    manifest.write_text('title = "read and mended"')
    status, printed, _ = command("init", "patches/mine", "--workflow", f"them/gate@{OLD}")
    assert (status, printed.splitlines()[:2]) == (
        0,
        ["kept patches/mine/patch.toml", "wrote .github/workflows/patchgate.yml"],
    )
    status, printed, _ = command(
        "init", "patches/mine", "--workflow", f"them/gate@{NEW}", "--force"
    )
    assert (status, printed.splitlines()[1]) == (0, "replaced .github/workflows/patchgate.yml")
    assert manifest.read_text() == 'title = "read and mended"'
    assert command("init", "patches/mine", "--force")[0] == 0
    assert "guessed" in manifest.read_text()


def test_nothing_is_written_where_one_file_is_there_already(command, repository):
    (repository / ".github" / "workflows").mkdir(parents=True)
    (repository / ".github" / "workflows" / "patchgate.yml").write_text("theirs")
    status, _, wrong = command("init", "patches/mine", "--workflow", f"them/gate@{OLD}")
    assert (status, wrong.splitlines()[0]) == (
        2,
        "error: .github/workflows/patchgate.yml: already exists, and has no line `paths: [...]`",
    )
    assert "add this patch to its `patches` and `paths`, and init it without --workflow" in wrong
    assert not (repository / "patches" / "mine" / "patch.toml").exists()


@pytest.mark.parametrize(
    ("patch", "called", "told"),
    [
        ("patches/mine", "them/gate", "error: --workflow: not OWNER/REPO@COMMIT"),
        (
            "patches/mine",
            "OWNER/patchgate@COMMIT",
            "error: --workflow: not a repository and a whole commit",
        ),
        (
            "patches/mine",
            f"OWNER/patchgate@{OLD}",
            "error: --workflow: not a repository and a whole commit",
        ),
        (
            "patches/mine",
            "them/gate@0123abc",
            "error: --workflow: not a repository and a whole commit",
        ),
        ("patches/mine", "them/gate@a b", "error: --workflow: not OWNER/REPO@COMMIT"),
        ("a+b", f"them/gate@{OLD}", "error: a+b: cannot be named in a workflow"),
    ],
)
def test_what_a_workflow_cannot_say_is_refused(command, repository, patch, called, told):
    shutil.copytree(repository / "patches" / "mine", repository / "a+b")
    status, printed, wrong = command("init", patch, "--workflow", called)
    assert (status, printed, wrong.splitlines()[0]) == (2, "", told)


def test_a_workflow_needs_a_repository(command, folder):
    (folder / "mine.py").write_text("ready = True\n")
    told = command("init", "mine.py", "--workflow", f"them/gate@{OLD}")[2].splitlines()[0]
    assert told == "error: mine.py: nowhere to put a workflow"


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.characters(exclude_categories=["Cs"])),
)
def test_whatever_a_patch_says_the_manifest_can_be_read(folder, title, name):
    told, effect = Inferred(value=title, line=1), Inferred(value=f"config {title}", line=1)
    target = Inferred(value=f"torch.a{title}", line=1)
    text = manifest_text(
        InferredClaims(title=told, source=told, targets=(target,), scope=told, effects=(effect,)),
        "patch.py",
        name,
        "nox",
        ["2.11.0"],
    )
    (folder / "patch.toml").write_text(text, encoding="utf-8", newline="")
    claims = load_claims(folder / "patch.toml")
    assert (claims.title, claims.targets, claims.scope, claims.effects) == (
        title or name or folder.name,
        (f"torch.a{title}",),
        title,
        (f"config {title}",),
    )


def test_a_patch_is_read_as_python_reads_it(command, folder):
    (folder / "marked.py").write_bytes(b'\xef\xbb\xbf"""Mine."""\nready = True\n')
    assert command("init", "marked.py")[0] == 0
    assert load_claims(folder / "marked.toml").title == "Mine"
    (folder / "uncoded.py").write_bytes(b"# one\n# gr\xfc\xdfe\n")
    code, _, err = command("init", "uncoded.py")
    assert (code, err.splitlines()[0]) == (2, "error: uncoded.py:2: not readable as Python")


@pytest.fixture
def package(repository):
    """A repository with a package below src, and a patch in it."""
    for name in (
        "src/engine/__init__.py",
        "src/engine/patches/__init__.py",
        "src/engine/patches/one.py",
    ):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text("ready = True\n")
    (repository / "pyproject.toml").write_text("[project]\nname = 'engine'")
    return repository


def test_the_project_gets_a_table_and_its_results_are_ignored(command, package):
    (package / ".gitignore").write_text("build/")
    status, printed, _ = command("init", "src/engine/patches/one.py")
    assert status == 0
    assert_expected_inline(
        printed,
        """\
wrote src/engine/patches/one.toml
pyproject.toml: a table with this patch; every other key has a default (patchgate explain project)
  path = ["src"]: workloads can import the package `engine` from there
.gitignore: results go below .patchgate/
next: read the comments, then: patchgate gate src/engine/patches/one.py
""",
    )
    assert (package / ".gitignore").read_text() == "build/\n.patchgate/\n"
    project = find_project(package / "src")
    assert (project.patch_paths(), project.path) == (
        [package / "src/engine/patches/one.py"],
        ("src",),
    )
    again = command("init", "patches/other.py")[1].splitlines()
    assert again[1:-1] == ["pyproject.toml: `patches` has this patch too"]
    assert find_project(package / "src").patches == (
        "src/engine/patches/one.py",
        "patches/other.py",
    )


def test_a_table_that_has_the_patch_is_left_alone(command, package):
    table = package / "patchgate.toml"
    table.write_text("patches = ['src/engine/*/*.py']\n")
    (package / ".gitignore").write_text("/.patchgate/\n")
    printed = command("init", "src/engine/patches/one.py")[1].splitlines()
    assert [line.partition(" ")[0] for line in printed] == ["wrote", "next:"]
    assert table.read_text() == "patches = ['src/engine/*/*.py']\n"


def test_a_folder_that_is_no_project_gets_no_table(command, folder):
    (folder / "mine.py").write_text("ready = True\n")
    command("init", "mine.py")
    assert {path.name for path in folder.iterdir()} == {"mine.py", "mine.toml"}
