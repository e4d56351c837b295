"""Who in the live process still holds what a patch has replaced (DESIGN fact 15).

Decides what counts as a holder: an attribute of a module or class, an entry
of a registry, a wrapper around the original in one. Refuses to know claims.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterator
from typing import Any

from patchgate.probe.patch.live_api import resolve
from patchgate.probe.patch.snapshot import Snapshot, functions_inside

Changes = dict[str, tuple[Any, Any]]
Holding = dict[str, list[str]]


def holders(changes: Changes, after: Snapshot) -> Holding:
    """Changed name -> the names that still lead to its original."""
    originals = {id(old): name for name, (old, _) in changes.items() if _is_code(old)}
    new = {id(now) for _, now in changes.values()}
    found: Holding = {}
    for owner, attributes in after.items():
        registry = owner.endswith("[]")
        for key, value in attributes.items():
            if id(value) in new or id(key) in new:
                continue
            inside = functions_inside(value) if registry else [value]
            held = next((originals[id(item)] for item in inside if id(item) in originals), None)
            if held and not _keeps_on_purpose(owner, key):
                found.setdefault(held, []).append(f"{owner[:-1]}{_key(key, value)}]" if registry else f"{owner}.{key}")
    for name, (old, now) in changes.items():
        if old is None and _is_code(now):
            inherited = list(_siblings(name))
            if inherited:
                found[name] = inherited
    return {name: sorted(set(names)) for name, names in found.items()}


def _is_code(value: Any) -> bool:
    return isinstance(value, (types.FunctionType, type, staticmethod, classmethod, functools.partial, property))


def _keeps_on_purpose(owner: str, key: Any) -> bool:
    return isinstance(key, str) and key.startswith(("_orig", "original"))


def _key(key: Any, value: Any) -> str:
    # A list is kept by the identity of its items; their names say more.
    return str(getattr(value, "__qualname__", "...")) if isinstance(key, int) else str(key)


def _siblings(name: str) -> Iterator[str]:
    """For an override put on a class that only inherited the name: the other classes that still inherit it."""
    owner_name, _, attribute = name.rpartition(".")
    try:
        owner = resolve(owner_name)
    except LookupError:
        return
    if not isinstance(owner, type):
        return
    base = next((cls for cls in owner.__mro__[1:] if attribute in vars(cls)), None)
    if base is None or base.__module__ == "builtins":
        return
    for cls in _below(base):
        inherits = not issubclass(cls, owner) and inspect.getattr_static(cls, attribute, None) is vars(base)[attribute]
        if cls is not base and inherits and cls.__module__.startswith("torch."):
            yield f"{cls.__module__}.{cls.__qualname__}.{attribute}"


def _below(cls: type) -> Iterator[type]:
    children: list[type] = cls.__subclasses__()
    for child in children:
        yield child
        yield from _below(child)


def unreachable(changes: Changes) -> list[str]:
    """Replaced methods that are abstract, and overridden by every class that can be made."""
    found = []
    for name, (old, now) in changes.items():
        owner_name, _, attribute = name.rpartition(".")
        try:
            owner = resolve(owner_name) if _is_code(now) else None
        except LookupError:
            continue
        if isinstance(owner, type) and _is_abstract(old):
            leaves = [cls for cls in _below(owner) if not cls.__subclasses__()]
            if leaves and all(inspect.getattr_static(cls, attribute, None) is not now for cls in leaves):
                found.append(name)
    return found


def _is_abstract(function: Any) -> bool:
    if getattr(function, "__isabstractmethod__", False):
        return True
    names = getattr(getattr(function, "__code__", None), "co_names", ())
    return "NotImplementedError" in names and len(names) <= 2
