"""Does torch.compile know the recorded options, and do its modes set them as recorded?"""


def test_options(torch, trial, judge):
    judge(trial.doubt(torch, "cpu") or trial.facts("options", torch, "cpu", "options"))
