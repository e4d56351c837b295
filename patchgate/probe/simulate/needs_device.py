"""What a simulation cannot answer: the error that says so, and how torch and Triton say it themselves."""

from __future__ import annotations

import re

from patchgate.probe.protocol import NEEDS_DEVICE, NO_DEVICE


class NeedsDevice(Exception):
    """What only a real device can answer; it is not guessed."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{NEEDS_DEVICE}: {what}")


def missing_answer(error: BaseException) -> str | None:
    """What a simulation could not answer, when that is why `error` was raised."""
    # Dynamo keeps the text of an error that it wraps, not always the error.
    match = re.search(f"{NEEDS_DEVICE}: [^'\"\n]*", str(error))
    if match:
        return match.group()
    return f"{NEEDS_DEVICE}: something is run on it" if any(text in str(error) for text in NO_DEVICE) else None
