"""The commands of the README, as they are typed, in a folder that has what they name."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from patchgate.model.paths import ROOT

PATCH = """import torch._inductor.config as config
from torch._inductor.ir import StorageBox

_original = StorageBox.should_realize_on_reuse


def should_realize_on_reuse(self, users):
    return _original(self, users)


StorageBox.should_realize_on_reuse = should_realize_on_reuse
"""
TYPED = re.findall(r"^\$ (.+?)(?: +#.*)?$", (ROOT / "README.md").read_text("utf-8"), re.M)
OWN = [command for command in TYPED if command.startswith("patchgate ")]
# Minutes with torch; what they cost at least is looked at in tests/torch.
WITH_TORCH = ("patchgate gate", "patchgate demo")


@pytest.fixture
def project(tmp_path):
    """A project with the package that README names."""
    package = tmp_path / "path" / "to" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "patch.py").write_text(PATCH)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\nversion = "1"\n')
    return tmp_path


def typed(command, folder, *more):
    words = [sys.executable, "-m", *shlex.split(command), *more]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("CI", None)
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_readme_has_the_commands_that_are_tried():
    assert len(OWN) >= 6
    assert [command for command in TYPED if command not in OWN] == [
        'python3 -m pip install "nox[uv]" && python3 -m nox -s gate -- fixtures/patches/vllm-42686',
        'python3 -m pip install "nox[uv]" && python3 -m nox -s tests',
        "pip install path/to/checkout/of/patchgate",
    ]


@pytest.mark.parametrize(
    "command", [command for command in OWN if not command.startswith(WITH_TORCH)]
)
def test_a_command_without_torch_does_what_is_said(project, command):
    done = typed(command, project)
    assert "Traceback" not in done.stderr
    # 1 and 4 are findings: a private name that a release lacks, a part that this machine lacks.
    assert done.returncode in {"lint": (0, 1), "doctor": (0, 4)}.get(command.split()[1], (0,)), (
        done.stdout + done.stderr
    )
    assert done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("command", [command for command in OWN if command.startswith(WITH_TORCH)])
def test_a_command_with_torch_ends_with_the_answer(project, command):
    row = f"2.11.0={os.environ['PATCHGATE_ROW_2_11_0']}"
    narrow = ("--workload", "pointwise") if command.startswith("patchgate gate") else ()
    done = typed(command, project, "--row", row, *narrow)
    assert done.returncode == (0 if narrow else 1), done.stdout + done.stderr
    assert ("QUICK LOOK" if narrow else "3 causes") in done.stdout
