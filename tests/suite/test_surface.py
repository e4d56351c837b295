"""Do the private names that the patch stands on exist and fit in this torch?"""

from patchgate.checks.context import STAND_IN
from patchgate.checks.judge.gate import does_not_run
from patchgate.checks.judge.surface import judge_surface
from patchgate.model.serialization import failure_of


def test_surface(torch, patch, trial, judge):
    judge(trial.doubt(torch, STAND_IN) or inspected(torch, patch, trial))


def inspected(torch, patch, trial):
    answer = trial.inspect(torch)
    failure = failure_of(answer)
    if failure:
        return [does_not_run(torch, failure, patch, trial.again)]
    return judge_surface(torch, patch, answer, trial.claim("targets"))
