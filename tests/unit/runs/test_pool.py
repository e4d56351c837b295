"""Items are worked on in threads: each ends once, with a result or an error, and none waits for
another.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from patchgate.runs.pool import Ended, carry_out


def done(items: list[str], work: Any, workers: int) -> dict[str, Ended[str, str]]:
    ended: dict[str, Ended[str, str]] = {}

    for one in carry_out(items, work, workers=workers):
        if isinstance(one, Ended):
            assert one.item not in ended
            ended[one.item] = one
    return ended


@pytest.mark.parametrize("workers", [0, 1, 3, 50])
def test_each_item_ends_once_with_its_result(workers: int) -> None:
    items = [str(number) for number in range(20)]
    ended = done(items, lambda item: f"{item}!", workers)
    assert {item: one.result for item, one in ended.items()} == {item: f"{item}!" for item in items}


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(3)])
def test_an_item_that_raises_keeps_no_other_from_being_done(error: BaseException) -> None:
    def work(item: str) -> str:
        if item == "bad":
            raise error
        return item

    ended = done(["good", "bad", "another"], work, 1)
    assert (ended["bad"].error, ended["another"].result) == (error, "another")


def test_one_that_hangs_does_not_block_the_others() -> None:
    go_on, order = threading.Event(), []

    def work(item: str) -> bool:
        return item != "hangs" or go_on.wait(60)

    for one in carry_out(["hangs", "a", "b", "c"], work, workers=2):
        if isinstance(one, Ended):
            order.append(one.item)
            if len(order) == 3:
                go_on.set()
    assert order == ["a", "b", "c", "hangs"]


def test_what_interrupts_the_caller_is_raised_at_once_and_nothing_more_begins() -> None:
    go_on, begun = threading.Event(), []

    def work(item: str) -> bool:
        begun.append(item)
        return item == "first" or go_on.wait(60)

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        for one in carry_out(["first", *map(str, range(9))], work, workers=2):
            if isinstance(one, Ended):
                raise KeyboardInterrupt("SIGTERM")
    go_on.set()
    assert len(begun) <= 3
    for thread in threading.enumerate()[before:]:
        thread.join(60)
    assert len(begun) <= 3


def test_events_come_in_order() -> None:
    told = [
        ("ended", one.item) if isinstance(one, Ended) else ("started", one)
        for one in carry_out(["a", "b"], str.upper, workers=1)
    ]
    assert told == [("started", "a"), ("ended", "a"), ("started", "b"), ("ended", "b")]
