"""CPU time and instructions of a compile, unpatched and patched in turn: C++ too, which counting calls cannot see.

Decides that each side is a process of its own, forked before the patch ran, and that only one works at a
time. Refuses to judge.
"""

from __future__ import annotations

import gc
import json
import os
import random
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

from patchgate.probe.timing.instructions import Counter

SIDES = ("unpatched", "patched")
Cost = dict[str, float | int | None]


def compile_costs(prepare: Callable[[], Callable[[], None]], change: Callable[[], None], pairs: int) -> dict[str, Any]:
    """`pairs` pairs of costs; `prepare` gives what compiles once, and `change` runs before it on the patched side."""
    unpatched = _Unpatched(prepare)
    change()
    compile_once, counter = prepare(), Counter()
    ask: dict[str, Callable[[], Cost]] = {"unpatched": unpatched.ask, "patched": lambda: _cost(compile_once, counter)}
    chance, taken = random.Random(0), []
    for _ in range(pairs):
        told = {side: ask[side]() for side in chance.sample(SIDES, 2)}
        taken.append([told[side] for side in SIDES])
    return {
        "seconds": [[one["seconds"] for one in pair] for pair in taken],
        "instructions": {"unmeasured": counter.missing}
        if counter.missing
        else [[one["instructions"] for one in pair] for pair in taken],
    }


def _cost(compile_once: Callable[[], None], counter: Counter) -> Cost:
    gc.collect()
    gc.disable()
    counted, began = counter.count(), time.process_time()
    compile_once()
    seconds, now = time.process_time() - began, counter.count()
    gc.enable()
    return {"seconds": seconds, "instructions": None if now is None or counted is None else now - counted}


class _Unpatched:
    """A fork of this process as it was before the patch ran; it compiles when it is asked, and ends with us."""

    def __init__(self, prepare: Callable[[], Callable[[], None]]) -> None:
        asks, self._asks = os.pipe()
        self._answers, answers = os.pipe()
        if os.fork() == 0:
            os.close(self._asks)
            os.close(self._answers)
            _serve(prepare, os.fdopen(asks), os.fdopen(answers, "w"))
        os.close(asks)
        os.close(answers)
        self._told = os.fdopen(self._answers)

    def ask(self) -> Cost:
        os.write(self._asks, b"\n")
        line = self._told.readline()
        if not line:
            raise RuntimeError("the unpatched side did not compile")
        cost: Cost = json.loads(line)
        return cost


def _serve(prepare: Callable[[], Callable[[], None]], asks: TextIO, answers: TextIO) -> NoReturn:
    try:
        compile_once, counter = prepare(), Counter()
        for _ in asks:
            print(json.dumps(_cost(compile_once, counter)), file=answers, flush=True)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
