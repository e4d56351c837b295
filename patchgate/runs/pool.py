"""A pool of threads that judge: each waits for the child of a server, which does the work."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

from patchgate.model.records import record

Item = TypeVar("Item")
Result = TypeVar("Result")


@record
class Ended(Generic[Item, Result]):
    """An item whose work has ended, with a result or an error."""

    item: Item
    seconds: float
    result: Result | None = None
    error: BaseException | None = None


def carry_out(
    items: Sequence[Item], work: Callable[[Item], Result], *, workers: int
) -> Iterator[Item | Ended[Item, Result]]:
    """Do the work of all items in order, at most `workers` at once. Yield each item when its work
    begins, and `Ended` when its work has ended. An error in one item does not stop the others.

    If the caller stops, as by Ctrl-C, no further item begins. Items whose work has begun end with
    their servers.
    """
    waiting, stopped = deque(items), threading.Event()
    events: SimpleQueue[Item | Ended[Item, Result]] = SimpleQueue()

    def work_on_items() -> None:
        while not stopped.is_set():
            try:
                item = waiting.popleft()
            except IndexError:
                return
            events.put(item)
            began, result, error = time.monotonic(), None, None
            try:
                result = work(item)
            except BaseException as raised:
                error = raised
            seconds = time.monotonic() - began
            events.put(Ended(item=item, seconds=seconds, result=result, error=error))

    try:
        for _ in range(min(max(workers, 1), len(items))):
            threading.Thread(target=work_on_items, daemon=True).start()
        left = len(items)
        while left:
            event = events.get()
            left -= isinstance(event, Ended)
            yield event
    finally:
        stopped.set()
