"""Times two compiled forms of one workload against each other, in pairs, on a real GPU or on the CPU.

Decides how a pair is taken so that drift of clocks, placement in memory and
warm caches fall on both sides alike. Refuses to judge: it returns raw times.
"""

from __future__ import annotations

import itertools
import random
import time
import types
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

import torch
from torch._dynamo.utils import counters

from patchgate.probe.compile import modes
from patchgate.probe.compile.capture import Build, no_caches
from patchgate.probe.compile.generated_code import Built, Code, loading
from patchgate.probe.process.cpu_wait_clock import PATIENCE
from patchgate.probe.timing.warmup import warm_up

Replay = Callable[[], Any]
Round = dict[str, list[float]]
SIDES = ("unpatched", "patched")
# Pairs queued at once: few enough for the driver's launch queue.
_BLOCK = 20
# Cycles that the GPU waits before a block, so that launches are queued before they are timed.
_HEAD_START = 6_000_000
# Copies of the inputs that calls on the CPU take in turn.
_COPIES = 8


class Pair:
    """One workload compiled twice in one mode: as it is, and again after `change` has run.

    Two folders keep what the sides need again: `built` their Triton kernels, `tuned` what the mode tunes.
    """

    def __init__(
        self,
        build: Build,
        *,
        dtype: torch.dtype,
        size: str,
        device: str,
        change: Callable[[], None],
        built: str,
        mode: str = "default",
        tuned: str | None = None,
    ) -> None:
        self._device, self._mode, self.tuned = torch.device(device), mode, modes.tunes(mode)
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self._module, self._args = build(self._device, dtype, size)
        self._compiled: list[Callable[..., Any]] = []
        self._codes: list[list[Code]] = []
        # A kernel that both sides share has one launch config: another one is worth 6 % of a stack on an H200.
        self._configs: dict[str, str] = {}
        self._recorded: list[Replay] = []
        self._built = {side: Built(f"{built}/{side}") for side in SIDES}
        self.warm_up = ""
        self.first_call: dict[str, float] = {}
        self.peak_memory: dict[str, int] = {}
        # On the CPU, where time is what the process computed: what went by meanwhile.
        self.elapsed: list[Round] = []
        with torch.no_grad(), no_caches(), modes.remembering(mode, tuned):
            if self.tuned:
                self._tune()
            self._compile("unpatched")
            change()
            self._compile("patched")

    def _tune(self) -> None:
        """Compile once for the sake of what is tuned.

        Torch does not remember candidates that cannot be built, and a second compile therefore tunes all of them
        again and may choose otherwise; the third finds everything.
        """
        with self._built["unpatched"].answering():
            torch.compile(_frame_of_its_own(self._module, "tuning"), dynamic=False, mode=self._mode)(*self._args)

    def _compile(self, side: str) -> None:
        function = torch.compile(_frame_of_its_own(self._module, side), dynamic=False, mode=self._mode)
        codes: list[Code] = []
        started = time.perf_counter()
        # Loaded anew, code is pinned in each round; tuned code is not, and a second tuning may choose otherwise.
        with loading(codes, self._configs if self.tuned else {}), self._built[side].answering():
            function(*self._args)
        self._wait()
        self.first_call[side] = time.perf_counter() - started
        self._compiled.append(function)
        self._codes.append(codes)
        for code in codes:
            self._configs = code.configs() | self._configs
        if self._device.type == "cuda" and not modes.replays(self._mode):
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
        # A call takes the CPU longer than a replay: fewer of them are queued within the head start.
        block = _BLOCK // 2 if modes.replays(self._mode) else _BLOCK
        # The first round of a process is unlike the others: with it, equal code came out 0.02 % apart on an H200.
        for number in range(-1, rounds):
            padding = torch.empty(chance.randrange(1, 1 << 22), dtype=torch.uint8, device=self._device)
            couples = self._couples(number % 2)
            if number < 0:
                self.warm_up = warm_up(
                    median(itertools.chain(*_replayed(couples[0], block, flush, chance))) for _ in itertools.count()
                )
                del padding, couples
                continue
            _replayed(couples[0], _BLOCK // 4, flush, chance)
            until = time.perf_counter() + seconds / rounds
            taken: Round = {side: [] for side in SIDES}
            while not taken["patched"] or time.perf_counter() < until:
                for couple in couples:
                    for side, times in zip(SIDES, _replayed(couple, block, flush, chance), strict=True):
                        taken[side] += times
            del padding, couples
            yield taken

    def _couples(self, outer: int) -> list[tuple[Replay, Replay]]:
        """Replays of both sides, to be timed against each other."""
        if modes.replays(self._mode):
            # Torch records once and for all: what a place is worth stays in the ratio (docs/latency.md).
            self._recorded = self._recorded or [modes.recorded(one, self._args) for one in self._compiled]
            return [(self._recorded[0], self._recorded[1])]
        # Whoever is captured first lies elsewhere in memory, worth 0.15 % on an H200: each side is
        # captured twice, and the order is such that the gain of a place cancels.
        placed = [self._graph(side) for side in (outer, 1 - outer, 1 - outer, outer)]
        return [(placed[outer], placed[1 - outer]), (placed[3 - outer], placed[2 + outer])]

    def _graph(self, side: int) -> Replay:
        """A replay of one side: its inputs and buffers placed anew, and its code unless that would tune it again."""
        compiled, args = self._compiled[side], _copied(self._args)
        stream = torch.cuda.Stream()
        with self._built[SIDES[side]].answering():
            for code in self._codes[side] if not self.tuned else ():
                code.load_anew(self._configs)
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
        """Times of the process's own clock: beside other work, a call waits for longer than a patch costs."""
        for number in range(-1, rounds):
            padding = torch.empty(chance.randrange(1, 1 << 22), dtype=torch.uint8)
            inputs = [_copied(self._args) for _ in range(_COPIES)]
            if number < 0:
                self.warm_up = warm_up(
                    median(itertools.chain(*self._called(inputs, chance)[0].values())) for _ in itertools.count()
                )
                continue
            until, at_latest = (
                time.process_time() + seconds / rounds,
                time.perf_counter() + PATIENCE * seconds / rounds,
            )
            taken, elapsed = self._called(inputs, chance)
            while time.process_time() < until and time.perf_counter() < at_latest:
                for whole, more in zip((taken, elapsed), self._called(inputs, chance), strict=True):
                    for side in SIDES:
                        whole[side] += more[side]
            del padding, inputs
            self.elapsed.append(elapsed)
            yield taken

    def _called(self, inputs: Sequence[Sequence[Any]], chance: random.Random) -> tuple[Round, Round]:
        """Microseconds of a call of each side on each input: computing, and in all."""
        taken: Round = {side: [] for side in SIDES}
        elapsed: Round = {side: [] for side in SIDES}
        for args in inputs:
            for side in chance.sample([0, 1], 2):
                began, started = time.perf_counter_ns(), time.process_time_ns()
                self._compiled[side](*args)
                ended, stopped = time.process_time_ns(), time.perf_counter_ns()
                taken[SIDES[side]].append((ended - started) / 1e3)
                elapsed[SIDES[side]].append((stopped - began) / 1e3)
        return taken, elapsed


def _copied(args: Sequence[Any]) -> list[Any]:
    return [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args]


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
