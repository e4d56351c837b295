"""Follow a dotted name through a release: imports by value, nested classes, base classes."""

from __future__ import annotations

import builtins
import typing
from collections.abc import Container, Iterator, Sequence
from typing import Protocol

from patchgate.lint.index.records import Class, Function, Module, in_extension
from patchgate.model.errors import UsageError
from patchgate.model.records import record
from patchgate.model.text import did_you_mean

# Bases outside the index -> the names that classes inherit from them.
_PLAIN: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ["typing.Generic", "typing.Protocol", "typing_extensions.Protocol"], frozenset()
    ),
    "abc.ABC": frozenset({"register"}),
    "enum.Enum": frozenset(
        {"name", "value", "_name_", "_value_", "_missing_", "_member_map_", "_value2member_map_"}
    ),
    "typing.NamedTuple": frozenset(
        {"_replace", "_asdict", "_make", "_fields", "_field_defaults", "count", "index"}
    ),
}
# Modules of Python from which torch imports `*` -> the names that it gets. `multiprocessing` is not
# listed, because torch's C code adds names there.
_LIBRARY = {"typing": frozenset(typing.__all__)}
# A package outside the index -> the modules of torch whose names it exports again.
_HANDS_ON = {
    "functorch.compile": tuple(
        f"torch._functorch.{module}"
        for module in ("aot_autograd", "partitioners", "compilers", "fx_minifier", "python_key")
    ),
}
# At most this many imports are followed, so that a search along circular imports ends.
_DEPTH = 8


@record
class Found:
    """The object that a dotted name means."""

    #: module, function, class, attribute, or maybe: the name may exist, for example because of a
    #: `__getattr__`.
    kind: str
    #: Dotted name of the definition.
    origin: str
    #: None if `kind` is attribute or maybe.
    symbol: Module | Class | Function | None = None


class Modules(Protocol):
    """A release, read from the index or from a tree of sources."""

    def module(self, name: str) -> Module | None: ...
    def modules(self) -> frozenset[str]: ...
    def resolve(self, dotted: str) -> Found | None: ...


def module_of(dotted: str, modules: Container[str]) -> str:
    """The innermost of `modules` that contains a name; empty if none does."""
    module = dotted.rpartition(".")[0]
    while module and module not in modules:
        module = module.rpartition(".")[0]
    return module


def resolve(release: Modules, dotted: str, depth: int = 0) -> Found | None:
    """The object that `dotted` names. A name that a package binds hides the submodule of the same
    name.
    """
    modules = release.modules()
    if dotted in modules:
        owner, _, name = dotted.rpartition(".")
        above = release.module(owner) if owner else None
        if depth or above is None or not _hidden(above, name):
            return Found(kind="module", origin=dotted, symbol=release.module(dotted))
    module = module_of(dotted, modules)
    here = release.module(module) if module else None
    if here is None:
        package, _, name = dotted.rpartition(".")
        origins = (f"{origin}.{name}" for origin in _HANDS_ON.get(package, ()))
        return next(filter(None, (resolve(release, each, depth + 1) for each in origins)), None)
    if depth > _DEPTH:
        return None
    return _inside(release, here, dotted[len(module) + 1 :], depth)


def _hidden(package: Module, name: str) -> bool:
    """True if a function, class or import of the package hides the submodule of that name."""
    own = f"{package.name}.{name}"
    return (
        name in package.functions
        or name in package.classes
        or package.imports.get(name, own) != own
    )


def _inside(release: Modules, here: Module, rest: str, depth: int) -> Found | None:
    dotted = f"{here.name}.{rest}"
    if rest in here.functions:
        return Found(kind="function", origin=dotted, symbol=here.functions[rest])
    if rest in here.classes:
        return Found(kind="class", origin=dotted, symbol=here.classes[rest])
    first, _, after = rest.partition(".")
    if first in here.imports:
        origin = here.imports[first] + (f".{after}" if after else "")
        return resolve(release, origin, depth + 1) or Found(kind="maybe", origin=origin)
    if rest in here.attributes:
        return Found(kind="attribute", origin=dotted)
    owner, _, name = rest.rpartition(".")
    if owner in here.classes:
        return member(release, f"{here.name}.{owner}", name)
    if here.has_getattr and not after:
        return Found(kind="maybe", origin=here.name)
    return _starred(release, here, rest, depth)


def _starred(release: Modules, here: Module, rest: str, depth: int) -> Found | None:
    """The object behind a name from a star import. A star import from outside the index, or from a
    C extension, may bind any name; for the modules of `_LIBRARY` the names are known.
    """
    first = rest.partition(".")[0]
    for local in here.imports:
        if local.endswith(".*"):
            if first not in _LIBRARY.get(local[:-2], (first,)):
                continue
            known = local[:-2] in release.modules() and not in_extension(local)
            found = (
                resolve(release, local[:-1] + rest, depth + 1)
                if known
                else Found(kind="maybe", origin=local)
            )
            if found is not None:
                return found
    return None


