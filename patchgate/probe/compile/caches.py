"""Compiles one workload with the compiler's own caches on: hits and misses, and the code that came
out.

The code is the text of every module that the compiler loaded, cached or generated. Kernels are not
built: compiled C++ is found by its own text, and so hides nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
import torch.compiler.config as compiler_config
from torch._dynamo.utils import counters
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import PyCodeCache

from patchgate.probe.compile.capture import Build
from patchgate.probe.compile.generated_code import digest_of_code
from patchgate.probe.protocol import Profile
from patchgate.probe.simulate.device_context import device_context

# What the two local caches count: entries found, not found, and graphs that they would not take.
_RESULTS = ("hit", "miss", "bypass")


@contextlib.contextmanager
def local_caches(tag: str) -> Iterator[None]:
    """Both caches on, below TORCHINDUCTOR_CACHE_DIR and nowhere else; `tag` is appended to the
    patch's own key tag.
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


def compile_cached(
    build: Build, *, dtype: torch.dtype, dynamic: bool, training: bool, profile: Profile, tag: str
) -> dict[str, Any]:
    """Compile and call what `build` makes on the CPU: the caches' counts, and SHA-256 of each
    module, in order.

    Training, the backward is compiled with the forward.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    counters.clear()
    loaded = len(PyCodeCache.modules)
    with (
        torch.set_grad_enabled(training),
        functorch_config.patch(force_non_lazy_backward_lowering=training),
        local_caches(tag),
        device_context(profile),
        mock.patch.object(AsyncCompile, "cpp_pybinding", lambda *args: _no_kernel),
        mock.patch.object(AsyncCompile, "cpp", lambda *args: _no_kernel),
    ):
        module, args = build(torch.device(profile["backend"]), dtype, "small")
        torch.compile(module, dynamic=dynamic)(*args)
    counts = {name: counters["inductor"][f"fxgraph_cache_{name}"] for name in _RESULTS}
    counts |= {
        f"autograd_{name}": counters["aot_autograd"][f"autograd_cache_{name}"] for name in _RESULTS
    }
    return {"answers": counts, "code": loaded_code(loaded)}


def _no_kernel(*args: Any) -> None:
    """In place of a kernel, whose results nobody needs."""


def loaded_code(after: int = 0) -> list[str]:
    """Digests of the generated modules that this process has loaded, in order, but for the first
    ones.
    """
    texts = []
    for module in PyCodeCache.modules[after:]:
        with open(module.__file__, encoding="utf-8") as file:
            texts.append(file.read())
    return [digest_of_code(text) for text in texts]
