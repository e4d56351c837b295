"""One file with several gated patches: where each is, and what is left of the file when it stands
alone.
"""

import sys
from pathlib import Path

import pytest

from patchgate.cli import main as cli
from patchgate.cli import parts as parts_command
from patchgate.inputs.patch import load_patch
from patchgate.inputs.split_patches import (
    chosen_installer,
    find_parts,
    source_of_part,
    uncalled_installers,
)
from patchgate.model.errors import UsageError
from patchgate.model.paths import ROOT

THREE = ROOT / "fixtures" / "patches" / "three-in-one"
TEXT = (THREE / "patch.py").read_text("utf-8")


def test_each_condition_that_writes_into_torch_is_a_part():
    assert [part.name for part in find_parts(TEXT)] == [
        "should_realize_on_reuse",
        "can_fuse",
        "generate_return",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n\ntorch.a.b = None\ntorch.a.c = None\n",
        "import torch\n\nif True:\n    here = torch.a\n",
        "import torch\n\n\ndef f():\n    torch.a = 1\n\n\nf()\n",
        "import torch\n\nif __name__ == '__main__':\n    torch.a = 1\n",
        "def f():\n    pass\n\n\nif True:\n    f.original = 1\n",
    ],
    ids=[
        "no condition",
        "nothing written",
        "no condition in what is called",
        "a script",
        "of its own",
    ],
)
def test_what_is_not_behind_a_condition_or_not_torch_s_is_no_part(text):
    assert find_parts(text) == []


def test_an_attribute_by_name_an_entry_and_the_same_name_again():
    conditions = (
        "if a.x:\n    setattr(a.b, 'c', 1)\nif a.y:\n    a.table['d'] = 1\nif a.z:\n    "
        "setattr(a.b, 'c', 2)\n"
    )
    text = f"import a\n\n{conditions}"
    assert [part.name for part in find_parts(text)] == ["c", "entry", "c-7"]


def test_a_part_alone_keeps_its_lines_and_loses_those_of_the_others():
    parts = find_parts(TEXT)
    alone = source_of_part(TEXT, parts[1], parts)
    assert len(alone.splitlines()) == len(TEXT.splitlines())
    assert [part.name for part in find_parts(alone)] == ["can_fuse"]
    assert find_parts(alone) == [parts[1]]
    assert "def count_returns" not in alone
    assert "def count_returns" in source_of_part(TEXT, parts[2], parts)


def test_every_part_is_judged_beside_the_others_and_then_all(monkeypatch, tmp_path, capsys):
    judged = []

    def gate(arguments, folder):
        judged.append((arguments, folder.name))
        return 1 if "can_fuse" in arguments[0] else 0

    monkeypatch.setattr(parts_command, "_gate", gate)
    told = ["parts", str(THREE), "--row", "2.11.0=python", "--folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["patchgate", *told])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert [name for _, name in judged] == [
        "should_realize_on_reuse",
        "can_fuse",
        "generate_return",
        "all",
    ]
    first, *_ = judged[0]
    assert first.count("--with") == 2
    assert first[-2:] == ["--row", "2.11.0=python"]
    claims = load_patch(tmp_path / "patches" / "can_fuse").claims
    assert claims.targets == ("torch._inductor.scheduler.Scheduler.can_fuse",)
    assert claims.applies_to is not None
    assert "can_fuse                                 exit code 1" in capsys.readouterr().out


def test_each_call_that_a_manifest_lists_is_a_part(monkeypatch, tmp_path):
    (tmp_path / "late.py").write_text("def first(): ...\ndef second(level): ...\n")
    (tmp_path / "late.toml").write_text(
        'apply = ["first", "second(\'a/b\')"]\ntargets = ["torch.a"]\nnumerics = "rounding"\n'
    )
    judged = []
    monkeypatch.setattr(
        parts_command,
        "_gate",
        lambda arguments, folder: judged.append((arguments, folder.name)) or 0,
    )
    patch = str(tmp_path / "late.py")
    monkeypatch.setattr(
        sys, "argv", ["patchgate", "parts", patch, "--folder", str(tmp_path / "parts")]
    )
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 0
    one, two = f"{patch}::first", f"{patch}::second('a/b')"
    assert [arguments for arguments, _ in judged] == [
        [one, "--with", two],
        [two, "--with", one],
        [patch],
    ]
    part = load_patch(Path(two))
    assert (part.claims.apply, part.claims.targets, part.claims.numerics.value) == (
        ("second('a/b')",),
        None,
        "rounding",
    )
    assert part.id == "late-second-a-b"
    assert load_patch(Path(patch)).claims.apply == ("first", "second('a/b')")


def test_a_part_that_is_no_call_is_refused(tmp_path):
    (tmp_path / "late.py").write_text("")
    with pytest.raises(UsageError, match="neither a function of the patch"):
        load_patch(Path(f"{tmp_path / 'late.py'}::install(torch)"))


def test_a_single_patch_is_not_parted(monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv", ["patchgate", "parts", str(ROOT / "fixtures" / "patches" / "harmless")]
    )
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "only one patch in this file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("decorator", "uncalled"),
    [
        ("", {"install": 8}),
        ("@functools.cache", {"install": 8}),
        ("@listed", {}),
        ("@listed(1)", {}),
    ],
)
def test_a_decorator_of_the_file_may_call_what_it_decorates(decorator, uncalled):
    text = "import functools\n\nimport torch\n\n\ndef listed(f): ...\n" + decorator
    assert uncalled_installers(text + "\ndef install():\n    torch.a = 1\n") == uncalled


SCOPE = (
    "class Scope:\n    def __init__({}): ...\n    def __enter__(self):\n        torch.a = 1\n"
    "    def __exit__(self, *error): ...\n"
)
ENTERS = "def use(x):\n    with Scope(device=None):\n        return x\n"
INSTALL, OTHER = "def install():\n    torch.a = 1\n", "def other():\n    torch.b = 1\n"


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        (INSTALL, ["install"]),
        (INSTALL + OTHER, ["install", "other"]),
        (INSTALL + "def uninstall():\n    torch.a = 0\n", ["install"]),
        ("def install():\n    table = torch.a.table\n    table[1] = 2\n", ["install"]),
        (INSTALL + "torch.b = 2\n", []),
        (INSTALL + OTHER + "if torch.c:\n    other()\n", []),
        ("import acme\ndef install():\n    acme.a = 1\n", []),
        (INSTALL + "if __name__ == '__main__':\n    torch.b = 2\n", ["install"]),
        (SCOPE.format("self"), ["Scope"]),
        (SCOPE.format("self, device"), []),
        (SCOPE.format("self, device") + ENTERS, ["Scope(device=None)"]),
        (SCOPE.format("self, device") + ENTERS.replace("None", "x"), []),
        (SCOPE.format("self") + INSTALL, ["install"]),
        (SCOPE.format("self").replace("torch.a", "self.a"), []),
    ],
)
def test_a_function_is_chosen_to_install_what_no_import_installs(text, chosen):
    assert [*chosen_installer(f"import torch\n{text}")] == chosen
