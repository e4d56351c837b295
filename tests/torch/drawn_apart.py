"""Run by the Python of a torch row: as JSON, the numbers that a program draws from the generators
of Python and numpy, in two states of the process, and if these states are as before.
"""

import json
import random

import numpy
import torch

from patchgate.probe.numerics import operator_samples
from patchgate.probe.numerics.sample_calls import Sample
from patchgate.probe.numerics.sample_differences import COMPILING

TEXT = """def program(a):
    import random, numpy
    return a * random.random(), a * float(numpy.random.rand())
"""
SAMPLE = Sample(TEXT, (torch.ones(2),), {}, how=COMPILING, traced=False)

drawn, kept = [], []
for seed in (1, 2):
    random.seed(seed)
    numpy.random.seed(seed)
    before = random.getstate(), numpy.random.get_state()[1].tolist()
    result = operator_samples._outcome([SAMPLE], operator_samples._call_all)
    drawn.append([each.tolist() for each in result["output"]])
    kept.append((random.getstate(), numpy.random.get_state()[1].tolist()) == before)
print(json.dumps({"drawn": drawn, "kept": kept}))
