"""The possible values of an expression of a patch, as far as they are known without running it.

A `Scope` holds the values of names, and facts that tests have shown about chains such as `a.b`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from patchgate.lint.index.read_module import FunctionDefinition
from patchgate.model.records import record

#: Why a value is known: it was computed from the torch version, or by asking whether torch has a
#: name.
VERSION = frozenset({"version"})
PRESENCE = frozenset({"presence"})
# The number of versions that builds of a release report: final, local, nightly and candidate.
SPELLINGS = 4


# The last names of values that other projects compute from the version of torch.
_VERSION_CHECK = re.compile(
    r"(?i)version|(torch|triton).*(equal|new|old|great|least|less|before|after|since|_[gl][et]|min|max|major|minor|\d)"
)


@dataclass(frozen=True)
class Unknown:
    """Any value; nothing is ever reported about it.

    `because` names the sources of the value (VERSION, PRESENCE), as in Known.
    """

    because: frozenset[str] = frozenset()


UNKNOWN = Unknown()


@record
class Symbol:
    """A module, class, function or attribute of torch itself. `bound`: `self` is already
    supplied.
    """

    dotted: str
    #: "module", "class", "function" or "config-method".
    kind: str
    bound: bool = False
    receiver: Value = UNKNOWN


@record
class Instance:
    """An object of one of these classes of torch."""

    classes: tuple[str, ...]


@record
class Container:
    """A collection; `element` is the value of each element, or of each value of a mapping."""

    element: Value


@record
class Known:
    """A value computed from constants and the torch version, one for each spelling of the
    release.
    """

    values: tuple[Any, ...]
    because: frozenset[str] = frozenset()

    @property
    def truth(self) -> bool | None:
        """The truth of the value; None if it differs between the final and the local version."""
        final, local = bool(self.values[0]), bool(self.values[1])
        return final if final == local else None


def constant(value: Any, because: frozenset[str] = frozenset()) -> Known:
    """A value that is the same in each spelling of the release."""
    return Known(values=(value,) * SPELLINGS, because=because)


@record
class External:
    """Something outside torch and the patch, by the dotted name of its import."""

    dotted: str


@record
class OwnName:
    """A name that is imported from another file of the project; `dotted` is "module.name"."""

    file: Path
    name: str
    dotted: str


@record
class OwnModule:
    """Another file of the patch's project."""

    file: Path
    dotted: str


@dataclass(eq=False)
class LocalFunction:
    """A function or lambda of the patch. `scope` is the scope of its free names."""

    node: FunctionDefinition | ast.Lambda
    scope: Scope
    #: Classes of torch that got it as a method; its first parameter is one of their objects.
    receivers: set[str] = field(default_factory=set)
    #: Its form if a call has set it: "static", "class", "property", "cached-property".
    form: str | None = None
    #: The class of the patch whose body defines it.
    owner: LocalClass | None = None

    @property
    def decorators(self) -> list[str]:
        """The texts of its decorators."""
        return [ast.unparse(each) for each in getattr(self.node, "decorator_list", ())]


@record
class OwnFunction:
    """A function in another file of the project, and its name there. Calls of it are evaluated only
    for their value.
    """

    function: LocalFunction
    own: OwnName


@dataclass(eq=False)
class LocalClass:
    """A class of the patch. `fields` are the values that its methods assign on `self`, in any
    order.
    """

    members: dict[str, Value]
    fields: dict[str, Value] = field(default_factory=dict)
    bases: Sequence[Value] = ()
    #: Attributes that something in its body assigns or deletes, on whatever object.
    assigned: frozenset[str] = frozenset()

    def torch_bases(self) -> tuple[str, ...]:
        """The classes of torch from which it derives; empty if it also derives from any other
        class.
        """
        found: dict[str, None] = {}
        for base in self.bases:
            if isinstance(base, Symbol) and base.kind == "class":
                found[base.dotted] = None
            elif isinstance(base, LocalClass) and (below := base.torch_bases()):
                found.update(dict.fromkeys(below))
            else:
                return ()
        return tuple(found)

    def defines(self, name: str) -> bool:
        """True if the patch gives objects of the class the name, or may give them any name."""
        above = [each for each in self.bases if isinstance(each, LocalClass)]
        own = name in self.members or name in self.assigned or "__getattr__" in self.members
        return own or any(each.defines(name) for each in above)


