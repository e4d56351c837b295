"""Instructions that this thread has executed in user space, from the processor's counter (Linux `perf_event_open`).

Where there is no counter the reason is given, and never 0.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct

# Number of the system call by machine; the C library has no function for it.
_SYSCALLS = {"x86_64": 298, "aarch64": 241}
# perf_event_attr, first version: type (hardware), size, config (instructions), no sampling, then flags.
_ATTRIBUTES = "<IIQQQQQ16x"
_SIZE = struct.calcsize(_ATTRIBUTES)
_HARDWARE, _INSTRUCTIONS = 0, 1
_NOT_THE_KERNEL, _NOT_THE_HYPERVISOR = 1 << 5, 1 << 6


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
