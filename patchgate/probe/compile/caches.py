"""Compiles one workload with the compiler's own caches on, and records the hits and misses of the
caches and the resulting code.

The code is the text of every module that the compiler loaded, cached or generated. Kernels are not
built: compiled C++ is found by its text, so its cache hides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
import torch.compiler.config as compiler_config
from torch._dynamo.utils import counters
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import PyCodeCache
from torch._inductor.graph import GraphLowering

from patchgate.probe.compile.generated_code import digest_of_code
from patchgate.probe.compile.observe import load_build
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.patch.coverage import covering
from patchgate.probe.protocol import Cached, CompileCached, Stage
from patchgate.probe.simulate.device_context import device_context

# The two local caches count hits, misses, and bypasses: graphs that they refused.
_RESULTS = ("hit", "miss", "bypass")
# Types of options that an answer can contain.
_PLAIN = (bool, int, float, str, type(None))
# The name of a kernel, which Inductor makes from the kernel's operators. No cache key contains it.
_KERNEL = re.compile(r"\b(?:cpp|triton_[a-z]+)_fused_\w+")


@contextmanager
def local_caches(tag: str) -> Iterator[None]:
    """Until the context ends, both local caches are on, below TORCHINDUCTOR_CACHE_DIR, and remote
    caches are off. `tag` is appended to the key tag that the patch may have set.
    """
    with (
        compiler_config.patch(cache_key_tag=compiler_config.cache_key_tag + tag),
        inductor_config.patch(
            force_disable_caches=False,
            fx_graph_cache=True,
            fx_graph_remote_cache=False,
            compile_threads=1,
        ),
        functorch_config.patch(enable_autograd_cache=True, enable_remote_autograd_cache=False),
    ):
        yield


def observe_caches(request: CompileCached, stage: Stage) -> Cached:
    """Return the counts of the compiler's caches, the SHA-256 of each module of the workload in
    order, and the options that are not torch's defaults.
    """
    apply_patch(request, stage)
    stage("compile")
    with (
        inductor_config.patch(request.get("options", {})),
        _options_in_force() as options,
        covering(request) as coverage,
    ):
        counts, code = compile_cached(request)
    return {"answers": counts, "code": code, "options": options, **coverage}


@contextmanager
def _options_in_force() -> Iterator[dict[str, Any]]:
    """Yield the options of Inductor that have other values than torch's defaults, in each graph
    that is lowered until the context ends. Options with a value that is not plain are left out.
    """
    options: dict[str, Any] = {}
    run = GraphLowering.run

    def noted(self: GraphLowering, *args: Any) -> Any:
        for name, value in inductor_config.shallow_copy_dict().items():
            if isinstance(value, _PLAIN) and not inductor_config._is_default(name):
                options[name] = value
        return run(self, *args)

    with mock.patch.object(GraphLowering, "run", noted):
        yield options


def compile_cached(request: CompileCached) -> tuple[dict[str, int], list[str]]:
    """Compile and call the workload on the CPU, in training with the backward. Return the counts of
    the caches and the digests of the code.
    """
    build, training = load_build(request), request.get("training", False)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    counters.clear()
    loaded = len(PyCodeCache.modules)
    with (
        torch.set_grad_enabled(training),
        functorch_config.patch(force_non_lazy_backward_lowering=training),
        local_caches(request["tag"]),
        device_context(request["profile"]),
        # Kernels do nothing, because their results are not needed.
        mock.patch.object(AsyncCompile, "cpp_pybinding", lambda *_: lambda *_: None),
        mock.patch.object(AsyncCompile, "cpp", lambda *_: lambda *_: None),
        # Buffers are zero, because an operator may read indices that a kernel should have written.
        mock.patch.object(torch._C._dynamo.guards, "_empty_strided_cpu", _zeros_strided),
    ):
        device, dtype = request["profile"]["backend"], getattr(torch, request["dtype"])
        module, args = build(torch.device(device), dtype, "small")
        torch.compile(module, dynamic=request["dynamic"])(*args)
    counts = {name: counters["inductor"][f"fxgraph_cache_{name}"] for name in _RESULTS}
    counts |= {
        f"autograd_{name}": counters["aot_autograd"][f"autograd_cache_{name}"] for name in _RESULTS
    }
    return counts, [digest_of_code(with_numbered_kernels(text)) for text in loaded_code(loaded)]


def _zeros_strided(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype).zero_()


def loaded_code(after: int = 0) -> list[str]:
    """Return the texts of the loaded generated modules, in order, without the first `after`."""
    texts = []
    for module in PyCodeCache.modules[after:]:
        with open(module.__file__, encoding="utf-8") as file:
            texts.append(file.read())
    return texts


def with_numbered_kernels(text: str) -> str:
    """Return generated code with its kernels named by their order.

    Equal graphs share an entry of the cache even if the names of their kernels differ.
    """
    numbers: dict[str, str] = {}
    return _KERNEL.sub(lambda name: numbers.setdefault(name[0], f"kernel_{len(numbers)}"), text)
