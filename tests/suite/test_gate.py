"""Does the patch apply exactly where it claims to, once, only to its targets, and is it needed there?"""

from patchgate.judge.gate import does_not_run, judge_effects, judge_symptom, judge_versions, versions_around
from patchgate.matrix import load_profile
from patchgate.wire import failure_of


def test_versions(torch, patch, runner, judge, trial):
    profile = load_profile("h200")
    own = runner.ask(torch, "apply", patch=patch.path, version=torch, profile=profile)
    failure = failure_of(own)
    if failure:
        # Once is enough: a patch that hangs would hang under every version.
        judge([does_not_run(torch, failure, patch, trial.again)])
        return
    answers = {
        version: runner.ask(torch, "apply", patch=patch.path, version=version, profile=profile)
        for version in versions_around(torch)
    }
    answers[torch] = own
    verdicts = [*judge_versions(torch, patch, answers, trial.claim("applies_to"), trial.again)]
    judge([*verdicts, *judge_effects(torch, patch, own, trial.claim("targets"))])


def test_symptom(torch, symptom, patch, runner, judge, trial):
    claim = patch.claims.symptom
    workload = trial.workload(symptom)
    unpatched, patched = (
        runner.observe(trial.case(torch, claim.device, symptom, side), workload, side) for side in (None, patch)
    )
    judge([judge_symptom(torch, patch, claim, unpatched, patched, trial.claim("applies_to"), trial.again)])
