"""What an expression of a patch may stand for, as far as it can be told without running it.

Decides the kinds of abstract values and how two of them join. Knows neither the index nor syntax walks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

VERSION = "version"
PRESENCE = "presence"


@dataclass(frozen=True)
class Unknown:
    """Anything; nothing is ever reported about it."""


UNKNOWN = Unknown()


@dataclass(frozen=True, kw_only=True)
class Symbol:
    """A module, class, function or attribute of torch itself. `bound`: `self` is already supplied."""

    dotted: str
    kind: str
    bound: bool = False
    receiver: Value = UNKNOWN


@dataclass(frozen=True, kw_only=True)
class Instance:
    """An object of one of these classes of torch."""

    classes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Container:
    """A collection whose elements (or values) are known."""

    element: Value


@dataclass(frozen=True, kw_only=True)
class Known:
    """A value computed from constants and the torch version, once per spelling of the release."""

    values: tuple[Any, ...]
    because: frozenset[str] = frozenset()

    @property
    def truth(self) -> bool | None:
        final, local = bool(self.values[0]), bool(self.values[1])
        return final if final == local else None


@dataclass(frozen=True, kw_only=True)
class External:
    """Something outside torch and outside the patch, by the dotted name it was imported as."""

    dotted: str


@dataclass(eq=False)
class LocalFunction:
    """A function or lambda of the patch. `scope` is where its free names live."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Scope
    owner: str | None = None
    receivers: set[str] = field(default_factory=set)
    decorated: bool = False


@dataclass(eq=False)
class LocalClass:
    """A class of the patch."""

    node: ast.ClassDef
    members: dict[str, Value]


@dataclass(frozen=True, kw_only=True)
class Method:
    """A name looked up on a value that only the version reader understands (`text.split`)."""

    owner: Known
    name: str


Value = Unknown | Symbol | Instance | Container | Known | External | LocalFunction | LocalClass | Method


@dataclass(eq=False)
class Scope:
    """Names and what they stand for; `narrowed` holds what tests have told about expressions."""

    parent: Scope | None = None
    names: dict[str, Value] = field(default_factory=dict)
    narrowed: dict[str, Value] = field(default_factory=dict)
    guarded: frozenset[str] = frozenset()
    is_class: bool = False

    def lookup(self, name: str) -> Value | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
            while scope is not None and scope.is_class:
                scope = scope.parent
        return None

    def snapshot(self) -> tuple[dict[str, Value], dict[str, Value], frozenset[str]]:
        return dict(self.names), dict(self.narrowed), self.guarded

    def restore(self, saved: tuple[dict[str, Value], dict[str, Value], frozenset[str]]) -> None:
        self.names, self.narrowed, self.guarded = dict(saved[0]), dict(saved[1]), saved[2]

    def assign(self, name: str, value: Value) -> None:
        self.names[name] = value
        stale = [key for key in self.narrowed if key == name or key.startswith(f"{name}.")]
        for key in stale:
            del self.narrowed[key]

    def merge(self, other: tuple[dict[str, Value], dict[str, Value], frozenset[str]]) -> None:
        """Keep what holds on both ways to this point."""
        names, narrowed, guarded = other
        for name in {*self.names, *names}:
            self.names[name] = joined(self.names.get(name), names.get(name))
        self.narrowed = {key: value for key, value in self.narrowed.items() if narrowed.get(key) == value}
        self.guarded &= guarded


def joined(first: Value | None, second: Value | None) -> Value:
    """A value that is one or the other. A name bound on one way only keeps its value."""
    if first is None or second is None:
        return first or second or UNKNOWN
    if first is second or first == second:
        return first
    if isinstance(first, Instance) and isinstance(second, Instance):
        return either([first, second])
    return UNKNOWN


def either(values: Iterable[Value]) -> Value:
    """One of several instances; UNKNOWN as soon as one of them is."""
    classes: dict[str, None] = {}
    for value in values:
        if not isinstance(value, Instance):
            return UNKNOWN
        classes.update(dict.fromkeys(value.classes))
    return Instance(classes=tuple(classes)) if classes else UNKNOWN
