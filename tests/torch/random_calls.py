"""Print properties of random calls of a function."""

import json
from itertools import islice

import torch

from patchgate.probe.numerics.crossed_calls import crossed_calls

CALLS = [((torch.ones(2, 3, 8, 8), kernel), {"ceil_mode": kernel > 2}) for kernel in (2, 3)]
pool = torch.nn.functional.avg_pool2d


def calls_of(seed, known=CALLS):
    return [*islice(crossed_calls(pool, known, seed), 200)]


def described(calls):
    return [
        (tuple(args[0].shape), str(args[0].dtype), *args[1:], *kwargs.items())
        for args, kwargs in calls
    ]


def is_valid(args, kwargs):
    try:
        pool(*args, **kwargs)
    except Exception:
        return False
    return True


def is_oblong(args):
    return args[0].shape[-1] != args[0].shape[-2]


first = calls_of(1)
print(
    json.dumps(
        {
            "repeated": described(first) == described(calls_of(1)),
            "other": described(first) != described(calls_of(2)),
            "valid": sum(is_valid(*call) for call in first) > 50,
            "oblong": sum(is_oblong(args) for args, _ in first) > 50,
            "crossed": any(args[1:] == (2,) and kwargs.get("ceil_mode") for args, kwargs in first),
            "trained": 50 < sum(args[0].requires_grad for args, _ in first) < 150,
            "none of none": not calls_of(1, []),
        }
    )
)
