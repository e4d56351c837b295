"""Does the patch get along with the others that a project installs beside it, in either order?"""

from pathlib import Path

import pytest

from patchgate.checks.context import STAND_IN
from patchgate.checks.judge.together import judge_orders, judge_places
from patchgate.inputs.patch import load_patch


def test_together(torch, trial, judge):
    if not trial.run.others:
        pytest.skip("no other patch: `gate PATCH --with OTHER`")
    judge(trial.doubt(torch, STAND_IN) or list(installed(torch, trial, trial.observed()[:1])))


def installed(torch, trial, cases):
    for path in trial.run.others:
        other = load_patch(Path(path))
        yield from judge_places(torch, trial.patch, other, trial.undone(torch, other))
        for workload, device in cases:
            answers = trial.both(torch, device, workload, other)
            yield from judge_orders(torch, trial.patch, other, f"{workload}.{device}", answers)
