"""Test the commands that a pipeline's machine runs, the files that it keeps, and its exit code."""

import os
import subprocess

import pytest

from patchgate.model.paths import ROOT

# Stands for patchgate and uv: notes how and where it was called; the first patch says how it ends.
# A refusal writes no results, and a cruel patch has put a link among them.
STAND_IN = """\
#!/bin/bash
given=("$@"); for at in "${!given[@]}"; do [ "${given[at]}" != --folder ] || folder=${given[at+1]}; done
(IFS="|"; echo "$(basename "$0")|${*/#${folder:-none}/OWN}") >>"$NOTES"
pwd >>"$NOTES.$(basename "$0")"
case "$*" in *refused*) exit 2 ;; esac
[ "$1" != gate ] || { mkdir -p "$folder/one" && echo "$*" >"$folder/one/verdicts.json"; }
[ "$1" != sweep ] || mkdir -p "$folder/job"
[ "$1" != sweep ] || touch "$folder"/{history.sqlite,verdicts.json,report.html,job/x.json}
case "$*" in *cruel*) ln -s /etc/passwd "$folder/leaked.txt" ;; esac
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
        told |= {
            "NOTES": str(tmp_path / "notes"),
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        }
        ended = subprocess.run(["bash", str(ROOT / "ci" / "judge.sh")], cwd=tmp_path, env=told)
        kept = sorted(
            path.relative_to(tmp_path / "results").as_posix()
            for path in (tmp_path / "results").rglob("*.*")
        )
        return ended.returncode, (tmp_path / "notes").read_text().splitlines(), kept

    return run


@pytest.mark.parametrize(
    ("patches", "code"), [("", 0), ("fine\nred", 1), ("weary", 4), ("two words\n--row=x", 0)]
)
def test_the_patches_are_judged_at_once_and_the_answer_is_patchgate_s(judge, patches, code):
    status, calls, kept = judge(
        "gate", PATCHES=patches, TORCH="2.11.0", ARGUMENTS="--nightly\n-n 1"
    )
    assert (status, kept) == (code, ["gate/one/verdicts.json"])
    expected = [
        "patchgate",
        "gate",
        "--nightly",
        "-n 1",
        "--torch",
        "2.11.0",
        "--folder",
        "OWN",
        "--",
        *patches.splitlines(),
    ]
    assert [call.split("|") for call in calls] == [expected]


def test_a_night_keeps_its_history_and_a_nightly_torch_has_an_environment(judge, tmp_path):
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
    assert calls[3].endswith("/nightly/bin/python|--folder|OWN|--")
    places = (tmp_path / "notes.uv").read_text().splitlines()
    assert set(places) == {"/"}  # the workspace may hold settings of uv


def test_a_nightly_torch_that_cannot_be_installed_is_the_machine_s_trouble(judge):
    status, calls, _ = judge("sweep", TORCH="nightly", PATCHGATE_NIGHTLY_INDEX="uninstallable")
    assert (status, [call.split("|")[0] for call in calls]) == (4, ["uv", "uv", "uv"])


def test_results_that_the_repository_brings_along_are_not_kept(judge, tmp_path):
    forged = ("workspace/.patchgate/gate/a", "results/gate/b", "results/c")
    for folder in forged:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "verdicts.json").write_text("[]")
    assert judge("gate", PATCHES="refused")[::2] == (2, [])
    assert judge("gate", PATCHES="fine")[::2] == (0, ["gate/one/verdicts.json"])


def test_an_argument_leads_the_results_nowhere_else(judge):
    assert judge("gate", PATCHES="fine", ARGUMENTS="--folder=forged\n--folder\nforged")[2] == [
        "gate/one/verdicts.json"
    ]


def test_a_link_in_the_place_of_the_results_is_not_followed(judge, tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "kept.txt").write_text("theirs")
    (tmp_path / "results").symlink_to(tmp_path / "theirs")
    assert judge("gate", PATCHES="fine")[2] == ["gate/one/verdicts.json"]
    assert [path.name for path in (tmp_path / "theirs").iterdir()] == ["kept.txt"]


@pytest.mark.parametrize("patches", ["cruel", "kind"])
def test_no_link_gets_into_an_artifact(judge, tmp_path, patches):
    judge("gate", PATCHES=patches)
    assert [path.name for path in (tmp_path / "results" / "gate").iterdir()] == ["one"]
    assert [path.name for path in tmp_path.glob("results.*")] == []
