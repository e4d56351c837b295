"""The modelled time of a case: what each of its kernels must do at least, at shares of a device's peaks.

The shares were measured on an H200 (docs/modelled-time.md); the peaks are a profile's. A model, no measurement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

METRIC = "modelled_time"
#: As `patchgate.probe.protocol.Launch` has it.
Launch = Mapping[str, Any]

# Of the bandwidth, and of the peak of a matrix product.
_BANDWIDTH, _PRODUCT = 0.94, 0.8
# Seconds that a product takes before it is at full speed, and that a row of a loop costs.
_PROLOGUE, _ROW = 1.3e-6, 0.3e-9
# Bytes a second of one thread block alone; how much a strided byte costs more.
_PROGRAM, _STRIDED = 78e9, 2.0


def roofline_time(launches: Sequence[Launch], speed: Mapping[str, Any]) -> float:
    """Microseconds by the figures of a profile's `[speed]`: one kernel after the other.

    Operations in a dtype that the profile has no figure for count nothing: the model stays a bound from below.
    """
    return sum((_seconds(launch, speed) + float(speed["launch"]) for launch in launches), 0.0) * 1e6


def _seconds(launch: Launch, speed: Mapping[str, Any]) -> float:
    bandwidth = float(speed["bandwidth"]) * _BANDWIDTH
    if launch["operations"]:
        peak = float(speed["matmul"].get(launch["dtype"], 0))
        product = launch["operations"] / (peak * _PRODUCT) if peak else 0.0
        return float(max(launch["bytes"] / bandwidth, product) + _PROLOGUE)
    moved = launch["bytes"] + launch["again"]
    memory = (moved + _STRIDED * launch["strided"]) / bandwidth
    if launch["programs"]:  # few thread blocks cannot use the whole bandwidth
        memory = max(memory, moved / (launch["programs"] * _PROGRAM))
    arithmetic = launch["arithmetic"] / speed["matmul"]["float32"]
    # Where both are large they overlap, but not wholly.
    return float((memory**3 + arithmetic**3) ** (1 / 3) + launch["rows"] * _ROW)
