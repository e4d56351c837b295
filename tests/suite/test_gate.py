"""Does the patch apply exactly where it claims to, once, only to its targets, and is it needed there?"""

import pytest

from patchgate.checks.context import STAND_IN
from patchgate.checks.judge.effects import judge_effects, judge_outside
from patchgate.checks.judge.gate import does_not_run, judge_support, judge_symptom, judge_versions, versions_around
from patchgate.inputs.matrix import load_matrix
from patchgate.model.serialization import failure_of


def test_versions(torch, patch, trial, judge):
    judge(trial.doubt(torch, STAND_IN) or applied(torch, patch, trial))


def applied(torch, patch, trial):
    own = trial.apply(torch, version=torch)
    failure = failure_of(own)
    if failure:
        # Once is enough: a patch that hangs would hang under every version.
        return [does_not_run(torch, failure, patch, trial.again)]
    others = {version: trial.apply(torch, version=version) for version in versions_around(torch) if version != torch}
    versions = judge_versions(torch, patch, {torch: own, **others}, trial.claim("applies_to"), trial.again)
    effects = judge_effects(torch, patch, own, trial.claim("targets"))
    supported = [row.torch for row in load_matrix()]
    return [*versions, *effects, *judge_support(torch, patch, supported, trial.claim("applies_to"))]


def test_outside_scope(torch, patch, trial, judge):
    if not patch.claims.scope:
        pytest.skip("no scope is claimed")
    judge(trial.doubt(torch, STAND_IN) or outside(torch, patch, trial, trial.observed()))


def outside(torch, patch, trial, cases):
    where = trial.claim("scope")
    return [
        judge_outside(torch, patch, where, *trial.outside(torch, device, workload))
        for workload, device in dict.fromkeys(cases)
    ]


def test_symptom(torch, symptom, patch, trial, judge):
    judge(trial.doubt(torch, symptom.device) or [shown(torch, symptom, patch, trial)])


def shown(torch, symptom, patch, trial):
    unpatched, patched = trial.observations(torch, symptom.device, symptom.workload)
    return judge_symptom(torch, patch, symptom, unpatched, patched, trial.claim("applies_to"), trial.again)
