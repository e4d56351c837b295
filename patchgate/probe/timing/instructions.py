"""Instructions that this thread has executed, as the processor counts them, where the kernel lets us ask.

Decides what is counted: user space only, so that the machine's own work is left out. Where there is no
counter it says why, and never 0.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct

# `perf_event_open` has no function in the C library.
_CALLS = {"x86_64": 298, "aarch64": 241}
# perf_event_attr, first version: type (hardware), size, config (instructions), no sampling, then flags.
_ATTRIBUTES = "<IIQQQQQ16x"
_SIZE = struct.calcsize(_ATTRIBUTES)
_HARDWARE, _INSTRUCTIONS = 0, 1
_NOT_THE_KERNEL, _NOT_THE_HYPERVISOR = 1 << 5, 1 << 6


class Counter:
    """`count` since it was made; None where `missing` says why nothing is counted."""

    def __init__(self) -> None:
        self._descriptor, self.missing = _opened()
        if not self.missing and not self.count():
            self.missing = "the counter stays at 0"

    def count(self) -> int | None:
        if self.missing:
            return None
        return int.from_bytes(os.read(self._descriptor, 8), "little")

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)


def _opened() -> tuple[int, str]:
    """A descriptor of the counter of this thread, or -1 and why there is none."""
    number = _CALLS.get(platform.machine())
    if number is None:
        return -1, f"no counter is known on {platform.machine()}"
    flags = _NOT_THE_KERNEL | _NOT_THE_HYPERVISOR
    asked = struct.pack(_ATTRIBUTES, _HARDWARE, _SIZE, _INSTRUCTIONS, 0, 0, 0, flags)
    here, any_cpu, no_group = 0, -1, -1
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(number, asked, here, any_cpu, no_group, 0)
    return descriptor, "" if descriptor >= 0 else f"perf_event_open: {os.strerror(ctypes.get_errno())}"
