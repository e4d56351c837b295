"""Times two compiled forms of one workload against each other, in pairs, on a real device.

Decides how a pair is taken so that drift of clocks, placement in memory and
warm caches fall on both sides alike. Refuses to judge: it returns raw times.
"""

from __future__ import annotations

import contextlib
import functools
import random
import subprocess
import time
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch._dynamo.utils import counters
from torch._inductor.async_compile import CompiledTritonKernels
from torch._inductor.codecache import PyCodeCache
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime.triton_heuristics import CachingAutotuner

from patchgate.probe.capture import Build, no_caches

Replay = Callable[[], Any]
Round = dict[str, list[float]]
SIDES = ("unpatched", "patched")
# Pairs queued at once: few enough for the driver's launch queue.
_BLOCK = 20
# Cycles that the GPU waits before a block, so that launches are queued before they are timed.
_HEAD_START = 6_000_000
_STATE = "clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_event_reasons.active"


class _Code:
    """The generated module of one graph; loaded anew, its kernels lie elsewhere in the device's memory."""

    def __init__(self, load: Callable[[], types.ModuleType], module: types.ModuleType) -> None:
        self._load, self._kernels = load, _kernels(module)
        self._call: Callable[..., Any] = module.call

    def load_anew(self, configs: dict[str, str]) -> None:
        """Load it again; kernels that are in `configs` keep their launch config, the others choose one when called."""
        CompiledTritonKernels.cache_clear()
        module = self._load()
        self._call, self._kernels = module.call, _kernels(module)
        for kernel in self._kernels:
            if not kernel.launchers:
                kernel.precompile()
            kept = [one for one in kernel.launchers if str(one.config) == configs.get(kernel.filename)]
            kernel.launchers = kept or kernel.launchers

    def configs(self) -> dict[str, str]:
        """The launch config of each kernel that has run, by the file of its source: equal source, equal file."""
        return {one.filename: str(one.launchers[0].config) for one in self._kernels if len(one.launchers) == 1}

    def __call__(self, args: Any) -> Any:
        return self._call(args)


def _kernels(module: types.ModuleType) -> list[CachingAutotuner]:
    return [value for value in vars(module).values() if isinstance(value, CachingAutotuner)]


@contextlib.contextmanager
def _loading(codes: list[_Code]) -> Iterator[None]:
    """Every module that Inductor generates goes to `codes`, and is called through it."""
    load_by_key_path, compile_to_module = PyCodeCache.load_by_key_path, GraphLowering.compile_to_module
    loads: list[Callable[[], types.ModuleType]] = []

    def recorded_load(*args: Any, **kwargs: Any) -> Any:
        module = load_by_key_path(*args, **kwargs)
        loads.append(functools.partial(load_by_key_path, *args, **kwargs))
        return module

    def recorded_compile(self: GraphLowering) -> Any:
        module = compile_to_module(self)
        # Kernels are modules too, loaded while the graph's own is.
        codes.append(_Code(loads[-1], module))
        module.call = codes[-1]
        return module

    with (
        mock.patch.object(PyCodeCache, "load_by_key_path", recorded_load),
        mock.patch.object(GraphLowering, "compile_to_module", recorded_compile),
    ):
        yield


class Pair:
    """One workload compiled twice: as it is, and again after `change` has run."""

    def __init__(self, build: Build, *, dtype: torch.dtype, size: str, device: str, change: Callable[[], None]) -> None:
        self._device = torch.device(device)
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self._module, self._args = build(self._device, dtype, size)
        self._compiled: list[Callable[..., Any]] = []
        self._codes: list[list[_Code]] = []
        # A kernel that both sides share has one launch config: another one is worth 6 % of a stack on an H200.
        self._configs: dict[str, str] = {}
        self.first_call: dict[str, float] = {}
        self.peak_memory: dict[str, int] = {}
        with torch.no_grad(), no_caches():
            self._compile("unpatched")
            change()
            self._compile("patched")

    def _compile(self, side: str) -> None:
        function = torch.compile(_frame_of_its_own(self._module, side), dynamic=False)
        codes: list[_Code] = []
        started = time.perf_counter()
        with _loading(codes):
            function(*self._args)
        self._wait()
        self.first_call[side] = time.perf_counter() - started
        self._compiled.append(function)
        self._codes.append(codes)
        for code in codes:
            self._configs = code.configs() | self._configs
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
        """`rounds` lists of paired times in microseconds, `seconds` in all; code, inputs and buffers are placed anew
        in each.

        What a side gains by where it happens to lie is noise, so it must vary from round to round: an even
        number of them, so that each side is placed first in half.
        """
        chance = random.Random(seed)
        measure = self._on_gpu if self._device.type == "cuda" else self._on_cpu
        compiled = _graphs_compiled()
        with torch.no_grad(), no_caches():
            taken = list(measure(chance, rounds, seconds))
        if _graphs_compiled() != compiled:
            raise RuntimeError("a side was compiled again while it was timed: its times are not its own")
        return taken

    def _on_gpu(self, chance: random.Random, rounds: int, seconds: float) -> Iterator[Round]:
        level2 = torch.cuda.get_device_properties(self._device).L2_cache_size
        flush = torch.empty(2 * level2, dtype=torch.uint8, device=self._device)
        # The first round of a process is unlike the others: with it, equal code came out 0.02 % apart on an H200.
        for number in range(-1, rounds):
            padding = torch.empty(chance.randrange(1, 1 << 22), dtype=torch.uint8, device=self._device)
            outer = number % 2
            # Whoever is captured first lies elsewhere in memory, worth 0.15 % on an H200: each side is
            # captured twice, and the order is such that the gain of a place cancels.
            placed = [self._graph(side) for side in (outer, 1 - outer, 1 - outer, outer)]
            couples = [(placed[outer], placed[1 - outer]), (placed[3 - outer], placed[2 + outer])]
            _replayed(couples[0], _BLOCK // 4, flush, chance)  # warm up
            until = time.perf_counter() + (seconds / rounds if number >= 0 else 0)
            taken: Round = {side: [] for side in SIDES}
            while not taken["patched"] or time.perf_counter() < until:
                for couple in couples:
                    for side, times in zip(SIDES, _replayed(couple, _BLOCK, flush, chance), strict=True):
                        taken[side] += times
            del padding, placed, couples
            if number >= 0:
                yield taken

    def _graph(self, side: int) -> Replay:
        """A replay of one side: its code, inputs and buffers placed anew."""
        compiled = self._compiled[side]
        for code in self._codes[side]:
            code.load_anew(self._configs)
        args = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in self._args]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            compiled(*args)
        torch.cuda.current_stream().wait_stream(stream)
        if any(code.configs().items() - self._configs.items() for code in self._codes[side]):
            raise RuntimeError("a kernel got another launch config than it was compiled with")
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

    return types.FunctionType(call.__code__.replace(co_name=side), globals(), side, None, call.__closure__)


def _graphs_compiled() -> int:
    return int(counters["stats"]["unique_graphs"])


def _replayed(
    graphs: tuple[Replay, Replay], pairs: int, flush: torch.Tensor, chance: random.Random
) -> tuple[list[float], list[float]]:
    """Microseconds of `pairs` replays of each graph, each from a cold L2; half of the pairs start with either side."""
    ends = [[[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in graphs] for _ in range(pairs)]
    starts = [number % 2 for number in range(pairs)]
    chance.shuffle(starts)
    torch.cuda._sleep(_HEAD_START)
    for pair, start in zip(ends, starts, strict=True):
        for side in (start, 1 - start):
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
