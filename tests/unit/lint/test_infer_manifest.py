"""A patch's text suggests some claims and not others."""

import ast

import pytest

from patchgate.lint.index.release import load, releases
from patchgate.lint.infer_manifest import infer_claims, infer_claims_of_diff, manifest_text

HEAD = "import torch\nfrom packaging.version import Version\nfrom torch._inductor.ir import StorageBox\n"
TARGET = "torch._inductor.ir.StorageBox.should_realize_on_reuse"
ASSIGNED = "StorageBox.should_realize_on_reuse = lambda self, *rest: False\n"


@pytest.fixture(scope="module")
def guess():
    known = [load(version) for version in releases()]
    return lambda source: infer_claims(source, ast.parse(source), known)


def values(guesses):
    return [each.value for each in guesses]


@pytest.mark.parametrize(
    ("line", "targets"),
    [
        (ASSIGNED, [TARGET]),
        ("setattr(StorageBox, 'should_realize_on_reuse', print)\n", [TARGET]),
        ("import torch._inductor.compile_fx as c\nc.post_grad_passes = print\n", [
            "torch._inductor.compile_fx.post_grad_passes"]),
        # A function of the same name hides the module: the text says what was meant.
        ("import torch._inductor.standalone_compile\ntorch._inductor.standalone_compile.FakeTensorMode = 1\n", [
            "torch._inductor.standalone_compile.FakeTensorMode"]),
        ("StorageBox.should_realize_on_reuse\n", []),
        ("mine = StorageBox\ndef f():\n    pass\nf.original = 1\n", []),
        ("torch._inductor.config.max_fusion_size = 1\n", []),
        # A name that is nowhere in torch is the patch's own; one that a release has already is not.
        (ASSIGNED + "StorageBox.original = 1\ntorch.nn.Module.original = 1\n", [TARGET]),
        ("StorageBox.__getattribute__ = StorageBox.__instancecheck__ = print\n", [
            "torch._inductor.ir.StorageBox.__getattribute__", "torch._inductor.ir.StorageBox.__instancecheck__"]),
        ("torch.nn.Module.__getattr__ = print\n", ["torch.nn.modules.module.Module.__getattr__"]),
        ("torch.compiler.nested_compile_region = print\n", ["torch.compiler.nested_compile_region"]),
        # A check that is not followed here may let it run.
        (f"if mine(torch.__version__):\n    {ASSIGNED}", [TARGET]),
    ],
)  # fmt: skip
def test_targets_are_what_is_assigned_below_torch(guess, line, targets):
    assert values(guess(HEAD + line).targets) == targets


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ('if Version(torch.__version__) >= Version("2.12"):\n    ', ">=2.12"),
        ("if Version(torch.__version__).release[:2] == (2, 11):\n    ", ">=2.11.0.dev0,<2.12"),
        ('if torch.__version__.startswith("2.11.0"):\n    ', ">=2.11.0.dev0,<2.11.1"),
        (
            "if tuple(int(part) for part in torch.__version__.split('.')[:2]) >= (2, 12):\n    ",
            ">=2.12.0.dev0",
        ),
        (
            "if float('.'.join(torch.__version__.split('.')[:2])) >= 2.7:\n    ",
            ">=2.7.0.dev0,<2.10",
        ),
        ('if hasattr(StorageBox, "realize"):\n    ', None),
        ("", None),
    ],
)
def test_the_releases_are_those_of_the_version_check(guess, check, expected):
    found = guess(HEAD + check + ASSIGNED).applies_to
    assert (found and found.value) == expected


def test_a_check_that_is_a_part_of_a_test_is_cited_where_it_stands(guess):
    check = 'if torch.__version__ >= "2.9" and os.environ.get("SCORE"):\n    '
    found = guess(f"import os\n{HEAD}{check}{ASSIGNED}").applies_to
    assert (found.value, found.line) == (">=2.9", HEAD.count("\n") + 2)


def test_what_names_a_release_has_is_no_version_check(guess):
    """The class came with 2.10; the check has no lower bound, and the gate would find that out."""
    late = "from torch._dynamo.convert_frame import GraphCaptureOutput\n    GraphCaptureOutput.get_runtime_env = print\n"
    found = guess(f'{HEAD}if Version(torch.__version__) < Version("2.12.0.dev0"):\n    {late}')
    assert found.applies_to.value == "<2.12"


