"""CPU time and instructions of a compile, unpatched and patched in turn; unlike Python calls they include C++.

The unpatched side is a process of its own, forked before the patch ran. Only one side works at a time. Instructions
are those in user space, from the processor's counter (Linux `perf_event_open`); without one the reason is given.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import platform
import random
import struct
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

SIDES = ("unpatched", "patched")
Cost = dict[str, float | int | None]  # "seconds" of CPU time, and "instructions" or None
# Number of the system call by machine; the C library has no function for it.
_SYSCALLS = {"x86_64": 298, "aarch64": 241}
# perf_event_attr, first version: type (hardware), size, config (instructions), no sampling, then flags.
_ATTRIBUTES = "<IIQQQQQ16x"
_SIZE = struct.calcsize(_ATTRIBUTES)
_HARDWARE, _INSTRUCTIONS = 0, 1
_NOT_THE_KERNEL, _NOT_THE_HYPERVISOR = 1 << 5, 1 << 6


def compile_costs(prepare: Callable[[], Callable[[], None]], change: Callable[[], None], pairs: int) -> dict[str, Any]:
    """Costs as `pairs` pairs of (unpatched, patched).

    `prepare` gives a function that compiles once; on the patched side `change` runs before it.
    """
    unpatched = _UnpatchedProcess(prepare)
    change()
    compile_once, counter = prepare(), InstructionCounter()
    measure: dict[str, Callable[[], Cost]] = {
        "unpatched": unpatched.cost,
        "patched": lambda: _cost(compile_once, counter),
    }
    rng, measured = random.Random(0), []
    for _ in range(pairs):
        costs = {side: measure[side]() for side in rng.sample(SIDES, 2)}
        measured.append([costs[side] for side in SIDES])
    return {
        "seconds": [[cost["seconds"] for cost in pair] for pair in measured],
        "instructions": {"unmeasured": counter.missing}
        if counter.missing
        else [[cost["instructions"] for cost in pair] for pair in measured],
    }


def _cost(compile_once: Callable[[], None], counter: InstructionCounter) -> Cost:
    gc.collect()
    gc.disable()
    before, started = counter.count(), time.process_time()
    compile_once()
    seconds, after = time.process_time() - started, counter.count()
    gc.enable()
    return {"seconds": seconds, "instructions": None if after is None or before is None else after - before}


class _UnpatchedProcess:
    """A fork of this process from before the patch ran; it compiles on request, and ends when its pipe closes."""

    def __init__(self, prepare: Callable[[], Callable[[], None]]) -> None:
        requests, self._requests = os.pipe()
        own_end, answers = os.pipe()
        if os.fork() == 0:
            os.close(self._requests)
            os.close(own_end)
            _serve(prepare, os.fdopen(requests), os.fdopen(answers, "w"))
        os.close(requests)
        os.close(answers)
        self._answers = os.fdopen(own_end)

    def cost(self) -> Cost:
        os.write(self._requests, b"\n")
        line = self._answers.readline()
        if not line:
            raise RuntimeError("the unpatched side did not compile")
        cost: Cost = json.loads(line)
        return cost


def _serve(prepare: Callable[[], Callable[[], None]], requests: TextIO, answers: TextIO) -> NoReturn:
    try:
        compile_once, counter = prepare(), InstructionCounter()
        for _ in requests:
            print(json.dumps(_cost(compile_once, counter)), file=answers, flush=True)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


class InstructionCounter:
    """`missing` says why nothing is counted; "" where it is."""

    def __init__(self) -> None:
        self._descriptor, self.missing = _open_counter()
        if not self.missing and not self.count():
            self.missing = "the counter stays at 0"

    def count(self) -> int | None:
        """Instructions since the counter was made; None where it is missing."""
        if self.missing:
            return None
        return int.from_bytes(os.read(self._descriptor, 8), "little")

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)


def _open_counter() -> tuple[int, str]:
    """(file descriptor of this thread's counter, or -1; why there is none, or "")."""
    number = _SYSCALLS.get(platform.machine())
    if number is None:
        return -1, f"no counter is known on {platform.machine()}"
    flags = _NOT_THE_KERNEL | _NOT_THE_HYPERVISOR
    attributes = struct.pack(_ATTRIBUTES, _HARDWARE, _SIZE, _INSTRUCTIONS, 0, 0, 0, flags)
    here, any_cpu, no_group = 0, -1, -1
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(number, attributes, here, any_cpu, no_group, 0)
    return descriptor, "" if descriptor >= 0 else f"perf_event_open: {os.strerror(ctypes.get_errno())}"
