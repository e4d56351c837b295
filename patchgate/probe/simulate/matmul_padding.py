"""Decides which matrix products Inductor pads to aligned sizes. Inductor times both forms on a
device and takes the faster.

The profile of a simulated device has the real device's decisions by product. The decision for a
product that is not in the profile is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from torch._inductor.fx_passes import pad_mm

from patchgate.probe.protocol import Profile
from patchgate.probe.simulate.needs_device import NeedsDevice

_DECISION = {True: "padded", False: "kept"}


def product_name(key: str) -> str:
    """Convert a key of Inductor's cache to the product's name in facts and profiles:
    `mm:bfloat16[4,768|768,1]:...:FT`.

    The name has dtype, sizes and strides of each operand. Two letters then tell, for the first and
    the second operand, if padding it costs nothing.
    """
    (operation,) = re.findall(r"op='aten\.(\w+)'", key)
    operands = re.findall(r"Size\(\[([^\]]*)\]\), \(([^)]*)\), torch\.(\w+)", key)
    texts = [f"{dtype}[{sizes}|{strides}]".replace(" ", "") for sizes, strides, dtype in operands]
    free = "".join(re.findall(r"exclude_pad:(\w)", key))
    return ":".join([operation, *texts, free, *re.findall(r"(True|False)\)$", key)])


@contextmanager
def padding_decisions(profile: Profile, decided: dict[str, str]) -> Iterator[None]:
    """Until the context ends, the decision ("padded" or "kept") on each product that a device times
    is added to `decided`. On a real device equal products are timed once.

    Raises NeedsDevice at the end if the profile of a simulated device lacks a decision.
    """
    known: dict[str, str] = profile.get("padding", {})
    unknown: list[str] = []
    timed: dict[str, bool] = {}

    def look_up(key: str) -> bool | None:
        if profile["kind"] == "real":
            return timed.get(key)  # decisions of earlier compiles are ignored
        name = product_name(key)
        if name not in known:
            unknown.append(name)
        else:
            decided[name] = known[name]
        return known.get(name) == _DECISION[True]

    def note(key: str, value: bool) -> None:
        timed[key] = value
        decided[product_name(key)] = _DECISION[value]

    with (
        mock.patch.object(pad_mm, "get_cached_should_pad", look_up),
        mock.patch.object(pad_mm, "set_cached_should_pad", note),
    ):
        yield
    if unknown:
        raise NeedsDevice(f"it times whether to pad {'; '.join(sorted(set(unknown)))}")
