"""What a pipeline's machine asks patchgate for, what it keeps, and the exit code that it ends with."""

import os
import subprocess

import pytest

from patchgate.model.paths import ROOT

# Stands for patchgate and uv: notes how it was called; the first patch says how it ends.
STAND_IN = """\
#!/bin/bash
(IFS="|"; echo "$(basename "$0")|$*") >>"$NOTES"
[ "$1" != gate ] || { mkdir -p .patchgate/gate/one && echo "$*" >.patchgate/gate/one/verdicts.json; }
[ "$1" != sweep ] || { mkdir -p .patchgate/sweep && touch .patchgate/sweep/{history.sqlite,verdicts.json,report.html}; }
case "$*" in *red*) exit 1 ;; *weary*) exit 4 ;; *uninstallable*) exit 3 ;; esac
"""


@pytest.fixture
def judge(tmp_path):
    """Judges patches: the exit code, the calls, and the names of what was kept."""
    (tmp_path / "workspace").mkdir()
    for name in ("patchgate", "uv"):
        (tmp_path / name).write_text(STAND_IN)
        (tmp_path / name).chmod(0o755)

    def run(session, **told):
        told |= {"WORKSPACE": "workspace", "RESULTS": str(tmp_path / "results"), "SESSION": session}
        told |= {"NOTES": str(tmp_path / "notes"), "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        ended = subprocess.run(["bash", str(ROOT / "ci" / "judge.sh")], cwd=tmp_path, env=told)
        kept = sorted(path.relative_to(tmp_path / "results").as_posix() for path in (tmp_path / "results").rglob("*.*"))
        return ended.returncode, (tmp_path / "notes").read_text().splitlines(), kept

    return run


@pytest.mark.parametrize(("patches", "code"), [("", 0), ("fine\nred", 1), ("weary", 4), ("two words\n--row=x", 0)])
def test_the_patches_are_judged_at_once_and_the_answer_is_patchgate_s(judge, patches, code):
    status, calls, kept = judge("gate", PATCHES=patches, TORCH="2.11.0", ARGUMENTS="--nightly\n-n 1")
    assert (status, kept) == (code, ["gate/one/verdicts.json"])
    expected = ["patchgate", "gate", "--nightly", "-n 1", "--torch", "2.11.0", "--", *patches.splitlines()]
    assert [call.split("|") for call in calls] == [expected]


def test_a_night_keeps_its_history_and_a_nightly_torch_has_an_environment(judge):
    index = {"PATCHGATE_NIGHTLY_INDEX": "there"}
    status, calls, kept = judge("sweep", TORCH="nightly", **index)
    assert (status, kept) == (0, ["history.sqlite", "report.html", "verdicts.json"])
    assert [call.split("|")[:2] for call in calls] == [
        ["uv", "venv"],
        ["uv", "pip"],
        ["uv", "pip"],
        ["patchgate", "sweep"],
    ]
    assert "--index-url|there|torch" in calls[2]
    assert calls[3].endswith("results.nightly/bin/python|--")


def test_a_nightly_torch_that_cannot_be_installed_is_the_machine_s_trouble(judge):
    status, calls, _ = judge("sweep", TORCH="nightly", PATCHGATE_NIGHTLY_INDEX="uninstallable")
    assert (status, [call.split("|")[0] for call in calls]) == (4, ["uv", "uv", "uv"])
