"""Does this environment count? Runs before anything else is believed."""


def test_sentinel(torch, device, trial, judge):
    judge([trial.sentinel(torch, device)])
