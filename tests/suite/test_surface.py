"""Do the private names that the patch stands on exist and fit in this torch?"""

from patchgate.judge.gate import does_not_run
from patchgate.judge.surface import judge_surface
from patchgate.matrix import load_profile
from patchgate.wire import failure_of


def test_surface(torch, patch, runner, judge, trial):
    targets = list(patch.claims.targets or ())
    answer = runner.ask(torch, "surface", patch=patch.path, targets=targets, profile=load_profile("h200"))
    failure = failure_of(answer)
    if failure:
        judge([does_not_run(torch, failure, patch, trial.again)])
    else:
        judge(judge_surface(torch, patch, answer))
