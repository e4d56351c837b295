"""The roofline of a case: the least time that a device needs for its kernels. A model, no measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

METRIC = "modelled_time"
#: Bytes moved, operations of matrix products, and the dtype of those ("" for none).
Launch = Sequence[Any]


def roofline_time(launches: Sequence[Launch], speed: Mapping[str, Any]) -> float:
    """Microseconds by the figures of a profile's `[speed]`: every kernel at the device's peak, one after the other.

    Operations in a dtype that the profile has no figure for count nothing, as pointwise arithmetic does: the
    model stays a bound from below.
    """
    peaks = {dtype: float(figure) for dtype, figure in speed["matmul"].items()}
    seconds = 0.0
    for moved, operations, dtype in launches:
        arithmetic = operations / peaks[dtype] if dtype in peaks else 0.0
        seconds += max(moved / speed["bandwidth"], arithmetic) + speed["launch"]
    return seconds * 1e6
