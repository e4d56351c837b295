"""Checks requests against the types of the protocol, and says what does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from patchgate.probe.protocol import Limits
from patchgate.probe.questions import Questions


def refusal(request: object) -> str | None:
    """Why `request` is none: no question of that name, a key too few or too many.

    None where it is one.
    """
    if not isinstance(request, dict):
        return "a request is a JSON object"
    do = request.get("do")
    question = Questions.__annotations__.get(do) if isinstance(do, str) else None
    if question is None:
        return f"no question {do!r}; there are: {', '.join(Questions.__annotations__)}"
    faults = [
        *key_faults(question.__args__[0], request),
        *key_faults(Limits, request.get("limits", {})),
    ]
    return f"`{do}`: {'; '.join(faults)}" if faults else None


def key_faults(kind: Any, value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{kind.__name__} is a JSON object"
        return
    yield from (
        f"the key `{name}` is missing" for name in sorted(kind.__required_keys__ - value.keys())
    )
    yield from (
        f"the key `{name:.80}` is unknown"
        for name in sorted(value.keys() - kind.__annotations__.keys())
    )
