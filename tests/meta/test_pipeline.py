"""Pipelines name no torch release, hold no code of a stranger, ask for no more than they need, and
find their caches.

Each rule is also seen failing on a made-up step.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from patchgate.inputs.matrix import load_matrix
from patchgate.model.paths import ROOT
from patchgate.runs.history.store import History

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PASTED = sorted(path for path in (ROOT / "ci" / "github").glob("*.yml") if path.stem != "action")
ACTIONS = sorted((ROOT / "ci" / "github").rglob("action.yml"))
ALL = [*WORKFLOWS, *PASTED, *ACTIONS, ROOT / "ci" / "buildkite" / "pipeline.yml"]


def read(path):
    table = yaml.safe_load(path.read_text("utf-8"))
    # YAML takes `on` for a truth
    return {("on" if key is True else key): value for key, value in table.items()}


def jobs(path):
    return read(path).get("jobs", {"action": read(path).get("runs", {})})


def steps(path):
    return [step for job in jobs(path).values() for step in job.get("steps", ())]


def display_path(path):
    return str(path.relative_to(ROOT))


def load(name):
    spec = importlib.util.spec_from_file_location(Path(name).stem, ROOT / "ci" / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def injected(step):
    """An expression in a script is pasted before the shell reads it: whoever named the branch wrote
    the script.
    """
    return "${{" in step.get("run", "")


def unknown(used):
    """True if it is neither GitHub's own by its major release, nor of this repository, nor a
    placeholder to fill in.
    """
    if used.startswith("$/"):
        return not (ROOT / used[2:]).exists()
    return not re.fullmatch(
        r"actions/[\w/-]+@v\d+|OWNER/patchgate/\.github/workflows/\w+\.yml@COMMIT", used
    )


def test_there_are_pipelines():
    assert len(WORKFLOWS) > 4
    assert [path.stem for path in PASTED] == ["bisect", "comment", "gate", "nightly"]
    assert len(ACTIONS) == 2


@pytest.mark.parametrize("path", ALL, ids=display_path)
def test_a_pipeline_names_no_release_to_judge_on(path):
    # where a search by hand begins
    text = re.sub(r"2\.10\.0\.\.2\.15\.0", "", path.read_text("utf-8"))
    assert not [row.torch for row in load_matrix() if row.torch in text]


@pytest.mark.parametrize("path", ALL, ids=display_path)
def test_no_script_holds_an_expression(path):
    assert not [step for step in steps(path) if injected(step)]


def test_an_expression_in_a_script_is_seen():
    assert injected({"run": "echo ${{ github.head_ref }}"})
    assert not injected({"run": "echo $HEAD", "env": {"HEAD": "${{ github.head_ref }}"}})


@pytest.mark.parametrize("path", [*WORKFLOWS, *PASTED, *ACTIONS], ids=display_path)
def test_whatever_is_used_is_known(path):
    used = [each["uses"] for each in [*steps(path), *jobs(path).values()] if "uses" in each]
    assert not [each for each in used if unknown(each)]


@pytest.mark.parametrize(("used", "bad"), [
    ("actions/cache/restore@v5", False), ("$/ci/github", False), ("$/ci/nothing", True), ("someone/checkout@v6", True),
    ("actions/checkout@main", True), ("./ci/github", True),
])  # fmt: skip
def test_a_stranger_s_action_is_seen(used, bad):
    assert unknown(used) is bad


@pytest.mark.parametrize("path", [*WORKFLOWS, *PASTED], ids=display_path)
def test_a_workflow_may_read_and_only_the_comment_may_write(path):
    assert read(path)["permissions"] == {}
    assert "pull_request_target" not in read(path)["on"]
    given = {
        right
        for job in jobs(path).values()
        for right, how in job["permissions"].items()
        if how == "write"
    }
    assert given == ({"pull-requests"} if "comment" in path.stem else set())
    called = any("uses" in job for job in jobs(path).values())
    assert called or all(job["timeout-minutes"] for job in jobs(path).values())


def test_the_comment_takes_nothing_of_the_pull_request_but_its_artifact():
    used = [
        step["uses"]
        for step in steps(ROOT / ".github" / "workflows" / "comment.yml")
        if "uses" in step
    ]
    assert used == ["$/ci/github/setup", "actions/download-artifact@v7"]


def test_a_warm_cache_is_found_again_and_no_pull_request_writes_it():
    used = [
        step
        for step in steps(ROOT / "ci" / "github" / "action.yml")
        if "actions/cache" in step.get("uses", "")
    ]
    found, saved = used
    assert found["uses"].startswith("actions/cache/restore@")
    assert not re.search(r"github\.|steps\.", found["with"]["key"])
    assert saved["uses"].startswith("actions/cache/save@")
    assert saved["with"]["key"] == f"${{{{ steps.{found['id']}.outputs.cache-primary-key }}}}"
    assert json.loads(re.search(r"'(.*)'", saved["if"])[1]) == [
        "schedule",
        "workflow_dispatch",
        "push",
    ]
    # nothing below .patchgate
    assert {step["with"]["path"] for step in used} == {"${{ runner.temp }}/uv"}


def unsafe_module(step):
    """A program of Python that looks for its parts in the checkout, where a pull request may have a
    pip.py.
    """
    return re.search(r"python\S* +-m +pip", step.get("run", ""))


@pytest.mark.parametrize("path", ALL, ids=display_path)
def test_no_installer_takes_modules_of_the_checkout(path):
    assert not [step for step in steps(path) if unsafe_module(step)]
    of_ours = [step for step in steps(path) if "-m pip" in step.get("run", "") and path in ACTIONS]
    assert all(step["working-directory"] == "${{ runner.temp }}" for step in of_ours)


def test_an_installer_that_is_not_isolated_is_seen():
    assert unsafe_module({"run": "cd x && python3 -m pip install nox"})
    assert not unsafe_module({"run": "python -I -m pip install nox"})


def test_the_plan_is_every_row_with_the_tag_and_the_dear_ones_first(tmp_path):
    history = History(tmp_path / "history.sqlite")
    history.record("r1", "2026-01-01", "dear-two", [], [])
    history.spend("r1", "dear-two", "2.12.1", 90.0)
    history.spend("r1", "cheap", "2.12.1", 1.0)
    history.close()
    for tag in ("premerge", "nightly"):
        command = [
            sys.executable,
            ROOT / "ci" / "plan.py",
            "--tag",
            tag,
            "a/cheap.py",
            "b/dear two",
        ]
        command += ["--history", tmp_path / "history.sqlite"]
        told = json.loads(
            subprocess.run(command, capture_output=True, text=True, check=True).stdout
        )
        assert [share["torch"] for share in told] == [
            row.torch for row in load_matrix() if tag in row.tags
        ]
        assert {share["torch"]: share["patches"] for share in told}[
            "2.12.1"
        ] == "b/dear two\na/cheap.py"


def test_without_patches_those_of_the_table_are_planned(monkeypatch):
    monkeypatch.chdir(ROOT)
    (first, *_) = load("plan.py").plan(["--tag", "nightly"])
    assert len(first.patches) > 40


def buildkite(**environment):
    return load("buildkite/pipeline.py").pipeline(environment)["steps"]


def test_buildkite_gets_a_step_a_share_and_none_holds_a_path_as_code():
    *judged, wait, told = buildkite(PATCHES="a$(x) b\n-c", TAG="premerge", QUEUE="mine")
    assert [step["env"]["TORCH"] for step in judged] == [
        row.torch for row in load_matrix() if "premerge" in row.tags
    ]
    assert {step["env"]["PATCHES"] for step in judged} == {"a$(x) b\n-c"}
    assert "$(x)" not in json.dumps([step["command"] for step in [*judged, told]])
    assert (wait["continue_on_failure"], told["agents"]) == (True, {"queue": "mine"})


def test_buildkite_has_a_step_on_a_gpu_where_there_is_one():
    assert not [step for step in buildkite(PATCHES="a") if step.get("concurrency")]
    (gpu,) = [step for step in buildkite(PATCHES="a", GPU_QUEUE="h200") if step.get("concurrency")]
    assert (gpu["agents"], gpu["env"]["DEVICE"]) == ({"queue": "h200"}, "cuda")


def test_the_label_of_a_gpu_runner_is_a_line_of_the_table(tmp_path, monkeypatch):
    (tmp_path / "patchgate.toml").write_text("gpu_runner = 'big'\npatches = []\n")
    monkeypatch.chdir(tmp_path)
    (gpu,) = [step for step in buildkite(PATCHES="a") if step.get("concurrency")]
    assert gpu["agents"] == {"queue": "big"}
    asked = [sys.executable, ROOT / "ci" / "plan.py", "--gpu-runner"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "big\n"
    (tmp_path / "patchgate.toml").write_text("gpu_runner = 'two\\nlines'\n")
    refused = subprocess.run(asked, capture_output=True, text=True)
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)


def test_buildkite_installs_outside_of_the_checkout_and_takes_no_results_from_it(tmp_path):
    """Its commands are run up to the agent's own, in a checkout that has a pip.py, a venv.py and
    results.
    """
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "run.json").write_text("{}")
    for name in ("pip", "venv", "ensurepip"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('of the checkout')")
    *_, told = buildkite(PATCHES="a")
    (tmp_path / "python3").write_text(
        f"""#!/bin/bash
echo "$PWD $*" >>"{tmp_path}/calls"
mkdir -p "${{@: -1}}/bin" && cp "$0" "${{@: -1}}/bin/python"
"""
    )
    (tmp_path / "python3").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "PATCHGATE": ".",
        "TMPDIR": str(tmp_path),
    }
    setup = "\n".join(told["command"][:-2])
    subprocess.run(["bash", "-ec", setup], cwd=tmp_path, env=environment, check=True)
    assert not (tmp_path / "results").exists()
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[:4] for call in calls] == [
        ["/", "-I", "-m", "venv"],
        ["/", "-I", "-m", "pip"],
    ]


def test_buildkite_sweeps_every_row_in_one_run():
    *judged, _, told = buildkite(PATCHES="a", TAG="nightly", BUILDKITE_BUILD_ID="7")
    assert {step["env"]["ARGUMENTS"] for step in judged} == {"--nightly\n--run=7"}
    assert len(judged) == len(load_matrix())
    assert "patchgate history" in told["command"][-1]
