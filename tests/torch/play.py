"""Plays a job of a workflow on this machine: its `run:` steps in a shell, GitHub's own actions as
what they leave.

Knows as much of the language as ours use: dotted names, `||`, `fromJSON`, and composite actions of
this repository.
"""

import json
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import yaml

PASSED_ON = ("HOME", "LANG", "TMPDIR")
# This machine needs these variables to reach a package index.
REACH = re.compile(r"(?i)(uv|pip)_|(ssl_cert|requests_ca|curl_ca)|(http|https|no|all)_proxy$")
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


@dataclass
class Machine:
    """A runner: `checkout` is the repository that the workflow is from, `shims` come first on the
    PATH.
    """

    checkout: Path
    workspace: Path
    temp: Path
    shims: Path
    kept: dict[str, Path] = field(default_factory=dict)
    caches: list[str] = field(default_factory=list)
    status: int = 0

    def play(self, job, given):
        """The outputs of a job; `given` are its contexts but for `steps`."""
        contexts = {
            "github": {"workspace": str(self.workspace), "run_id": "1"},
            "steps": {},
            **given,
        }
        contexts["runner"] = {"temp": str(self.temp), "os": "Linux", "arch": "X64"}
        self._steps(job["steps"], contexts, self.checkout)
        return {name: filled(value, contexts) for name, value in job.get("outputs", {}).items()}

    def _steps(self, steps, contexts, action):
        for step in steps:
            told = {name: filled(value, contexts) for name, value in step.get("with", {}).items()}
            outputs = {}
            if "run" in step:
                outputs = self._run(step, contexts, action)
            elif step["uses"].startswith("$/"):
                outputs = self._action(self.checkout / step["uses"][2:], told)
            elif step["uses"].startswith("actions/checkout@"):
                assert told == {"persist-credentials": False}
            elif step["uses"].startswith("actions/cache/restore@"):
                self.caches.append(told["key"])
            elif step["uses"].startswith("actions/upload-artifact@"):
                self.kept[told["name"]] = Path(told["path"])
            contexts["steps"][step.get("id")] = {"outputs": outputs}

    def _action(self, folder, told):
        table = yaml.safe_load((folder / "action.yml").read_text())
        inputs = {
            name: each.get("default", "") for name, each in table.get("inputs", {}).items()
        } | told
        contexts = {
            "inputs": inputs,
            "steps": {},
            "github": {"workspace": str(self.workspace), "run_id": "1"},
        }
        contexts["runner"] = {"temp": str(self.temp), "os": "Linux", "arch": "X64"}
        self._steps(table["runs"]["steps"], contexts, folder)
        return {
            name: filled(each["value"], contexts) for name, each in table.get("outputs", {}).items()
        }

    def _run(self, step, contexts, action):
        written = self.temp / "output"
        written.write_text("")
        environment = {
            name: value
            for name, value in os.environ.items()
            if name in PASSED_ON or REACH.match(name)
        }
        environment |= {
            "PATH": f"{self.shims}{os.pathsep}{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.temp),
        }
        environment |= {
            "GITHUB_OUTPUT": str(written),
            "GITHUB_ACTION_PATH": str(action),
            "CI": "true",
        }
        environment |= {"GITHUB_WORKSPACE": str(self.workspace), "GITHUB_ACTIONS": "true"}
        environment |= {
            name: str(filled(value, contexts)) for name, value in step.get("env", {}).items()
        }
        place = filled(step.get("working-directory", str(self.workspace)), contexts)
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        ended = subprocess.run(command, cwd=place, env=environment)
        self.status = self.status or ended.returncode
        return dict(line.split("=", 1) for line in written.read_text().splitlines())


def filled(value, contexts):
    """A value of the workflow with its expressions worked out; one that is nothing else keeps its
    type.
    """
    if not isinstance(value, str):
        return value
    whole = EXPRESSION.fullmatch(value)
    if whole:
        return worked_out(whole[1], contexts)
    return EXPRESSION.sub(lambda found: str(worked_out(found[1], contexts)), value)


def worked_out(text, contexts):
    if " || " in text:
        return next(
            (each for part in text.split(" || ") if (each := worked_out(part, contexts))), ""
        )
    called = re.fullmatch(r"fromJSON\((.*)\)", text)
    if called:
        return json.loads(worked_out(called[1], contexts))
    if text.startswith("'"):
        return text.strip("'")
    value = contexts
    for name in text.split("."):
        value = value.get(name, "")
    return value
