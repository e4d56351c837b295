"""Checks requests, and replies of children, against the types of the protocol.

A patch may have written a reply.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from patchgate.probe.protocol import QUESTIONS, Failed, Limits, Unmeasured

# Of a child's reply. The generated code of the largest whole model that was tried is 1.6 MB.
REPLY_BYTES = 4 << 20
# Lists and objects within each other, where a type does not say what there is.
_DEPTH = 8
_NAME_LENGTH = 400


def refusal(request: object) -> str | None:
    """Why `request` is none: no question of that name, a key too few or too many.

    None where it is one.
    """
    if not isinstance(request, dict):
        return "a request is a JSON object"
    do = request.get("do")
    question = QUESTIONS.get(do) if isinstance(do, str) else None
    if question is None:
        return f"no question {do!r}; there are: {', '.join(QUESTIONS)}"
    limits = request.get("limits", {})
    faults = [*_key_faults(question.request, request), *_key_faults(Limits, limits)]
    return f"`{do}`: {'; '.join(faults)}" if faults else None


def _key_faults(kind: Any, value: Any) -> Iterator[str]:
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


def reply_fault(do: str, reply: object) -> str | None:
    """Why `reply` is no answer to the question `do`: a key too few or too many, or a value of
    another type.
    """
    if isinstance(reply, dict) and "failure" in reply:
        return _misfit(Failed, reply, "the reply") or _unplain(reply, "the reply", _DEPTH)
    fault = _misfit(QUESTIONS[do].answer, reply, "the reply")
    return fault or _unplain(reply, "the reply", _DEPTH)


_hints = cache(get_type_hints)


def _misfit(kind: Any, value: Any, place: str) -> str | None:
    """The first misfit between a value and a type of this module, and its place."""
    if kind is Any:
        return None
    if is_typeddict(kind):
        faults = list(_key_faults(kind, value))
        if faults:
            return f"{place}: {faults[0]}"
        return _first(
            _misfit(_hints(kind)[name], held, f"{place}.{name}") for name, held in value.items()
        )
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return (
            None
            if any(_misfit(part, value, place) is None for part in parts)
            else f"{place} is none of {kind}"
        )
    if origin is dict and isinstance(value, dict):
        return _first(
            _misfit(parts[1], held, f"{place}.{name:.40}") for name, held in value.items()
        )
    if origin is list and isinstance(value, list):
        return _first(_misfit(parts[0], held, f"{place}[]") for held in value)
    if origin is tuple and isinstance(value, list) and len(value) == len(parts):
        return _first(
            _misfit(part, held, f"{place}[]") for part, held in zip(parts, value, strict=True)
        )
    if origin is None and (type(value) is kind or (kind is float and type(value) is int)):
        return None
    return f"{place} is no {getattr(kind, '__name__', kind)}"


def _unplain(value: Any, place: str, depth: int) -> str | None:
    """The part of a reply that no file, page or table could hold: names, nesting and numbers
    without bounds.
    """
    if depth == 0:
        return f"{place} is nested too deep"
    if type(value) is int and abs(value) >= 1 << 63:
        return f"{place} is too large a number"
    if isinstance(value, list):
        return _first(_unplain(held, f"{place}[]", depth - 1) for held in value)
    if not isinstance(value, dict):
        return None
    for name, held in value.items():
        if len(name) > _NAME_LENGTH or not name.isprintable():
            return f"{place}: {name[:40]!r} is no name"
        if name in ("facts", "expected") and depth == _DEPTH and isinstance(held, dict):
            spaced = next((fact for fact in held if not fact or " " in fact), None)
            if spaced is not None:
                return f"{place}: {spaced[:40]!r} is no name of a fact"
            fault = _first(
                _unlike_fact(one, f"{place}.{name}.{fact:.40}") for fact, one in held.items()
            )
            if fault:
                return fault
        fault = _unplain(held, f"{place}.{name:.40}", depth - 1)
        if fault:
            return fault
    return None


def _unlike_fact(value: Any, place: str) -> str | None:
    kinds = (int, str, list[int], Unmeasured)
    return (
        None
        if any(_misfit(kind, value, place) is None for kind in kinds)
        else f"{place} is no fact"
    )


def _first(faults: Iterator[str | None]) -> str | None:
    return next((fault for fault in faults if fault), None)
