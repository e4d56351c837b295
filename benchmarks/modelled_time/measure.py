"""Measures one block of a model on the GPU: as it is, and under each change to the compiler, in pairs of replays."""

from __future__ import annotations

import contextlib
import random
import re
import runpy
import statistics
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
import torch._inductor.config as inductor_config
from torch._inductor.ir import StorageBox
from torch._inductor.runtime.triton_heuristics import CachingAutotuner

from benchmarks.modelled_time.blocks import BLOCKS
from patchgate.model.paths import ROOT
from patchgate.probe.compile.capture import Captured, no_caches, record_lowering
from patchgate.probe.timing.device_queue import DeviceQueue
from patchgate.probe.timing.paired import time_replays, with_own_code
from patchgate.probe.timing.reload_kernels import GeneratedCode, KernelCache, collect_code

UNPATCHED = "unpatched"
SAME = "same"
#: Options of Inductor that change what is fused, stored or split.
OPTIONS: dict[str, dict[str, Any]] = {
    "reads threshold 1": {"realize_reads_threshold": 1},
    "opcount threshold 5": {"realize_opcount_threshold": 5},
    "inline all": {
        "realize_reads_threshold": 1000,
        "realize_opcount_threshold": 1000,
        "realize_acc_reads_threshold": 1000,
    },
    "fusion size 1": {"max_fusion_size": 1},
    "fusion size 3": {"max_fusion_size": 3},
    "no split reductions": {"split_reductions": False},
    "combo kernels": {"combo_kernels": True},
    "no persistent reductions": {"triton.persistent_reductions": False},
    "no pattern matcher": {"pattern_matcher": False},
    "nd tiling": {"triton.prefer_nd_tiling": True},
    "no reuse of buffers": {"allow_buffer_reuse": False, "inplace_buffers": False},
    "no online softmax": {"online_softmax": False},
    "no tiling analysis": {"triton.coalesce_tiling_analysis": False},
    SAME: {},
}
PATCH = "vllm-42686"
CHANGES = (PATCH, *OPTIONS)
_PAIRS, _REPEATS = 20, 6
# Cycles that the GPU waits, so that a launch is queued before it is timed.
_HEAD_START = 200_000


@contextlib.contextmanager
def changed(change: str) -> Iterator[None]:
    """Within it the compiler is changed."""
    if change == PATCH:
        with mock.patch.object(StorageBox, "should_realize_on_reuse", StorageBox.should_realize_on_reuse):
            runpy.run_path(str(ROOT / "fixtures" / "patches" / PATCH / "patch.py"))
            yield
        return
    with inductor_config.patch(OPTIONS.get(change, {})):
        yield


