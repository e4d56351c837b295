"""Prints the steps of a Buildkite pipeline: one a share of the plan, then the results as an
annotation.

Reads the environment: PATCHES (one a line), TAG of the rows (premerge, or nightly for a sweep),
MACHINES, QUEUE of the agents, GPU_QUEUE of those with a GPU (else the table's
`gpu_runner`; no such step without both), HISTORY with the costs of before,
and PATCHGATE, where its checkout is. What runs gets its words in variables, and no step holds any
of them as code.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from plan import gpu_runner, plan

MACHINE_TROUBLE, AGENT_LOST = 4, -1
# Neither pip nor what it needs comes from the checkout, where a pull request may have a pip.py.
# `results` may be a part of it too.
SETUP = [
    'CHECKOUT=$(cd "$PATCHGATE" && pwd) TOOLS=$(mktemp -d)',
    'trap "rm -rf $TOOLS" EXIT',
    '(cd / && python3 -I -m venv "$TOOLS" && "$TOOLS/bin/python" -I -m pip install --quiet '
    '"$CHECKOUT") || exit 4',
    'PATH="$TOOLS/bin:$PATH"',
    "rm -rf results",
]
COMMANDS = [
    *SETUP,
    'WORKSPACE="$PWD" RESULTS="$PWD/$RESULTS" bash "$PATCHGATE/ci/judge.sh"',
]
TELL = {
    "gate": (
        "find results -name run.json -printf '%h\\0' | sort -z | xargs -0 --no-run-if-empty "
        "patchgate comment"
    ),
    "sweep": (
        "find results -name history.sqlite -printf '--merge=%p\\0' | sort -z | xargs -0 "
        "patchgate history"
    ),
}


def pipeline(environment: Mapping[str, str]) -> dict[str, Any]:
    """The steps for an environment."""
    return {"steps": list(_steps(environment))}


def _steps(environment: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    tag, queue = environment.get("TAG", "premerge"), environment.get("QUEUE", "default")
    options = ["--tag", tag, "--machines", environment.get("MACHINES", "0")]
    options += ["--history", environment["HISTORY"]] if "HISTORY" in environment else []
    session = "gate" if tag == "premerge" else "sweep"
    patches = environment.get("PATCHES", "").splitlines()
    shared = {"SESSION": session, "PATCHGATE": environment.get("PATCHGATE", ".")}
    if session == "sweep":
        shared["ARGUMENTS"] = f"--nightly\n--run={environment.get('BUILDKITE_BUILD_ID', 'by hand')}"
    for number, share in enumerate(plan([*options, "--", *patches])):
        variables = {
            "TORCH": share.torch,
            "PATCHES": "\n".join(share.patches),
            "RESULTS": f"results/{number}",
        }
        yield _judge(f"torch {share.torch} ({share.part})", queue, shared | variables)
    gpu_queue = environment.get("GPU_QUEUE") or gpu_runner()
    if gpu_queue:
        variables = {"DEVICE": "cuda", "PATCHES": "\n".join(patches), "RESULTS": "results/gpu"}
        yield _judge("on a GPU", gpu_queue, shared | variables) | {
            # Two that are timed at once on one GPU would time each other.
            "concurrency": 1,
            "concurrency_group": "patchgate-gpu",
        }
    yield {"wait": None, "continue_on_failure": True}
    yield {
        "label": "results",
        "command": [
            *SETUP,
            "buildkite-agent artifact download 'results/*' .",
            f"{TELL[session]} | buildkite-agent annotate --context patchgate --style info",
        ],
        "env": shared,
        "agents": {"queue": queue},
        "timeout_in_minutes": 10,
    }


def _judge(label: str, queue: str, variables: dict[str, str]) -> dict[str, Any]:
    return {
        "label": label,
        "command": COMMANDS,
        "env": variables,
        "agents": {"queue": queue},
        "artifact_paths": [f"{variables['RESULTS']}/**/*"],
        "timeout_in_minutes": 60 if variables["SESSION"] == "gate" else 300,
        "retry": {
            "automatic": [
                {"exit_status": status, "limit": 2} for status in (MACHINE_TROUBLE, AGENT_LOST)
            ]
        },
    }


if __name__ == "__main__":
    print(json.dumps(pipeline(os.environ), indent=1))
