"""Checks requests, and replies of children, against the types of the protocol.

A reply may have been written by a patch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from patchgate.probe.protocol import QUESTIONS, Failed, Limits, Unmeasured

# The limit of a child's reply. The generated code of the largest whole model that was tried is 1.6
# MB.
REPLY_BYTES = 4 << 20
# The deepest nesting of lists and objects in a reply, for types that do not state it.
_DEPTH = 8
_NAME_LENGTH = 400


_hints = cache(get_type_hints)


def refusal(request: object) -> str | None:
    """The reason why `request` is refused: an unknown question, a missing or unknown key; None if
    it is valid.
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
    for name in sorted(kind.__required_keys__ - value.keys()):
        yield f"the key `{name}` is missing"
    for name in sorted(value.keys() - kind.__annotations__.keys()):
        yield f"the key `{name:.80}` is unknown"


def reply_fault(do: str, reply: object) -> str | None:
    """The reason why `reply` is no answer to the question `do`: a missing or unknown key, or a
    value of another type; None if it is valid.
    """
    has_failed = isinstance(reply, dict) and "failure" in reply
    kind = Failed if has_failed else QUESTIONS[do].answer
    misfits = _misfits(kind, reply, "the reply")
    return next(misfits, None) or next(_faults(reply, "the reply", _DEPTH, not has_failed), None)


def _misfits(kind: Any, value: Any, place: str) -> Iterator[str]:
    """The places where a value does not fit a type of the protocol."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return
    if is_typeddict(kind):
        faults = [f"{place}: {fault}" for fault in _key_faults(kind, value)]
        yield from faults
        for name, held in () if faults else value.items():
            yield from _misfits(_hints(kind)[name], held, f"{place}.{name}")
    elif origin in (Union, UnionType):
        if not any(_fits(part, value) for part in parts):
            yield f"{place} is none of {kind}"
    elif origin is dict and isinstance(value, dict):
        for name, held in value.items():
            yield from _misfits(parts[1], held, f"{place}.{name:.40}")
    elif origin is list and isinstance(value, list):
        for held in value:
            yield from _misfits(parts[0], held, f"{place}[]")
    elif origin is tuple and isinstance(value, list) and len(value) == len(parts):
        for part, held in zip(parts, value, strict=True):
            yield from _misfits(part, held, f"{place}[]")
    elif origin or not (type(value) is kind or (kind is float and type(value) is int)):
        yield f"{place} is no {getattr(kind, '__name__', kind)}"


def _fits(kind: Any, value: Any) -> bool:
    return next(_misfits(kind, value, ""), None) is None


def _faults(value: Any, place: str, depth: int, has_facts: bool = False) -> Iterator[str]:
    """The faults of a reply that no file, page or table can hold: unbounded names, nesting or
    numbers. With `has_facts`, also values that are no facts.
    """
    if depth == 0:
        yield f"{place} is nested too deep"
    elif type(value) is int and abs(value) >= 1 << 63:
        yield f"{place} is too large a number"
    elif isinstance(value, list):
        for held in value:
            yield from _faults(held, f"{place}[]", depth - 1)
    elif isinstance(value, dict):
        for name, held in value.items():
            if len(name) > _NAME_LENGTH or not name.isprintable():
                yield f"{place}: {name[:40]!r} is no name"
            if has_facts and name in ("facts", "expected") and isinstance(held, dict):
                for fact, one in held.items():
                    if not fact or " " in fact:
                        yield f"{place}: {fact[:40]!r} is no name of a fact"
                    if not _fits(int | str | list[int] | Unmeasured, one):
                        yield f"{place}.{name}.{fact:.40} is no fact"
            yield from _faults(held, f"{place}.{name:.40}", depth - 1)
