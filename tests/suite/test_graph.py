"""Does Dynamo capture the recorded graphs?"""

import pytest


def test_graph(torch, device, workload, trial, judge):
    verdicts = trial.doubt(torch, device) or list(trial.facts("graph", torch, device, workload))
    if not verdicts:
        pytest.skip("did not compile: judged by the kernels check")
    judge(verdicts)