@dataclass(frozen=True, eq=False)
class LocalObject:
    """An object of a class of the patch: `self` in its methods."""

    of: LocalClass


@dataclass(eq=False)
class Table:
    """A dictionary that the patch builds, with its constant keys. Each key is stored with its
    syntax node and with the State in which it was added.
    """

    keys: dict[str, tuple[ast.expr, Any]] = field(default_factory=dict)
    #: The union of the sources of its values, as in Known.
    because: frozenset[str] = frozenset()


@record
class Method:
    """A method of a known value, not called yet, such as `text.split` in a version check."""

    owner: Known
    name: str


Value = (
    Unknown | Symbol | Instance | Container | Known | External | LocalFunction | LocalClass | Method
    | OwnName | OwnModule | OwnFunction | Table | LocalObject
)  # fmt: skip
Snapshot = tuple[dict[str, Value], dict[str, Value], frozenset[str]]


@dataclass(eq=False)
class OwnFiles:
    """Files of one project, and the values of names in them.

    Each value comes with the questions to the release on which it depends.
    """

    #: `Owner.name` that files of the project set -> these files.
    set_in: dict[str, set[Path]] = field(default_factory=dict)
    #: True if a file imports a package with which a vendor adds names to torch.
    extended_by_vendor: bool = False
    #: By file, name and release; the release is "" if the value is the same in all releases.
    values: dict[tuple[Path, str, str], tuple[Value, frozenset[Any]]] = field(default_factory=dict)
    #: By file and name: releases, each with the value that was read. Releases that give the same
    #: answers share these values.
    readings: dict[tuple[Path, str], list[tuple[Any, Value | None, frozenset[Any]]]] = field(
        default_factory=dict
    )
    #: The names that were followed since the set was last emptied.
    followed: set[OwnName] = field(default_factory=set)
    #: Names that are being read, the outermost first: values found meanwhile are not final.
    unfinished: list[tuple[Path, str]] = field(default_factory=list)


