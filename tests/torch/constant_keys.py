"""Run by the Python of a torch row: for each pair of functions that share a cache, as JSON, whether
its results are others if the keys of both caches are constant.
"""

import json
from contextlib import ExitStack
from typing import Any
from unittest import mock

import torch
import torch._functorch._aot_autograd.autograd_cache as autograd_cache
import torch._inductor.codecache as codecache

from patchgate.probe.numerics.cache_key_programs import CACHE_KEY_PROGRAMS
from patchgate.probe.numerics.model_fragments import written_programs
from patchgate.probe.numerics.pass_programs import Program, function_of

MAKERS = ((codecache, "compiled_fx_graph_hash"), (autograd_cache, "autograd_cache_key"))


def constant(maker: Any) -> Any:
    return lambda *args, **kwargs: ("constant", *maker(*args, **kwargs)[1:])


def run(program: Program) -> list[torch.Tensor]:
    text, inputs = program
    return list(function_of(text)(*(tensor.clone() for tensor in inputs)))


def is_seen(program: Program) -> bool:
    """True if a constant key changes a result of the program, or makes it raise."""
    known = run(program)
    with ExitStack() as stack:
        for module, name in MAKERS:
            maker = constant(getattr(module, name))
            stack.enter_context(mock.patch.object(module, name, maker))
        try:
            found = run(program)
        except Exception:
            return True
    return not all(map(torch.equal, found, known))


generator = torch.Generator().manual_seed(0)
programs = [*written_programs(CACHE_KEY_PROGRAMS, generator, trained=False)]
print(json.dumps({"seen": [is_seen(program) for program in programs]}))
