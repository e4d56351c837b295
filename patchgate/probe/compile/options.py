"""Facts of the options that torch.compile takes and of what each mode sets, by torch's own
lists.
"""

from __future__ import annotations

import torch._inductor

from patchgate.probe.compile.observe import environment
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.protocol import Facts, Observe, OptionFacts, Stage


def observe_options(request: Observe, stage: Stage) -> OptionFacts:
    """`list_options()` and `list_mode_options()` as they are called by name, so that a patch of
    them shows.
    """
    apply_patch(request, stage)
    stage("options")
    facts: Facts = {f"options.listed.{name}": 1 for name in torch._inductor.list_options()}
    for mode, options in torch._inductor.list_mode_options().items():
        facts[f"options.mode.{mode}"] = f"{len(options)} options"
        facts |= {f"options.mode.{mode}.{name}": repr(value) for name, value in options.items()}
    return {"facts": facts, "environment": environment()}