def member(release: Modules, class_dotted: str, name: str) -> Found | None:
    """Find `name` on a class or on one of its bases."""
    maybe = None
    for dotted, found in _with_bases(release, class_dotted):
        if dotted in _PLAIN or dotted.startswith("builtins."):
            builtin = getattr(builtins, dotted.removeprefix("builtins."), object)
            if name in _PLAIN[dotted] if dotted in _PLAIN else hasattr(builtin, name):
                return Found(kind="attribute", origin=f"{dotted}.{name}")
            continue
        if found is None or not isinstance(found.symbol, Class):
            maybe = Found(kind="maybe", origin=class_dotted)
            continue
        symbol = found.symbol
        if name in symbol.functions:
            return Found(
                kind="function", origin=f"{found.origin}.{name}", symbol=symbol.functions[name]
            )
        if name in symbol.attributes:
            return Found(kind="attribute", origin=f"{found.origin}.{name}")
        outer, inner = module_of(found.origin, release.modules()), f"{found.origin}.{name}"
        module = release.module(outer)
        nested = module.classes.get(inner[len(outer) + 1 :]) if module is not None else None
        if nested is not None:
            return Found(kind="class", origin=inner, symbol=nested)
        if symbol.has_getattr:
            maybe = Found(kind="maybe", origin=found.origin)
    return maybe


def on_metaclass(release: Modules, class_dotted: str, name: str) -> bool:
    """True if any metaclass in the module of the class, or in the module of one of its bases, has
    the name. The index does not record the metaclass of a class.
    """
    for _, found in _with_bases(release, class_dotted):
        outer = module_of(found.origin, release.modules()) if found is not None else ""
        module = release.module(outer)
        for each in module.classes.values() if module is not None else ():
            is_meta = any(base.endswith(("builtins.type", "Meta")) for base in each.bases)
            if is_meta and member(release, f"{outer}.{each.name}", name) is not None:
                return True
    return False


def _with_bases(release: Modules, class_dotted: str) -> Iterator[tuple[str, Found | None]]:
    """A class and its bases in the order in which Python looks names up, without `object`."""
    todo, seen = [class_dotted], {"builtins.object"}
    while todo:
        dotted = todo.pop(0)
        if dotted not in seen:
            seen.add(dotted)
            found = release.resolve(dotted)
            yield dotted, found
            if found is not None and isinstance(found.symbol, Class):
                todo = [*found.symbol.bases, *todo]


def member_names(release: Modules, class_dotted: str) -> frozenset[str]:
    """The names that the source of a class and its bases defines."""
    names: set[str] = set()
    for dotted, found in _with_bases(release, class_dotted):
        names |= _PLAIN.get(dotted, frozenset())
        if dotted.startswith("builtins."):
            names.update(dir(getattr(builtins, dotted[9:], object)))
        if found is not None and isinstance(found.symbol, Class):
            symbol = found.symbol
            module = release.module(module_of(found.origin, release.modules()))
            prefix = f"{symbol.name}."
            inner = (
                each[len(prefix) :]
                for each in (module.classes if module else ())
                if each.startswith(prefix)
            )
            names |= {
                *symbol.functions,
                *symbol.attributes,
                *(each.partition(".")[0] for each in inner),
            }
    return frozenset(names)


def refuse_unknown(dotted: str, releases: Sequence[Modules], where: str) -> None:
    """Raise UsageError, with a similar name, if no release defines `dotted`. The releases come
    oldest first.
    """
    if any((found := each.resolve(dotted)) and found.kind != "maybe" for each in releases):
        return
    known = (_correction(dotted, each) for each in reversed(releases))
    raise UsageError(
        "in none of these releases",
        where=where,
        got=dotted,
        next=next(
            filter(None, known), "a full name, such as torch._inductor.ir.StorageBox.realize"
        ),
    )


def _correction(dotted: str, release: Modules) -> str:
    """Ask "did you mean `NAME`?" about the first part of `dotted` that the release lacks."""
    parts = dotted.split(".")
    for at, part in enumerate(parts):
        owner = ".".join(parts[:at])
        found = release.resolve(".".join(parts[: at + 1]))
        if found is None or found.kind == "maybe":
            known = sorted(_names_below(owner, release)) if owner else ["torch", "triton"]
            return did_you_mean(part, known, f"{owner}." if owner else "")
    return ""


def _names_below(owner: str, release: Modules) -> frozenset[str]:
    """The names that a module and its submodules define, or the names that a class defines."""
    found = release.resolve(owner)
    if found is None or not isinstance(found.symbol, Module):
        return member_names(release, owner)
    here, prefix = found.symbol, f"{owner}."
    below = (each[len(prefix) :] for each in release.modules() if each.startswith(prefix))
    names = [*here.functions, *here.classes, *here.attributes, *here.imports, *below]
    return frozenset(name.partition(".")[0] for name in names) - {"*"}
