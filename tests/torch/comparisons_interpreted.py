"""Run by the Python of a torch row: of which functions Triton's interpreter gives what eager mode
gives, as JSON; the device is a profile, read from stdin.
"""

import json
import sys
from typing import Any

import torch
from torch._inductor import config

from patchgate.probe.interpret.interpreting_backend import interpreting_backend
from patchgate.probe.numerics.outputs import reproducible

PROFILE = json.load(sys.stdin)


def interpreted(function: Any, *args: torch.Tensor) -> Any:
    torch._dynamo.reset()
    backend = interpreting_backend(PROFILE, {})
    with reproducible(PROFILE):
        return torch.compile(function, dynamic=False, backend=backend)(*args)


def compared(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x > y).to(x.dtype) * x, (x == y).float() + x.float()


def dropped(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x, 0.25)


def counted(x: torch.Tensor) -> torch.Tensor:
    return (x != 3).sum().to(torch.bfloat16) / 3


found: dict[str, Any] = {"compared": {}}
for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int32):
    for size in (2, 3, 100):  # two booleans are as wide as one bfloat16
        x, y = torch.arange(size).to(dtype), torch.arange(size).flip(0).to(dtype)
        equal = map(torch.equal, interpreted(compared, x, y), compared(x, y))
        found["compared"][f"{dtype} {size}"] = all(equal)
with config.patch(emulate_precision_casts=True):  # whole numbers become bfloat16 in the kernel
    whole = torch.arange(12)
    found["counted"] = torch.equal(interpreted(counted, whole), counted(whole))
kept = interpreted(dropped, torch.ones(4096))
found["dropout"] = sorted({round(number, 4) for number in kept.tolist()})
found["share"] = 0.2 < (kept == 0).float().mean().item() < 0.3
print(json.dumps(found))
