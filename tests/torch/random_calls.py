"""Print which random calls of functions are taken."""

import json
import os

import torch

from patchgate.probe.numerics.crossed_calls import crossed, valid_calls

CALLS = [((torch.ones(2, 3, 8, 8), kernel), {"ceil_mode": kernel > 2}) for kernel in (2, 3)]
pool = torch.nn.functional.avg_pool2d


def described(calls):
    return [
        (tuple(args[0].shape), str(args[0].dtype), *args[1:], *kwargs.items())
        for args, kwargs in calls
    ]


def shape_of(args):
    return args[0].shape


def ends_the_process(x, kernel, ceil_mode=False):
    if kernel == 4:
        os._exit(1)
    return x


once, twice = (described(valid_calls(pool, CALLS, seed, 30)) for seed in (1, 1))
other = described(valid_calls(pool, CALLS, 2, 30))
valid = valid_calls(pool, CALLS, 1, 30)
for args, kwargs in valid:
    pool(*args, **kwargs)
first = [call for call, _ in zip(crossed(pool, CALLS, 1), range(200), strict=False)]
print(
    json.dumps(
        {
            "repeated": once == twice,
            "other": once != other,
            "valid": len(valid),
            "oblong": sum(shape_of(args)[-1] != shape_of(args)[-2] for args, _ in first) > 50,
            "crossed": any(args[1:] == (2,) and kwargs.get("ceil_mode") for args, kwargs in first),
            "trained": 50 < sum(args[0].requires_grad for args, _ in first) < 150,
            "ends": len(valid_calls(ends_the_process, CALLS, 1, 30)),
            "none": len(valid_calls(pool, [], 1, 30)),
        }
    )
)
