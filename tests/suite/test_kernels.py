"""Do lowering, fusion and the generated kernels give the recorded facts?"""


def test_kernels(torch, device, workload, trial, judge):
    judge(trial.facts("kernels", torch, device, workload))
