"""Times two compiled forms of one workload against each other, in pairs, on a real GPU or on the
CPU.

Pairs are arranged so that drift of clocks, placement in memory and warm caches affect both sides
equally. Times are returned raw.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from statistics import median
from types import FunctionType
from typing import Any
from unittest import mock

import torch
import torch._inductor.config as inductor_config
from torch import Tensor
from torch._dynamo.utils import counters
from torch._inductor import list_mode_options

from patchgate.probe.compile.capture import Build, no_caches
from patchgate.probe.compile.observe import environment, load_build
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.protocol import (
    PATIENCE,
    Function,
    Round,
    Stage,
    Time,
    Times,
)
from patchgate.probe.simulate.device_context import device_context, device_name
from patchgate.probe.timing.device import DeviceQueue, device_state, warm_up
from patchgate.probe.timing.reload_kernels import GeneratedCode, KernelCache, collect_code

Replay = Callable[[], Any]
SIDES = ("unpatched", "patched")
# The number of pairs that are queued at once; they must fit into the driver's launch queue.
_BLOCK = 20
# Cycles that the GPU waits before a block, so that launches are queued before they are timed.
_HEAD_START = 6_000_000
# The number of copies of the inputs; calls on the CPU use them in turn.
_COPIES = 8
# The number of calls in which torch warms up, records and replays its graph.
_RECORDING_CALLS = 4


def time_workload(request: Time, stage: Stage) -> Times:
    """Return paired times of a workload, unpatched and patched; without a patch both sides are
    unpatched.
    """
    stage("compile")
    profile, mode = request["profile"], request.get("mode", "default")
    queue = DeviceQueue(request["queue"])
    before = device_state(profile["backend"])
    with device_context(profile | {"threads": 1}), queue.alone_in(GeneratedCode, "__call__"):
        # Tuning times every candidate on the device.
        with queue.alone() if _tunes_kernels(mode) else nullcontext():
            pair = Pair(
                load_build(request),
                dtype=getattr(torch, request["dtype"]),
                size=request["size"],
                device=profile["backend"],
                change=lambda: apply_patch(request, stage),
                built=request["built"],
                mode=mode,
                tuned=request["tuned"],
            )
        stage("time")
        with queue.alone():
            rounds = pair.rounds(
                rounds=request["rounds"], seconds=request["for_seconds"], seed=request["seed"]
            )
    after = device_state(profile["backend"])
    state = {"device": device_name(profile), "device before": before, "device after": after}
    return {
        "rounds": rounds,
        "first_call": pair.first_call,
        "peak_memory": pair.peak_memory,
        "elapsed": pair.elapsed,
        "warm_up": pair.warm_up,
        "tuned": pair.tuned,
        "held": queue.held,
        "environment": environment() | state,
    }


class Pair:
    """One workload compiled twice in one mode: before and after `change` has run.

    `built` is a folder for the Triton kernels of both sides, `tuned` a folder for the choices of a
    mode that tunes. `first_call` has the seconds of each side's first call, and `peak_memory` the
    bytes that a call allocates on a GPU. On the CPU `rounds` returns CPU times, and `elapsed` has
    the wall times of the same calls.
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
        self._device = torch.device(device)
        self._gpu = self._device.type == "cuda"
        self._mode, self.tuned = mode, _tunes_kernels(mode)
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self._module, self._args = build(self._device, dtype, size)
        self._compiled: list[Function] = []
        self._codes: list[list[GeneratedCode]] = []
        # Both sides use the same launch config for a kernel that they share, because another
        # config changed the time of a stack by 6 % on an H200.
        self._configs: dict[str, str] = {}
        self._recorded: list[Replay] = []
        self._kernels = {side: KernelCache(f"{built}/{side}") for side in SIDES}
        self.warm_up = ""
        self.first_call: dict[str, float] = {}
        self.peak_memory: dict[str, int] = {}
        self.elapsed: list[Round] = []
        with torch.no_grad(), no_caches(), _tuning_cache(mode, tuned):
            if self.tuned:
                self._tune()
            self._compile("unpatched")
            change()
            self._compile("patched")

    def _tune(self) -> None:
        """Compile once so that everything is tuned.

        Torch does not store a result for candidates that cannot be built. So a second compile
        tunes all candidates again and may choose others; a third one finds all results.
        """
        with self._kernels["unpatched"].use():
            torch.compile(with_own_code(self._module, "tuning"), dynamic=False, mode=self._mode)(
                *self._args
            )

    def _compile(self, side: str) -> None:
        function = torch.compile(with_own_code(self._module, side), dynamic=False, mode=self._mode)
        codes: list[GeneratedCode] = []
        started = time.perf_counter()
        # Code that is not tuned gets its launch configs when it is loaded again. Tuned code gets
        # them here: it is never loaded again, because a new tuning may choose other configs.
        with collect_code(codes, self._configs if self.tuned else {}), self._kernels[side].use():
            function(*self._args)
        self._synchronize()
        self.first_call[side] = time.perf_counter() - started
        self._compiled.append(function)
        self._codes.append(codes)
        for code in codes:
            self._configs = code.configs() | self._configs
        if self._gpu and not _replays_graphs(self._mode):
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            function(*self._args)
            self._synchronize()
            self.peak_memory[side] = torch.cuda.max_memory_allocated() - before

    def _synchronize(self) -> None:
        if self._gpu:
            torch.cuda.synchronize()

    def rounds(self, *, rounds: int, seconds: float, seed: int) -> list[Round]:
        """Return paired times of `rounds` rounds, which take `seconds` in all. Each round places
        code, inputs and buffers in memory anew.

        The effect of a side's place in memory is noise, so the place must vary between rounds.
        Give an even number of rounds, so that each side is placed first in half of them. Raises
        RuntimeError if a side was compiled again.
        """
        rng = random.Random(seed)
        measure = self._on_gpu if self._gpu else self._on_cpu
        compiled = _compiled_graphs()
        with torch.no_grad(), no_caches():
            times = list(measure(rng, rounds, seconds))
        if _compiled_graphs() != compiled:
            raise RuntimeError(
                "a side was compiled again while it was timed: its times are not its own"
            )
        return times

    def _on_gpu(self, rng: random.Random, rounds: int, seconds: float) -> Iterator[Round]:
        level2 = torch.cuda.get_device_properties(self._device).L2_cache_size
        flush = torch.empty(2 * level2, dtype=torch.uint8, device=self._device)
        # Calls take more CPU time than replays, so fewer of them are queued within the head start.
        block = _BLOCK // 2 if _replays_graphs(self._mode) else _BLOCK
        # The first round of a process is dropped: with it, the times of equal code differed by
        # 0.02 % on an H200.
        for number in range(-1, rounds):
            padding = torch.empty(rng.randrange(1, 1 << 22), dtype=torch.uint8, device=self._device)
            pairs = self._replay_pairs(number % 2)
            if number < 0:
                self.warm_up = warm_up(
                    median(itertools.chain(*time_replays(pairs[0], block, flush, rng)))
                    for _ in itertools.count()
                )
                del padding, pairs
                continue
            time_replays(pairs[0], _BLOCK // 4, flush, rng)
            deadline = time.perf_counter() + seconds / rounds
            times: Round = {side: [] for side in SIDES}
            while not times["patched"] or time.perf_counter() < deadline:
                for pair in pairs:
                    for side, more in zip(
                        SIDES, time_replays(pair, block, flush, rng), strict=True
                    ):
                        times[side] += more
            del padding, pairs
            yield times

    def _replay_pairs(self, outer: int) -> list[tuple[Replay, Replay]]:
        """Return pairs of (unpatched, patched); the side `outer` is placed first and last."""
        if _replays_graphs(self._mode):
            # Torch records a graph only once, so the effect of its place in memory stays in the
            # ratio of the times (docs/latency.md).
            self._recorded = self._recorded or [
                _recorded_call(compiled, self._args) for compiled in self._compiled
            ]
            return [(self._recorded[0], self._recorded[1])]
        # The place in memory of the graph that is captured first changes its time by 0.15 % on an
        # H200. Each side is captured twice, in an order that cancels this effect.
        placed = [self._graph(side) for side in (outer, 1 - outer, 1 - outer, outer)]
        return [(placed[outer], placed[1 - outer]), (placed[3 - outer], placed[2 + outer])]

    def _graph(self, side: int) -> Replay:
        """Capture one side and return a function that replays it. Inputs and buffers get new places
        in memory, and so does code that is not tuned.
        """
        compiled, args = self._compiled[side], _clone(self._args)
        stream = torch.cuda.Stream()
        with self._kernels[SIDES[side]].use():
            for code in self._codes[side] if not self.tuned else ():
                code.reload(self._configs)
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                compiled(*args)
        torch.cuda.current_stream().wait_stream(stream)
        if any(code.configs().items() - self._configs.items() for code in self._codes[side]):
            raise RuntimeError("a kernel got another launch config than it was compiled with")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = compiled(*args)

        # The tensors that the graph reads and writes live as long as it does.
        def replay(tensors: Any = (outputs, args)) -> None:
            graph.replay()

        return replay

    def _on_cpu(self, rng: random.Random, rounds: int, seconds: float) -> Iterator[Round]:
        """Measure CPU time of this process, because on a busy machine the waits of a call are
        longer than the cost of a patch.
        """
        for number in range(-1, rounds):
            padding = torch.empty(rng.randrange(1, 1 << 22), dtype=torch.uint8)
            inputs = [_clone(self._args) for _ in range(_COPIES)]
            if number < 0:
                self.warm_up = warm_up(
                    median(itertools.chain(*self._time_calls(inputs, rng, {}).values()))
                    for _ in itertools.count()
                )
                continue
            deadline = time.process_time() + seconds / rounds
            wall_deadline = time.perf_counter() + PATIENCE * seconds / rounds
            elapsed: Round = {}
            times = self._time_calls(inputs, rng, elapsed)
            while time.process_time() < deadline and time.perf_counter() < wall_deadline:
                more = self._time_calls(inputs, rng, elapsed)
                for side in SIDES:
                    times[side] += more[side]
            del padding, inputs
            self.elapsed.append(elapsed)
            yield times

    def _time_calls(
        self, inputs: Sequence[Sequence[Any]], rng: random.Random, elapsed: Round
    ) -> Round:
        """Call each side once on each input and return the microseconds of CPU time; wall times
        are added to `elapsed`.
        """
        times: Round = {side: [] for side in SIDES}
        for args in inputs:
            for at in rng.sample([0, 1], 2):
                wall_start, start = time.perf_counter_ns(), time.process_time_ns()
                self._compiled[at](*args)
                end, wall_end = time.process_time_ns(), time.perf_counter_ns()
                times[SIDES[at]].append((end - start) / 1e3)
                elapsed.setdefault(SIDES[at], []).append((wall_end - wall_start) / 1e3)
        return times


def _tunes_kernels(mode: str) -> bool:
    return bool(list_mode_options(mode).get("max_autotune"))


def _replays_graphs(mode: str) -> bool:
    """True if torch records and replays CUDA graphs by itself."""
    return bool(list_mode_options(mode).get("triton.cudagraphs"))


@contextmanager
def _tuning_cache(mode: str, folder: str | None) -> Iterator[None]:
    """Until the context ends, each kernel is tuned once and the choice is kept in `folder`.

    Kernels with the same source share a choice on both sides, because a second tuning may make
    equal code differ. Only the choices are kept; every compile still generates its own code.
    """
    if folder is None or not _tunes_kernels(mode):
        yield
        return
    with (
        mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": folder}),
        inductor_config.patch(autotune_local_cache=True),
    ):
        yield


def _recorded_call(compiled: Function, args: Sequence[Any]) -> Callable[[], Any]:
    """Return a call that torch has recorded as a CUDA graph and replays itself."""

    def call() -> None:
        # Without this the other side's last outputs count as alive, and torch records a graph
        # for each order of calls.
        torch.compiler.cudagraph_mark_step_begin()
        compiled(*args)

    for _ in range(_RECORDING_CALLS):
        call()
    torch.cuda.synchronize()
    return call


def _clone(args: Sequence[Any]) -> list[Any]:
    return [arg.clone() if isinstance(arg, Tensor) else arg for arg in args]


def with_own_code(module: Function, side: str) -> Function:
    """Wrap `module` in a function with a code object of its own.

    Dynamo stores compiled code by code object: with a shared one, the second side would run the
    compiled code of the first.
    """

    def call(*args: Any) -> Any:
        return module(*args)

    return FunctionType(
        call.__code__.replace(co_name=side), globals(), side, None, call.__closure__
    )


def _compiled_graphs() -> int:
    return int(counters["stats"]["unique_graphs"])


def time_replays(
    replays: tuple[Replay, Replay], pairs: int, flush: Tensor, rng: random.Random
) -> tuple[list[float], list[float]]:
    """Return the microseconds of `pairs` replays of each side, each with a cold L2 cache. Each side
    goes first in half of the pairs.
    """
    # Indexed by pair, side, and start or end.
    events = [
        [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in replays]
        for _ in range(pairs)
    ]
    first_sides = [number % 2 for number in range(pairs)]
    rng.shuffle(first_sides)
    torch.cuda._sleep(_HEAD_START)
    for pair, first in zip(events, first_sides, strict=True):
        for side in (first, 1 - first):
            flush.zero_()
            pair[side][0].record()
            replays[side]()
            pair[side][1].record()
    torch.cuda.synchronize()
    unpatched, patched = (
        [pair[side][0].elapsed_time(pair[side][1]) * 1e3 for pair in events] for side in (0, 1)
    )
    return unpatched, patched
