"""The processor time that lint gives one file: a file that was written to take forever must not
stop the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time

# Of a usual file it takes a hundredth, of 14,000 generated lines a tenth.
SECONDS = 30.0
_until = math.inf


class OutOfTime(Exception):
    """The file took longer."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Meanwhile `check_time` raises once this process has used so many seconds more."""
    global _until
    before, _until = _until, process_time() + seconds
    try:
        yield
    finally:
        _until = before


def check_time() -> None:
    """Raises OutOfTime."""
    if process_time() > _until:
        raise OutOfTime
