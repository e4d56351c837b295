"""Warms a device up before it is timed, and reads its clocks, throttling and load."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

# Warm is when two blocks in a row took the same time within this share; after so many seconds
# nobody waits longer.
_SAME = 0.002
_SECONDS = 1.0
_STATE = "clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_event_reasons.active"


def warm_up(medians: Iterator[float]) -> str:
    """Take blocks, each given as its median time, until two in a row are the same; how that went,
    in words.
    """
    deadline = time.perf_counter() + _SECONDS
    before = next(medians)
    for blocks, now in enumerate(medians, 2):
        change = now / before - 1
        if abs(change) < _SAME:
            return f"warm after {blocks} blocks"
        if time.perf_counter() > deadline:
            return f"not steady after {blocks} blocks: {change:+.2%} in the last"
        before = now
    raise ValueError("there are no more blocks")


def device_state(device: str) -> str:
    """Clocks, temperature, power and throttle reasons, as the driver reports them; of the CPU, its
    load.
    """
    if device == "cpu":
        return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    try:
        command = ["nvidia-smi", f"--query-gpu={_STATE}", "--format=csv,noheader"]
        return (
            subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
            or "unknown"
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
