"""Run by the Python of a torch row: figures of outputs with NaN and infinities on one side or both,
as JSON.
"""

import json
from typing import Any

import torch

from patchgate.probe.numerics.numeric_metrics import _compare, _mismatch

NAN, INF = float("nan"), float("inf")
FINITE = [1.0, 2.0, 1.0078125]


def compare(before: list[float], after: list[float], eager: list[float]) -> dict[str, Any]:
    """Figures where the unpatched side is right."""
    ours, theirs, by_eager = (
        [torch.tensor(side, dtype=torch.bfloat16)] for side in (before, after, eager)
    )
    sides = {"compiled": ours, "again": ours, "eager": by_eager, "reference": [ours[0].double()]}
    return _compare(sides, {"compiled": theirs, "again": theirs})


def figures(before: list[float], after: list[float]) -> list[float]:
    """Difference, ulps, error and worst element of the patched side; eager is right too."""
    found = compare(before, after, before)
    return [found[name] for name in ("largest", "ulps", "error_patched", "worst_patched")]


def mismatch(before: list[float], after: list[float]) -> str:
    ours = {side: [torch.tensor(before)] for side in ("compiled", "eager")}
    return _mismatch(ours, {"compiled": [torch.tensor(after)]})


print(
    json.dumps(
        {
            "words": [
                mismatch([NAN, 1.0, INF], [0.0, 1.0, INF]),
                mismatch([1.0, 1.0, INF], [1.0, INF, -INF]),
                mismatch(FINITE, [4.0, 5.0, 6.0]),
            ],
            "equal": figures([*FINITE, NAN, INF, -INF], [*FINITE, NAN, INF, -INF]),
            "one ulp": figures([*FINITE, NAN, INF], [1.0078125, *FINITE[1:], NAN, INF]),
            "one ulp alone": figures(FINITE, [1.0078125, *FINITE[1:]]),
            "new NaN": figures(FINITE, [NAN, *FINITE[1:]]),
            "lost NaN": figures([NAN, *FINITE[1:]], FINITE),
            "NaN in eager": compare(FINITE, [1.0, 4.0, 1.0], [NAN, *FINITE[1:]]),
            "other infinity": figures([INF, *FINITE[1:]], [-INF, *FINITE[1:]]),
        }
    )
)
