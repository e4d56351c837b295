"""The limits of simulation: the error raised for them, and a search for them in other errors."""

from __future__ import annotations

import re

from patchgate.probe.protocol import NEEDS_DEVICE, NO_DEVICE


class NeedsDevice(Exception):
    """Raised if only a real device can give an answer, which is not guessed."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{NEEDS_DEVICE}: {what}")


def missing_answer(error: BaseException) -> str | None:
    """Return the answer that the simulation could not give, if this caused `error`, else None."""
    # If Dynamo wraps an error, it keeps the error's text but not always the error.
    match = re.search(f"{NEEDS_DEVICE}: [^'\"\n]*", str(error))
    if match:
        return match.group()
    return (
        f"{NEEDS_DEVICE}: something is run on it"
        if any(text in str(error) for text in NO_DEVICE)
        else None
    )
