"""Facts of two sides -> the ones that differ."""

from __future__ import annotations

import pytest

from patchgate.model.facts import changed_facts
from patchgate.model.records import FactValue, Unmeasured


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (1, 2, "kernels 1 -> 2"),
        (1, 1, ""),
        (1, Unmeasured(reason="no device"), "kernels 1 -> unmeasured (no device)"),
        (Unmeasured(reason="no device"), Unmeasured(reason="no device"), ""),
    ],
)
def test_fact_that_neither_side_could_take_shows_no_change(
    before: FactValue, after: FactValue, shown: str
) -> None:
    assert changed_facts({"kernels": before}, {"kernels": after}) == shown


def test_name_that_one_histogram_lacks_is_a_change_from_zero() -> None:
    assert changed_facts({"fx.op.mul": 1}, {"fx.op.mul": 1, "fx.op.to": 5}) == "fx.op.to 0 -> 5"
