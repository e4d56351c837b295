"""Times two compiled forms of one workload against each other, in pairs, on a real device.

Decides how a pair is taken so that drift of clocks, placement in memory and
warm caches fall on both sides alike. Refuses to judge: it returns raw times.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
from torch._dynamo.utils import counters

from patchgate.probe.capture import Build

Replay = Callable[[], Any]
Round = dict[str, list[float]]
SIDES = ("unpatched", "patched")
# Pairs queued at once: few enough for the driver's launch queue.
_BLOCK = 40
# Cycles that the GPU waits before a block, so that launches are queued before they are timed.
_HEAD_START = 6_000_000
_STATE = "clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_event_reasons.active"


@contextlib.contextmanager
def _same_kernel_same_config() -> Iterator[None]:
    """No cached graph may answer, but a kernel that both sides share keeps the launch config chosen for it."""
    with (
        inductor_config.patch(fx_graph_cache=False, fx_graph_remote_cache=False, autotune_local_cache=True),
        functorch_config.patch(enable_autograd_cache=False, enable_remote_autograd_cache=False),
    ):
        yield


class Pair:
    """One workload compiled twice: as it is, and again after `change` has run."""

    def __init__(self, build: Build, *, dtype: torch.dtype, size: str, device: str, change: Callable[[], None]) -> None:
        self._device = torch.device(device)
        torch.manual_seed(0)
        self._module, self._args = build(self._device, dtype, size)
        self._compiled: list[Callable[..., Any]] = []
        self.first_call: dict[str, float] = {}
        self.peak_memory: dict[str, int] = {}
        with torch.no_grad(), _same_kernel_same_config():
            self._compile("unpatched")
            change()
            self._compile("patched")

    def _compile(self, side: str) -> None:
        function = torch.compile(_frame_of_its_own(self._module, side), dynamic=False)
        started = time.perf_counter()
        function(*self._args)
        self._wait()
        self.first_call[side] = time.perf_counter() - started
        self._compiled.append(function)
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            function(*self._args)
            self._wait()
            self.peak_memory[side] = torch.cuda.max_memory_allocated() - before

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()

    def rounds(self, *, rounds: int, seconds: float, seed: int) -> list[Round]:
        """`rounds` lists of paired times in microseconds, `seconds` in all; inputs and graphs are placed anew in each.

        What a side gains by where its memory happens to lie is noise, so it must vary from round to round.
        """
        chance = random.Random(seed)
        measure = self._on_gpu if self._device.type == "cuda" else self._on_cpu
        compiled = _graphs_compiled()
        with torch.no_grad(), _same_kernel_same_config():
            taken = list(measure(chance, rounds, seconds))
        if _graphs_compiled() != compiled:
            raise RuntimeError("a side was compiled again while it was timed: its times are not its own")
        return taken

    def _on_gpu(self, chance: random.Random, rounds: int, seconds: float) -> Iterator[Round]:
        level2 = torch.cuda.get_device_properties(self._device).L2_cache_size
        flush = torch.empty(2 * level2, dtype=torch.uint8, device=self._device)
        deadline = time.perf_counter() + seconds
        for number in range(rounds):
            padding = torch.empty(chance.randrange(1, 1 << 22), dtype=torch.uint8, device=self._device)
            order = chance.sample([0, 1], 2)
            graphs = {side: self._graph(self._compiled[side]) for side in order}
            _replayed(graphs, _BLOCK // 4, flush, chance)  # warm up
            until = time.perf_counter() + (deadline - time.perf_counter()) / (rounds - number)
            taken: Round = {side: [] for side in SIDES}
            while not taken["patched"] or time.perf_counter() < until:
                for side, times in zip(SIDES, _replayed(graphs, _BLOCK, flush, chance), strict=True):
                    taken[side] += times
            del padding, graphs
            yield taken

    def _graph(self, compiled: Callable[..., Any]) -> Replay:
        args = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in self._args]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            compiled(*args)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = compiled(*args)

        def replay(kept: Any = (kept, args)) -> None:
            graph.replay()

        return replay

    def _on_cpu(self, chance: random.Random, rounds: int, seconds: float) -> Iterator[Round]:
        deadline = time.perf_counter() + seconds
        for number in range(rounds):
            args = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in self._args]
            until = time.perf_counter() + (deadline - time.perf_counter()) / (rounds - number)
            taken: Round = {side: [] for side in SIDES}
            while not taken["patched"] or time.perf_counter() < until:
                for side in chance.sample([0, 1], 2):
                    started = time.perf_counter_ns()
                    self._compiled[side](*args)
                    taken[SIDES[side]].append((time.perf_counter_ns() - started) / 1e3)
            yield taken


def _frame_of_its_own(module: Callable[..., Any], side: str) -> Callable[..., Any]:
    """Dynamo keeps what it compiled by code object: shared, the second side would run what the first compiled."""

    def call(*args: Any) -> Any:
        return module(*args)

    own = types.FunctionType(call.__code__.replace(co_name=side), globals(), side, None, call.__closure__)
    return own


def _graphs_compiled() -> int:
    return int(counters["stats"]["unique_graphs"])


def _replayed(
    graphs: dict[int, Replay], pairs: int, flush: torch.Tensor, chance: random.Random
) -> tuple[list[float], list[float]]:
    """Microseconds of `pairs` replays of each graph, each from a cold L2, the order of a pair by chance."""
    ends = [{side: [torch.cuda.Event(enable_timing=True) for _ in range(2)] for side in graphs} for _ in range(pairs)]
    torch.cuda._sleep(_HEAD_START)
    for pair in ends:
        for side in chance.sample([0, 1], 2):
            flush.zero_()
            pair[side][0].record()
            graphs[side]()
            pair[side][1].record()
    torch.cuda.synchronize()
    first, second = ([pair[side][0].elapsed_time(pair[side][1]) * 1e3 for pair in ends] for side in (0, 1))
    return first, second


def device_state() -> str:
    """Clocks, temperature, power and throttle reasons, as the driver tells them."""
    try:
        command = ["nvidia-smi", f"--query-gpu={_STATE}", "--format=csv,noheader"]
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip() or "unknown"
    except (OSError, subprocess.SubprocessError):
        return "unknown"
