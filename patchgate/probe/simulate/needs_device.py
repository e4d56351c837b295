"""The limits of simulation: the error that names them, and how torch and Triton express them."""

from __future__ import annotations

import re

from patchgate.probe.protocol import NEEDS_DEVICE, NO_DEVICE


class NeedsDevice(Exception):
    """Only a real device can give this answer; it is not guessed."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{NEEDS_DEVICE}: {what}")


def missing_answer(error: BaseException) -> str | None:
    """The answer that the simulation could not give, if that is the reason for `error`."""
    # Dynamo keeps the text of an error that it wraps, not always the error.
    match = re.search(f"{NEEDS_DEVICE}: [^'\"\n]*", str(error))
    if match:
        return match.group()
    return (
        f"{NEEDS_DEVICE}: something is run on it"
        if any(text in str(error) for text in NO_DEVICE)
        else None
    )
