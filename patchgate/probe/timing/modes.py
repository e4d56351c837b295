"""Settings of timing that a mode of torch.compile decides: kernels that are tuned, CUDA graphs that
are replayed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
import torch._inductor.config as inductor_config
from torch._inductor import list_mode_options

# Calls until torch has warmed up, recorded and replayed its graph.
_RECORDING_CALLS = 4


def tunes_kernels(mode: str) -> bool:
    return bool(list_mode_options(mode).get("max_autotune"))


def replays_graphs(mode: str) -> bool:
    """True if torch records and replays CUDA graphs by itself."""
    return bool(list_mode_options(mode).get("triton.cudagraphs"))


@contextlib.contextmanager
def tuning_cache(mode: str, folder: str | None) -> Iterator[None]:
    """Within it, what is tuned is tuned once and kept in `folder`.

    Both sides share the choice for a kernel that they share: tuned twice, equal code may come out
    unlike. Only choices are kept, by the kernel's source; every compile still generates its own
    code.
    """
    if folder is None or not tunes_kernels(mode):
        yield
        return
    with (
        mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": folder}),
        inductor_config.patch(autotune_local_cache=True),
    ):
        yield


def recorded_call(compiled: Callable[..., Any], args: Sequence[Any]) -> Callable[[], Any]:
    """A call of what torch replays by itself, once it has recorded it."""

    def call() -> None:
        # Without it the other side's last outputs count as alive, and torch records a graph for
        # each order of calls.
        torch.compiler.cudagraph_mark_step_begin()
        compiled(*args)

    for _ in range(_RECORDING_CALLS):
        call()
    torch.cuda.synchronize()
    return call
