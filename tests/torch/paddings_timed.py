"""Run by the Python of a torch row: as JSON, what a real device answers about the padding of one
product before it has timed it and afterwards, and in the next compile.
"""

import json

from torch._inductor.fx_passes import pad_mm

from patchgate.probe.simulate.matmul_padding import padding_decisions

KEY = (
    "(((torch.Size([4, 7]), (7, 1), torch.float32), 'exclude_pad:True'),"
    " ((torch.Size([7, 8]), (8, 1), torch.float32), 'exclude_pad:False'), \"op='aten.mm'\")"
)
found, decided = [], dict[str, str]()
for decision in (True, False):
    with padding_decisions({"kind": "real"}, decided):  # type: ignore[typeddict-item]
        found.append(pad_mm.get_cached_should_pad(KEY))
        pad_mm.set_cached_should_pad(KEY, decision)
        found.append(pad_mm.get_cached_should_pad(KEY))
    found.append(decided)
    decided = {}
print(json.dumps(found))
