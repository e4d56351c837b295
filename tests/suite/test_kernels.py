"""Do lowering, fusion and the generated kernels give the recorded facts?"""


def test_kernels(torch, device, workload, trial, judge):
    judge(trial.doubt(torch, device) or trial.facts("kernels", torch, device, workload))