def test_two_stretches_of_releases_are_no_claim(guess):
    found = guess(
        f'{HEAD}if Version(torch.__version__).public in ("2.9.0", "2.12.1"):\n    {ASSIGNED}'
    )
    assert (found.applies_to, found.holds_on) == (None, ("2.9.0", "2.12.1"))


def test_options_and_variables_that_are_set_are_effects(guess):
    found = guess(
        "import os\nimport torch._inductor.config as config\nconfig.compile_threads = 1\nx = config.max_fusion_size\n"
        'os.environ["A"] = "1"\nos.environ.setdefault("B", "1")\nx = os.environ["C"]\n'
        "with config.patch(max_autotune=True):\n    pass\n"
    )
    assert values(found.effects) == [
        "config torch._inductor.config.compile_threads",
        # Only an assignment is left for a compile in another thread to miss.
        "thread-local torch._inductor.config.compile_threads",
        "environment A",
        "environment B",
        "config torch._inductor.config.max_autotune",
    ]
    assert [each.line for each in found.effects] == [3, 3, 5, 6, 8]


def test_one_context_manager_is_the_scope_and_two_are_none(guess):
    head = f"{HEAD}import contextlib\n"
    one = "@contextlib.contextmanager\ndef first():\n    StorageBox.should_realize_on_reuse = print\n    yield\n"
    assert guess(head + one).scope.value == "first"
    by_another = one.replace("StorageBox.should_realize_on_reuse = print", "install()")
    assert guess(f"{head}def install():\n    {ASSIGNED}{by_another}").scope.value == "first"
    # The scope patches a name of the project's own.
    assert (
        guess(head + one.replace("StorageBox.should_realize_on_reuse", "model.load")).scope is None
    )
    assert guess(head + one + one.replace("first", "second")).scope is None
    assert guess("def first():\n    yield\n").scope is None


def test_an_entry_of_a_table_has_no_name_yet(guess):
    found = guess(
        "import torch\nfrom torch._inductor import decomposition\ndecomposition.decompositions[1] = print\n"
    )
    assert (found.unnamed, found.targets) == ((3,), ())
    text = manifest_text(found, "mine.py", "mine", "patchgate gate mine.py", [])
    assert "# mine.py:3 writes into a table of torch: such an entry has a name" in text
    assert "No name of torch is assigned" not in text


_WITHIN = 'if Version("2.11") <= Version(torch.__version__) < Version("2.12.1"):\n'


@pytest.mark.parametrize(
    "change",
    [
        "    decomposition.decompositions[torch.ops.aten.gelu.default] = print\n",
        "    decompositions[torch.ops.aten.gelu.default] = print\n",
        "    @lowering.register_lowering(torch.ops.aten.gelu.default)\n    def mine(x):\n        return x\n",
        "    lowering.register_lowering(torch.ops.aten.gelu.default)(print)\n",
    ],
)
def test_a_version_check_around_an_entry_of_a_table_gives_the_releases(guess, change):
    head = (
        f"{HEAD}from torch._inductor import decomposition, lowering\n"
        "from torch._inductor.decomposition import decompositions\n"
    )
    assert guess(f"{head}{_WITHIN}{change}").applies_to.value == ">=2.11,<2.12.1"
    # Another call below the check decides nothing.
    outside = change.replace("\n    ", "\n").lstrip()
    assert guess(f"{head}{_WITHIN}    print()\n{outside}").applies_to is None


@pytest.mark.parametrize(
    ("text", "title", "source"),
    [
        ('"""Does a thing. And more."""\n# see (https://example.org/pull/1).\n', "Does a thing", 2),
        ('"""\nDoes a thing.\n"""\n', "Does a thing", None),
        ("x = 1\n", None, None),
        (
            "# Licence: https://example.org/licenses/LICENSE-2.0\n# https://example.org/pull/1\n",
            None,
            2,
        ),
        ("# https://example.org/docs/compile.html\n", None, None),
    ],
)
def test_the_title_is_the_first_sentence_and_the_source_the_first_address(
    guess, text, title, source
):
    found = guess(text)
    assert (found.title and found.title.value, found.source and found.source.line) == (
        title,
        source,
    )
    assert not source or found.source.value == "https://example.org/pull/1"