class Block:
    """One block compiled as it is, to be compared with itself compiled by a changed compiler."""

    def __init__(self, name: str, *, built: str, queue: str) -> None:
        torch.manual_seed(0)
        self._queue = DeviceQueue(queue)
        with torch.device("cuda"):
            self._function, self._args = BLOCKS[name]()
        self._built = built
        self._configs: dict[str, str] = {}
        level2 = torch.cuda.get_device_properties(0).L2_cache_size
        self._flush = torch.empty(2 * level2, dtype=torch.uint8, device="cuda")
        self._calls: dict[str, Any] = {}
        self.captured: dict[str, Captured] = {}

    def compile(self, change: str) -> bool:
        """Compile it under a change; false where the generated code is that of the unchanged compiler."""
        codes: list[GeneratedCode] = []
        captured = Captured()
        function = torch.compile(with_own_code(self._function, re.sub(r"\W", "_", change)), dynamic=False)
        with (
            torch.no_grad(), no_caches(), changed(change), record_lowering(captured, run=True),
            collect_code(codes, self._configs), KernelCache(self._built).use(),
            self._queue.alone_in(GeneratedCode, "__call__"),
            mock.patch.object(CachingAutotuner, "benchmark_all_configs", self._tuned),
        ):  # fmt: skip
            function(*self._args)
            torch.cuda.synchronize()
        if change not in (UNPATCHED, SAME) and _texts(captured) == _texts(self.captured[UNPATCHED]):
            return False
        for code in codes:
            self._configs = code.configs() | self._configs
        self.captured[change], self._calls[change] = captured, function
        return True

    @property
    def _tuned(self) -> Any:
        """In place of the autotuner's own timings, which choose by chance: each config in turn, from a flushed L2."""
        flush = self._flush

        def timings(kernel: CachingAutotuner, *args: Any, **kwargs: Any) -> dict[Any, float]:
            stream = torch.cuda.current_stream().cuda_stream
            launchers = sorted(kernel.launchers, key=lambda launcher: str(launcher.config))
            own, more = kernel.clone_args(*args, **kwargs)
            taken: dict[Any, list[float]] = {launcher: [] for launcher in launchers}
            for _ in range(12):
                for launcher in launchers:
                    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    flush.zero_()
                    torch.cuda._sleep(_HEAD_START)
                    start.record()
                    launcher(*own, **more, stream=stream)
                    end.record()
                    torch.cuda.synchronize()
                    taken[launcher].append(start.elapsed_time(end))
            kernel.reset_to_zero_args(*args, **kwargs)
            best = min(statistics.median(times) for times in taken.values())
            # The first of those that are about as fast: chance chooses nothing.
            return {
                launcher: number if statistics.median(taken[launcher]) < 1.03 * best else 1e9
                for number, launcher in enumerate(launchers)
            }

        return timings

    def _replay(self, change: str) -> Any:
        args = [arg.clone() for arg in self._args]
        graph, function = torch.cuda.CUDAGraph(), self._calls[change]
        with torch.no_grad(), torch.cuda.graph(graph):
            outputs = function(*args)

        def replay(tensors: Any = (outputs, args)) -> None:
            graph.replay()

        return replay

    def compare(self, change: str) -> dict[str, Any]:
        """Medians of both sides in microseconds, and the ratio in each repeat."""
        rng, ratios, medians = random.Random(0), [], []
        with self._queue.alone():
            for repeat in range(_REPEATS):
                padding = torch.empty(rng.randrange(1, 1 << 22), dtype=torch.uint8, device="cuda")
                order = (UNPATCHED, change) if repeat % 2 else (change, UNPATCHED)
                placed = {side: self._replay(side) for side in order}
                pair = (placed[UNPATCHED], placed[change])
                if not repeat:
                    time_replays(pair, _PAIRS, self._flush, rng)
                times = time_replays(pair, _PAIRS, self._flush, rng)
                medians.append([statistics.median(side) for side in times])
                ratios.append(medians[-1][1] / medians[-1][0])
                del padding, placed, pair
        unpatched, patched = (statistics.median(column) for column in zip(*medians, strict=True))
        return {"us": [round(unpatched, 2), round(patched, 2)], "ratios": [round(ratio, 5) for ratio in ratios]}


def _texts(captured: Captured) -> list[str]:
    return [re.sub(r"# AOT ID: .*", "", code) for code in captured.code]


def measure(name: str, built: str, queue: str, deadline: float) -> dict[str, Any]:
    """The launches of each side, and what each change was measured to do (None where the code is the same)."""
    block = Block(name, built=built, queue=queue)
    block.compile(UNPATCHED)
    rows: dict[str, Any] = {}
    for change in CHANGES:
        if time.time() > deadline:
            break
        try:
            rows[change] = block.compare(change) if block.compile(change) else None
        except Exception as error:  # the others are measured nevertheless
            rows[change] = {"error": f"{type(error).__name__}: {str(error)[-300:]}"}
    launches = {
        side: [list(launch.values()) for graph in captured.lowered for launch in graph.launches]
        for side, captured in block.captured.items()
    }
    return {"block": name, "changes": rows, "launches": launches}
