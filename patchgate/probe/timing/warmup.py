"""What state a device is in before and after it is timed, and whether it is warm.

Decides what is told of clocks, throttling and load, and what counts as warm. Refuses to judge.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

# Two blocks in a row that took the same time within this; more time is not spent on it.
_SAME = 0.002
_SECONDS = 1.0
_STATE = "clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_event_reasons.active"


def warm_up(medians: Iterator[float]) -> str:
    """Take blocks, each told by its median time, until two in a row are the same; tells how that went."""
    until = time.perf_counter() + _SECONDS
    before = next(medians)
    for blocks, now in enumerate(medians, 2):
        change = now / before - 1
        if abs(change) < _SAME:
            return f"warm after {blocks} blocks"
        if time.perf_counter() > until:
            return f"not steady after {blocks} blocks: {change:+.2%} in the last"
        before = now
    raise ValueError("the blocks came to an end")


def device_state(device: str) -> str:
    """Clocks, temperature, power and throttle reasons, as the driver tells them; of the CPU, what else it has to do."""
    if device == "cpu":
        return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    try:
        command = ["nvidia-smi", f"--query-gpu={_STATE}", "--format=csv,noheader"]
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip() or "unknown"
    except (OSError, subprocess.SubprocessError):
        return "unknown"
