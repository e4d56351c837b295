"""Run by the Python of a torch row: the samples with the smallest integer, and the numbers that
stand next to it, as JSON.
"""

import json

import torch
from torch.utils import _pytree as pytree

from patchgate.probe.numerics.sample_calls import op_db, samples_of

NAMES = ("argmin", "abs", "div", "remainder", "fmod", "floor_divide", "cumprod")
found: dict[str, list[list[str]]] = {name: [] for name in NAMES}
for op in op_db():
    for sample in samples_of(op) if op.name in NAMES else ():
        if sample.how == "with the smallest integer":
            _, *others = pytree.tree_leaves((sample.args, sample.kwargs))
            texts = ["tensor" if torch.is_tensor(each) else repr(each) for each in others]
            found[op.name].append(texts)
print(json.dumps(found))
