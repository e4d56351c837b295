"""Measures all blocks, each in a process of its own; only one of them uses the GPU at a time."""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from functools import partial
from typing import Any

from benchmarks.modelled_time.blocks import BLOCKS, FITTED
from benchmarks.modelled_time.measure import measure

# After so many seconds no further change is begun.
_SECONDS = 200


def measure_all(workers: int) -> None:
    """Print a line of JSON for each block as it is done."""
    with (
        tempfile.TemporaryDirectory() as built,
        tempfile.NamedTemporaryFile() as queue,
        multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=1) as pool,
    ):
        work = partial(_line, built=built, queue=queue.name, deadline=time.time() + _SECONDS)
        for line in pool.imap_unordered(work, BLOCKS, chunksize=1):
            print(json.dumps(line, separators=(",", ":")), flush=True)


def _line(name: str, **places: Any) -> dict[str, Any]:
    fitted = {"fitted": BLOCKS[name] in FITTED}
    try:
        return measure(name, **places) | fitted
    except Exception as error:  # the others are measured nevertheless
        return {"block": name, "failed": f"{type(error).__name__}: {str(error)[-1000:]}"} | fitted