def test_what_changes_torch_and_nothing_calls_is_what_the_project_calls(guess):
    install = f"def install(scale=1):\n    {ASSIGNED}"
    assert values(guess(HEAD + install).apply) == ["install"]
    assert values(guess(f"{HEAD}{install}def install_all():\n    install()\n").apply) == [
        "install_all"
    ]
    assert guess(f"{HEAD}{install}install()\n").apply == ()
    assert (
        guess(f"import contextlib\n{HEAD}@contextlib.contextmanager\n{install}    yield\n").apply
        == ()
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (ASSIGNED, "No version check was found"),
        (f"if mine(torch.__version__) > 2:\n    {ASSIGNED}", "p.py:4 could not be followed"),
        (
            f"{ASSIGNED}if Version(torch.__version__) < Version('2.8'):\n    x = 1\n",
            "p.py:5 gives no one range",
        ),
    ],
)
def test_a_version_check_that_is_no_claim_is_named(guess, text, said):
    [line] = [
        line
        for line in manifest_text(guess(HEAD + text), "p.py", "p", "x", ()).splitlines()
        if "PG211" in line
    ]
    assert said in line


def test_a_check_by_a_helper_of_the_project_is_followed(tmp_path):
    (tmp_path / "versions.py").write_text(
        "import torch\nfrom packaging.version import Version\n\nRELEASE = Version(torch.__version__).release\n"
    )
    file = tmp_path / "patch.py"
    file.write_text(f"{HEAD}from versions import RELEASE\n\nif RELEASE < (2, 12):\n    {ASSIGNED}")
    found = infer_claims(
        file.read_text(), ast.parse(file.read_text()), [load("2.11.0"), load("2.12.1")], file
    )
    assert found.applies_to.value.startswith("<2.12")


def test_a_diff_is_reported_by_what_stands_before_it():
    text = "From 1\nDate: now\nSubject: [PATCH 1/2] Realise less\n\nhttps://example.org/pull/1\n--- a/torch/x.py\n-x\n"
    found = infer_claims_of_diff(text)
    assert (found.title.value, found.title.line, found.source.line) == ("Realise less", 3, 5)
    assert infer_claims_of_diff("--- a/torch/x.py\n+# https://example.org\n").title is None
    assert infer_claims_of_diff("--- a/torch/x.py\n+# https://example.org\n").source is None


def test_targets_of_different_branches_hold_by_release_in_the_manifest(guess):
    later = "import torch._inductor.scheduler as s\ns.Scheduler.can_fuse = print"
    check = "if Version(torch.__version__) >= Version('2.12'):"
    claims = guess(HEAD + ASSIGNED + f"{check}\n    {later.replace(chr(10), '; ')}\n")
    assert [(each.value, each.applies_to) for each in claims.targets] == [
        (TARGET, ""),
        ("torch._inductor.scheduler.Scheduler.can_fuse", ">=2.12.0"),
    ]
    text = manifest_text(claims, "mine.py", "mine", "patchgate gate mine.py", releases())
    assert (
        '    { names = ["torch._inductor.scheduler.Scheduler.can_fuse"], applies_to = ">=2.12.0" },'
        in text
    )


def test_a_function_that_nothing_calls_installs_only_what_no_import_installs(guess):
    function = "def other():\n    torch.add = print\n"
    assert values(guess(HEAD + function).apply) == ["other"]
    dead = guess(HEAD + ASSIGNED + function)
    assert (values(dead.apply), values(dead.targets)) == ([], [TARGET])


def test_what_an_imported_file_of_the_project_replaces_is_a_target(tmp_path):
    (tmp_path / "streams.py").write_text(
        "import torch\n\ntorch.cuda.set_stream = print\n\n\ndef other():\n    torch.add = print\n"
    )
    file = tmp_path / "patch.py"
    file.write_text(f"{HEAD}import streams\n{ASSIGNED}")

    def found(text):
        tree = ast.parse(text)
        return infer_claims(text, tree, [load("2.11.0"), load("2.12.1")], file)

    claims = found(file.read_text())
    assert [(each.value, each.file) for each in claims.targets] == [
        (TARGET, ""),
        ("torch.cuda.set_stream", "streams.py"),
    ]
    assert "what assigns it: streams.py:3." in manifest_text(
        claims, "patch.py", "mine", "patchgate gate patch.py", releases()
    )
    assert values(found(f"{HEAD}{ASSIGNED}def late():\n    import streams\n").targets) == [TARGET]
