"""Judge many files in less time: share them out to processes, and collect garbage seldom."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from typing import TypeVar

from patchgate.lint.find_patches import Place

Answer = TypeVar("Answer")
# Bytes of files from which on a process of its own is worth its start.
_WORTH = 200_000
# Objects that are made before Python looks for garbage: a syntax tree is many objects and no
# garbage.
_OBJECTS = 300_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let Python collect garbage seldom, which takes half of the time of reading otherwise."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS, 5, 10)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def shared_out(
    judge: Callable[[Place], Answer], places: Sequence[Place], jobs: int
) -> list[Answer]:
    """Return `judge(place)` for each place, in order; as many processes share the work as are
    allowed and pay for their start.
    """
    sizes = [each.file.stat().st_size for each in places]
    judge = partial(_judged_tidily, judge)
    jobs = min(jobs, 1 + sum(sizes) // _WORTH, len(places))
    if jobs < 2 or "fork" not in get_all_start_methods():
        return [judge(each) for each in places]
    shares: list[list[int]] = [[] for _ in range(jobs)]
    loads = [0] * jobs
    for at in sorted(range(len(places)), key=lambda each: -sizes[each]):
        least = loads.index(min(loads))
        shares[least].append(at)
        loads[least] += sizes[at] + _WORTH // 20
    return _judged(judge, places, shares)


def _judged_tidily(judge: Callable[[Place], Answer], place: Place) -> Answer:
    """Judge a place; all objects of a large file are dropped before the next one."""
    answer = judge(place)
    if place.file.stat().st_size > _WORTH:
        gc.collect()
    return answer


def _judged(
    judge: Callable[[Place], Answer], places: Sequence[Place], shares: Sequence[list[int]]
) -> list[Answer]:
    """Judge the first share here, and also the share of a process that died."""
    fork = get_context("fork")
    answers: dict[int, Answer] = {}

    def work(share: list[int], into: Connection) -> None:
        into.send([judge(places[at]) for at in share])

    ends = [fork.Pipe(duplex=False) for _ in shares[1:]]
    workers = [
        fork.Process(target=work, args=(share, into), daemon=True)
        for share, (_, into) in zip(shares[1:], ends, strict=True)
    ]
    try:
        for worker, (_, into) in zip(workers, ends, strict=True):
            worker.start()
            into.close()
        answers.update((at, judge(places[at])) for at in shares[0])
        for share, (out_of, _) in zip(shares[1:], ends, strict=True):
            told: list[Answer] = []
            with suppress(EOFError):
                told = out_of.recv()
            answers.update(zip(share, told or [judge(places[at]) for at in share], strict=True))
    finally:
        for worker in workers:
            worker.kill()
            worker.join()
    return [answers[at] for at in range(len(places))]
