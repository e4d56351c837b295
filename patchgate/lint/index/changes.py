"""Changes between releases, as lines of text: for a whole part of torch, or for named symbols from
release to release.

A change concerns presence, signature (without the return annotation), body, bases, or the default
of an option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from patchgate.lint.index.records import Class, Function, Module, parameter_texts
from patchgate.lint.index.resolve import Found, Modules

# The order of the lines of a module: removed, changed, added.
_ORDER = ("-", "~", "+")
_BODY = ": body"


def signature(function: Function, owner: str = "") -> str:
    """The form, name and parameters of a function."""
    form = {"function": "", "method": "", "class": "classmethod "}.get(
        function.form, f"{function.form} "
    )
    name = f"{'async ' if function.is_async else ''}{owner}{function.name}"
    return f"{form}{name}({', '.join(parameter_texts(function.parameters))})"


def diff(old: Modules, new: Modules, prefix: str = "") -> Iterator[str]:
    """List the changes in modules whose names begin with `prefix`, or the changes of the one symbol
    that it names. Changes of bodies come last.
    """
    for name in sorted(old.modules() | new.modules()):
        inside = not prefix or name == prefix or name.startswith(f"{prefix}.")
        within = prefix.startswith(f"{name}.") and prefix not in old.modules() | new.modules()
        if not inside and not within:
            continue
        before, after = old.module(name), new.module(name)
        if before is None or after is None:
            yield f"{'+' if before is None else '-'} module {name}"
            continue
        rest = prefix[len(name) + 1 :] if within else ""
        lines = [
            line
            for symbol, line in _module(before, after)
            if not rest or f"{symbol}.".startswith(f"{rest}.")
        ]
        lines.sort(key=lambda line: (line.endswith(_BODY), _ORDER.index(line[0])))
        if lines:
            yield name
            yield from (f"  {line}" for line in lines)


def _module(before: Module, after: Module) -> Iterator[tuple[str, str]]:
    for name, kind, old, new in _compared(before.config, after.config):
        yield name, f"{kind} option {name} = {f'{old} -> {new}' if kind == '~' else new or old}"
    yield from _body("", before, after)
    for name, kind, old, new in _compared(before.classes, after.classes):
        if old is None or new is None:
            owner = new or old
            bases = ", ".join(base.rpartition(".")[2] for base in owner.bases)
            yield name, f"{kind} class {name}({bases})" if bases else f"{kind} class {name}"
            continue
        if old.bases != new.bases:
            yield (
                name,
                f"~ class {name}: bases ({', '.join(old.bases)}) -> ({', '.join(new.bases)})",
            )
        if old.has_getattr != new.has_getattr:
            yield (
                name,
                f"~ class {name}: {'answers' if new.has_getattr else 'no longer answers'} unknown "
                "names",
            )
        yield from _body(f"{name}.", old, new)


def _body(owner: str, before: Module | Class, after: Module | Class) -> Iterator[tuple[str, str]]:
    # Options are listed with their defaults.
    options = set(getattr(before, "config", ())) | set(getattr(after, "config", ()))
    for name in sorted((before.attributes.keys() ^ after.attributes.keys()) - options):
        yield owner + name, f"{'+' if name in after.attributes else '-'} {owner}{name}"
    for name, kind, old, new in _compared(before.functions, after.functions):
        if old is None or new is None:
            yield owner + name, f"{kind} {signature(new or old, owner)}"
        elif signature(old) != signature(new):
            body = "" if old.body == new.body else ", and its body"
            yield owner + name, f"~ {signature(old, owner)} -> {signature(new)}{body}"
        elif old.body != new.body:
            yield owner + name, f"~ {owner}{name}{_BODY}"


def _compared(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[tuple[str, str, Any, Any]]:
    """(name, + - or ~, old, new) for each name whose value differs between the two."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old != new:
            yield name, "+" if old is None else "-" if new is None else "~", old, new


def drift(
    name: str, releases: tuple[str, ...], load: Callable[[str], Modules]
) -> Iterator[tuple[str, str, str]]:
    """(release before, release after, what changed) for each step at which `name` changed."""
    for old, new in pairwise(releases):
        changes = list(_step(load(old).resolve(name), load(new).resolve(name)))
        if changes:
            yield old, new, "; ".join(changes)


def _step(before: Found | None, after: Found | None) -> Iterator[str]:
    if before is None or after is None:
        if before is not after:
            yield "gone" if after is None else "new"
        return
    if before.kind != after.kind:
        yield f"{_kind(before)} -> {_kind(after)}"
        return
    if before.origin != after.origin:
        yield f"defined in {after.origin} instead of {before.origin}"
    old, new = before.symbol, after.symbol
    if isinstance(old, Function) and isinstance(new, Function):
        if signature(old) != signature(new):
            yield f"signature {signature(old)} -> {signature(new)}"
        if old.body != new.body:
            yield "body"
    if isinstance(old, Class) and isinstance(new, Class) and old.bases != new.bases:
        yield f"bases ({', '.join(old.bases)}) -> ({', '.join(new.bases)})"


def _kind(found: Found) -> str:
    return "perhaps (answered by __getattr__)" if found.kind == "maybe" else found.kind
