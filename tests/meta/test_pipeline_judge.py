"""What a pipeline's machine keeps of several patches, and the exit code that it ends with."""

import os
import subprocess

import pytest

from patchgate.model.paths import ROOT

# Stands for `python -m nox`: the patch's name says how it ends, and whether it came as far as verdicts.
NOX = """\
#!/bin/bash
name=$(basename "${@: -1}")
case "$name" in uninstallable*) exit 1 ;; misused*) exit 2 ;; esac
mkdir -p .patchgate/gate && echo "$name" >.patchgate/gate/verdicts.json
case "$name" in red*) exit 1 ;; tired*) exit 4 ;; esac
"""


@pytest.fixture
def judge(tmp_path):
    """Judges patches, and tells the exit code and what was kept of each."""
    (tmp_path / "python").write_text(NOX)
    (tmp_path / "python").chmod(0o755)

    def run(*patches):
        told = {
            "CHECKOUT": ".",
            "WORKSPACE": "w",
            "RESULTS": "results",
            "SESSION": "gate",
            "PATCHES": " ".join(patches),
        }
        environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", **told}
        ended = subprocess.run(["bash", str(ROOT / "ci" / "judge.sh")], cwd=tmp_path, env=environment)
        kept = (tmp_path / "results").glob("*/verdicts.json")
        return ended.returncode, {path.parent.name: path.read_text().strip() for path in kept}

    return run


@pytest.mark.parametrize(
    ("patches", "code"),
    [
        (["fine"], 0),
        (["fine", "tired"], 4),
        (["tired", "red", "tired2"], 1),
        (["uninstallable"], 4),
        (["fine", "uninstallable"], 4),
        (["red", "uninstallable"], 1),
        (["misused"], 2),
    ],
)
def test_a_patch_keeps_its_own_results_and_red_is_only_what_has_verdicts(judge, patches, code):
    judged = [patch for patch in patches if not patch.startswith(("uninstallable", "misused"))]
    assert judge(*patches) == (code, {patch: patch for patch in judged})
