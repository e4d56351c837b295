"""Changes torch in every way that a snapshot sees, and prints what two snapshots say of it that
share.

The assertions hold them against snapshots that do not.
"""

import json
import sys
import types

import torch._dynamo.trace_rules as trace_rules
import torch._inductor.ir as ir
import torch._inductor.lowering as lowering
import torch._inductor.scheduler as scheduler

from patchgate.probe.patch import snapshot
from patchgate.probe.patch.snapshot import Snapshot, changes, take_snapshot
from patchgate.probe.patch.torch_imports import torch_imports_added_to

earlier, before = take_snapshot(), take_snapshot()
copies = {owner: dict(attributes) for owner, attributes in earlier.items()}
with torch_imports_added_to(before):
    import torch._inductor.codegen.halide  # noqa: F401  # a compile has not imported it

ir.StorageBox.realize = lambda self: None
ir.added = 1
realized = ir.Reduction.get_reduction_size
del ir.Reduction.get_reduction_size
ir.Reduction.get_reduction_size = realized  # the same again, in another place
ir.Pointwise.__doc__ = "ignored"
lowering.lowerings[next(iter(lowering.lowerings))] = None
trace_rules.MOD_INLINELIST.add("mine")
trace_rules.LEGACY_MOD_INLINELIST = set(trace_rules.LEGACY_MOD_INLINELIST)
del scheduler.Scheduler.can_fuse
sys.modules["torch._inductor.mine"] = types.ModuleType("torch._inductor.mine")
shared = changes(before, take_snapshot())
snapshot._last = Snapshot()
copied = changes(before, take_snapshot())
assert shared.keys() == copied.keys() and all(shared[name][1] is copied[name][1] for name in shared)
assert copies == earlier, "an earlier snapshot was changed"
print(json.dumps(sorted(shared)))
