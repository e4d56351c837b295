"""Run by the Python of a torch row: as JSON, what random programs of two seeds have, and how many of
them torch alone traces to other results than eager mode has.
"""

import itertools
import json
import warnings

import torch

from patchgate.probe.numerics import operator_samples
from patchgate.probe.numerics.random_programs import random_programs
from patchgate.probe.numerics.sample_calls import SEED, Sample

MENTIONS = ["torch.ops.aten.cumsum.default", "torch.fx.Graph"]
warnings.simplefilter("ignore")
torch.set_num_threads(1)


def texts(seed, mentions=(), trained=False):
    return [text for text, _ in drawn(seed, mentions, trained)]


def drawn(seed, mentions=(), trained=False):
    return list(itertools.islice(random_programs(seed, mentions, trained=trained), 40))


def calling(programs):
    return sum("cumsum(" in text for text in programs)


trained = [Sample(*program, {}) for program in drawn(SEED, MENTIONS, trained=True)][:20]
kept, eager, _ = operator_samples.steady(trained, 20)
spread = list(map(operator_samples._spread, kept, eager))
traced = operator_samples._traced(kept)
differing = [
    kept[at].text
    for at, result in traced.items()
    if operator_samples._excess(kept[at], result, eager[at], spread[at]) > 1
]
print(
    json.dumps(
        {
            "again": texts(1) == texts(1),
            "other": texts(1) != texts(2),
            "calling": [calling(texts(1)), calling(texts(1, MENTIONS))],
            "steady": len(kept),
            "gradients": sum(bool(each["gradient"]) for each in eager),
            "finite": all(x.isfinite().all().item() for each in eager for x in each["gradient"]),
            "trained": texts(1) != texts(1, trained=True),
            "differing": differing,
        }
    )
)
