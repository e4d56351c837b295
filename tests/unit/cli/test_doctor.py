"""`patchgate doctor` names what is missing, and the command that mends it; `demo` is a gate."""

import re
from types import SimpleNamespace

import pytest

from patchgate.cli.gate import gate
from patchgate.cli.main import cli
from patchgate.inputs.patch import load_patch
from patchgate.runs import doctor


@pytest.fixture(autouse=True)
def _a_machine_that_has_everything(monkeypatch):
    """A sandbox that answers at once, and 64 GiB of free disk."""
    monkeypatch.setattr(doctor, "_SANDBOX", "print()")
    usage = SimpleNamespace(free=64 << 30)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage)


def test_a_machine_that_has_everything_is_well(command):
    status, printed, _ = command("doctor")
    assert status == 0
    assert "MISSING" not in printed
    for name in ("Python: 3.", "C++ compiler: ", "sandbox: complete", "torch 2.", "GiB", "GPU: "):
        assert name in printed


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("_SANDBOX", "print('Landlock')", "note    sandbox: without Landlock"),
        ("_RESULTS", 1 << 60, "MISSING disk for results: "),
        ("_GPUS", ("echo", "NVIDIA H100, 570.1, 81559 MiB"), "GPU: NVIDIA H100, 570.1, 81559 MiB"),
    ],
)
def test_what_is_missing_is_said_with_what_mends_it(command, monkeypatch, name, value, told):
    monkeypatch.setattr(doctor, name, value)
    status, printed, _ = command("doctor")
    assert told in printed
    assert status == (4 if "MISSING" in told else 0)
    assert ("next: " in printed) is (name != "_GPUS")


def test_a_disk_that_is_too_small_for_torch_is_named(command, monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    monkeypatch.setattr(doctor, "cached_home", lambda *_: doctor.PACKAGE / "absent")
    status, printed, _ = command("doctor")
    assert status == 4
    assert "MISSING disk for torch: 1 GiB free" in printed


def test_without_a_compiler_no_gate_can_be_run(command, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    status, printed, _ = command("doctor")
    assert status == 4
    assert "MISSING C++ compiler: no no-such-compiler\n        next: apt-get install g++" in printed


def test_the_demo_judges_a_patch_that_comes_with_patchgate(monkeypatch, command):
    given = {}
    monkeypatch.setattr(gate, "callback", lambda **options: given.update(options))
    status, _, said = command("demo")
    assert status == 0
    assert given["torches"] == ("2.11.0",)
    assert load_patch(given["patches"][0]).id == "vllm-42686"
    assert "next: patchgate gate path/to/your/patch.py" in said


def test_every_command_is_in_one_group_of_the_help(command):
    printed = command("--help")[1]
    for name in cli.commands or cli.list_commands(None):
        assert len(re.findall(rf"\n  {name} +[A-Z]", printed)) == 1, name
    assert "Judge patches:\n  gate " in printed
    assert "completes commands" in " ".join(printed.split())
