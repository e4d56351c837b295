"""Does the simulated device need more time by bytes, matrix products and launches? A model, no measurement."""

import pytest


def test_modelled(torch, device, workload, trial, judge):
    verdicts = trial.doubt(torch, device) or trial.modelled(torch, device, workload)
    if not verdicts:
        pytest.skip("did not compile: judged by the kernels check")
    judge(verdicts)