@dataclass(eq=False)
class Scope:
    """Names and their values."""

    parent: Scope | None = None
    names: dict[str, Value] = field(default_factory=dict)
    #: The values that tests have shown for expressions such as `a.b.c`.
    narrowed: dict[str, Value] = field(default_factory=dict)
    #: Expressions that `hasattr` has shown to exist.
    guarded: frozenset[str] = frozenset()
    is_class: bool = False
    #: The base of a class, if there is only one.
    base: Value = UNKNOWN
    #: The file of a module's own scope, where relative imports start.
    file: Path | None = None
    #: Looks up the other names of a module of which only one name is read.
    outside: Callable[[str], Value | None] | None = None
    _below: dict[str, set[str]] | None = None

    def lookup(self, name: str) -> Value | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            if scope.outside is not None:
                return scope.outside(name)
            scope = scope.parent
            while scope is not None and scope.is_class:
                scope = scope.parent
        return None

    def base_of_class(self) -> Value:
        """The base of the class around this scope, at which `super()` looks first."""
        scope: Scope | None = self
        while scope is not None and not scope.is_class:
            scope = scope.parent
        return scope.base if scope is not None else UNKNOWN

    def home(self) -> Path | None:
        """The file that contains this scope; None if the file is unknown."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope.file

    def inner(self) -> Scope:
        """A scope inside this one, for a comprehension."""
        return Scope(parent=self, narrowed=dict(self.narrowed), guarded=self.guarded)

    def assign(self, name: str, value: Value) -> None:
        self.names[name] = value
        self.forget(name)

    def forget(self, expression: str) -> None:
        """Drop what tests have shown about `expression` and about expressions that begin with
        it.
        """
        if self.narrowed:
            self.narrowed.pop(expression, None)
            for key in self._narrowed_below().pop(expression, ()):
                self.narrowed.pop(key, None)

    def narrow(self, expression: str, value: Value) -> None:
        self.forget(expression)
        self.narrowed[expression] = value
        if self._below is not None:
            _put_below(expression, self._below)

    def _narrowed_below(self) -> dict[str, set[str]]:
        """Expression -> longer expressions that tests have narrowed. It is made on first use."""
        if self._below is None:
            self._below = {}
            for key in self.narrowed:
                _put_below(key, self._below)
        return self._below

    def snapshot(self) -> Snapshot:
        return dict(self.names), dict(self.narrowed), self.guarded

    def restore(self, saved: Snapshot) -> None:
        self.names, self.narrowed, self.guarded, self._below = (
            dict(saved[0]),
            dict(saved[1]),
            saved[2],
            None,
        )

    def merge(self, other: Snapshot, because: frozenset[str] = frozenset()) -> None:
        """Keep the facts that hold in both branches; `because` names the sources of the choice."""
        names, narrowed, guarded = other
        for name, other_value in names.items():
            value = self.names.get(name)
            if value is not other_value:
                self.names[name] = joined(value, other_value, because)
        self.narrowed = {
            key: value for key, value in self.narrowed.items() if narrowed.get(key) == value
        }
        self._below = None
        self.guarded &= guarded


def _put_below(expression: str, below: dict[str, set[str]]) -> None:
    """Add an expression to each of its prefixes: `a.b.c` to `a.b` and to `a`."""
    above = expression.rpartition(".")[0]
    while above:
        below.setdefault(above, set()).add(expression)
        above = above.rpartition(".")[0]


def joined(
    first: Value | None, second: Value | None, because: frozenset[str] = frozenset()
) -> Value:
    """The value after two branches. A name that only one of them binds keeps its value."""
    if first is None or second is None:
        return first or second or UNKNOWN
    if first is second or first == second:
        return first
    if isinstance(first, Instance) and isinstance(second, Instance):
        return either([first, second])
    return unknown(first, second, because=because)


def unknown(*parts: Value, because: frozenset[str] = frozenset()) -> Unknown:
    """The unknown value that is computed from `parts`."""
    for part in parts:
        if part is not UNKNOWN:
            because |= because_of(part)
    return Unknown(because) if because else UNKNOWN


def because_of(value: Value) -> frozenset[str]:
    """The checks (the version of torch, the presence of a name) that decide the value."""
    if isinstance(value, (Known, Unknown, Table)):
        return value.because
    if isinstance(value, Method):
        return value.owner.because
    dotted = value.dotted if isinstance(value, (External, OwnName)) else ""
    return VERSION if dotted and _is_version_check(dotted.rpartition(".")[2]) else frozenset()


@lru_cache(maxsize=4096)
def _is_version_check(name: str) -> bool:
    return _VERSION_CHECK.search(name) is not None


def truth_of(value: Value) -> bool | None:
    """The outcome of a test; None if it is not known."""
    return value.truth if isinstance(value, Known) else None


def either(values: Iterable[Value]) -> Value:
    """An instance of one of several classes; UNKNOWN if one of the values is no instance."""
    classes: dict[str, None] = {}
    for value in values:
        if not isinstance(value, Instance):
            return UNKNOWN
        classes.update(dict.fromkeys(value.classes))
    return Instance(classes=tuple(classes)) if classes else UNKNOWN


def element_of(value: Value) -> Value:
    return value.element if isinstance(value, Container) else unknown(value)


def chain(node: ast.expr) -> str:
    """The text of the expression if it is a chain of names, `a.b.c`; otherwise ''."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = chain(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""
