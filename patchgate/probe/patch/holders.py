"""Finds objects of the live process that still lead to originals replaced by a patch, and finds
replacements that no call can reach.

A holder is an attribute of a module or class, an entry of a registry, or a wrapper in one of these.
"""

from __future__ import annotations

import ast
import copyreg
import inspect
import re
import sys
from collections import Counter, defaultdict
from collections.abc import (
    Collection,
    Iterator,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
)
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import chain
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch

from patchgate.probe.patch.live_api import covered_names
from patchgate.probe.patch.snapshot import (
    Changes,
    Snapshot,
    first_name,
    identity,
    is_saved_original,
    resolve,
    with_wrapped,
)

# Kinds of tables. If a table is replaced as a whole, a module that has imported it keeps the old
# one.
_TABLES = (MutableMapping, MutableSequence, MutableSet)
# The kinds of objects that call something.
_CODE = (FunctionType, type, staticmethod, classmethod, partial, property, ModuleType)
# Tables of Python in which torch registers functions, by name.
_OF_PYTHON: dict[str, Any] = {
    "copyreg.dispatch_table[]": copyreg.dispatch_table,
    "multiprocessing.reduction.ForkingPickler._extra_reducers[]": (
        ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    ),
}
_TABLES_OF_PYTHON = tuple(name.removesuffix("]") for name in _OF_PYTHON)
# An import within a function, and a name in it.
_LATE_IMPORT = re.compile(rb"^[ \t]+from \S+ import (\([^)]*|.*)", re.MULTILINE)
_WORD = re.compile(rb"\w+")
# The metaclass of `torch.FloatTensor` and similar copies of `torch.Tensor`; no tensor has their
# type.
_LEGACY = type(torch.FloatTensor)


def holders(changes: Changes, after: Snapshot) -> dict[str, list[str]]:
    """Changed name -> the names that still lead to its original.

    An entry of a table can be held only by entries of other tables with the same key.
    """
    originals = _originals(changes)
    new = {identity(now) for old, now in changes.values() if old is not None}
    # Names that the patch itself added, to save an original that it calls.
    added = {name for name, (old, _) in changes.items() if old is None}
    leading: dict[str, list[str]] = defaultdict(list)
    # The changed names that an entry leads to, by its identity: many tables have the same entries.
    inside: dict[int, list[str]] = {}
    torchs = ((names, after[names[0]]) for names in after.names(after))
    own = (([name], table) for name, table in _OF_PYTHON.items())
    for aliases, attributes in chain(torchs, own) if originals else ():
        is_table = aliases[0].endswith("[]")
        has_original = not originals.keys().isdisjoint(map(identity, attributes.values()))
        if _is_left_out(aliases[0], has_original):
            continue
        for key, value in attributes.items():
            at = identity(value)
            if is_table and at not in inside:
                wrapped = map(identity, with_wrapped(value))
                inside[at] = [name for item in wrapped for name in originals.get(item, ())]
            replaced = inside[at] if is_table else originals.get(at, [])
            if not replaced or at in new or is_saved_original(key):
                continue
            # An entry with the function itself as its key describes the function, as a handler of
            # its overrides does, and does not call it.
            if identity(key) in new or identity(key) in originals:
                continue
            # The snapshot of a list has its items by identity; names are clearer.
            shown = getattr(value, "__qualname__", "...") if isinstance(key, int) else key
            place = f"{first_name(aliases)[:-2]}[{shown}]" if is_table else f"{aliases[0]}.{key}"
            for name in replaced if place not in added else ():
                if not name.endswith("]") or (is_table and name.endswith(f"[{shown}]")):
                    leading[name].append(place)
                    break
    for name, (old, now) in changes.items():
        inherited = list(_siblings(name, now)) if old is None and isinstance(now, _CODE) else []
        if inherited:
            leading[name] = inherited
    return {name: sorted(set(found)) for name, found in leading.items()}


def bypassed(changes: Changes, held: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Changed name -> the reason why callers surely bypass its replacement.

    A table that is held is read. A replacement has no callers if only a private module has it,
    under this one name, and neither that module nor later code reads the name.
    """
    given = Counter(identity(now) for _, now in changes.values())
    alone = {name for name in held if given[identity(changes[name][1])] == 1}
    unread = {name for name in alone if _is_unread_by_its_module(name)}
    uncalled = unread - _read_later(unread)
    found = {}
    for name, places in held.items():
        old, _ = changes[name]
        public = [place for place in places if _is_public(place)]
        pickled = [place for place in places if place.startswith(_TABLES_OF_PYTHON)]
        if isinstance(old, _TABLES):
            found[name] = "each reads a table of its own"
        elif pickled:
            found[name] = f"pickle calls {pickled[0]}"
        elif public and not _is_public(name):
            found[name] = f"users call {public[0]}"
        elif name in uncalled:
            found[name] = "no line of torch can call the replacement"
        elif origin := _reads_its_own(name, old, changes):
            found[name] = f"{origin} calls its own"
    return found


def _reads_its_own(name: str, old: Any, changes: Changes) -> str:
    """The module that defines and reads an original, if the replacement is in another module, which
    only passes the name on. Empty otherwise.
    """
    owner, _, last = name.rpartition(".")
    origin, defined = _origin(old, changes), getattr(old, "__name__", "")
    is_passed_on = owner in sys.modules and owner != origin and not _reads(owner, last)
    is_kept = f"{origin}.{defined}" not in changes and origin in sys.modules
    return origin if is_passed_on and is_kept and _reads(origin, defined) else ""


def _is_public(name: str) -> bool:
    """True for a name in `torch` itself or in a public module of it, such as `torch.func.vmap`."""
    return name.count(".") < 3 and "._" not in name and "[" not in name


def _is_unread_by_its_module(name: str) -> bool:
    """True for a private name of a module whose own code does not read it."""
    owner, _, last = name.rpartition(".")
    return owner in sys.modules and "._" in name and not _reads(owner, last)


def _read_later(names: Collection[str]) -> set[str]:
    """The names whose last part a file of torch reads as an attribute, or imports within a
    function.
    """
    lasts = {name: name.rpartition(".")[2].encode() for name in names}
    attribute = re.compile(rb"\.(%s)\b" % b"|".join(map(re.escape, {*lasts.values()})))
    found = set[bytes]()
    for text in _texts_of_torch() if names else ():
        found.update(attribute.findall(text))
        for imported in _LATE_IMPORT.findall(text):
            found.update(_WORD.findall(imported))
    return {name for name, last in lasts.items() if last in found}


def _texts_of_torch() -> Iterator[bytes]:
    return map(Path.read_bytes, Path(torch.__file__).parent.rglob("*.py"))


def _originals(changes: Changes) -> dict[int, list[str]]:
    """Identity of an original -> the changed names that had it. Originals that other modules keep
    on purpose are left out.
    """
    names: dict[int, list[str]] = defaultdict(list)
    for name, (old, _) in changes.items():
        if isinstance(old, _CODE):
            is_left = _is_use(name, old, changes)
        else:
            is_left = not isinstance(old, _TABLES) or _is_imported(name)
        if not is_left:
            names[identity(old)].append(name)
    return names


def _is_left_out(owner: str, has_original: bool) -> bool:
    """True if nothing in an owner can be a holder.

    A set only serves to test membership, and no tensor has the type of a legacy class.
    """
    if not owner.endswith("[]"):
        is_legacy = owner.endswith("Tensor") and isinstance(resolve(owner), _LEGACY)
        return is_legacy or not has_original
    with suppress(LookupError):
        return has_original and isinstance(resolve(owner[:-2]), (set, frozenset))
    return False


def _is_imported(name: str) -> bool:
    """True if a module has imported the name from another module. The module then keeps its binding
    when the name is replaced in the other.
    """
    owner, _, last = name.rpartition(".")
    tree = _source_of(owner)
    if tree is None:
        return True
    imports = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    return any((each.asname or each.name) == last for node in imports for each in node.names)


@cache
def _source_of(module: str) -> ast.Module | None:
    with suppress(KeyError, OSError, TypeError, SyntaxError):
        return ast.parse(inspect.getsource(sys.modules[module]))
    return None


def _is_use(name: str, old: Any, changes: Changes) -> bool:
    """True if the name is changed in a module that uses it, but not in the module that defines it:
    such a patch leaves the other modules alone on purpose.

    A public module counts as a user; a module that only passes the name on does not.
    """
    owner, _, last = name.rpartition(".")
    origin, defined = _origin(old, changes), getattr(old, "__name__", "")
    if owner == origin or not {owner, origin} <= sys.modules.keys():
        return False
    if f"{origin}.{defined}" in changes:
        return False
    return _is_public(f"{owner}.") or _reads(owner, last) or not _reads(origin, defined)


def _origin(value: Any, changes: Changes) -> str:
    """The module that defines an object. The object's `__module__` may name the public module that
    exposes it, such as `torch.func` for `vmap`.
    """
    home = getattr(value, "__globals__", {}).get("__name__", "")
    name = getattr(value, "__name__", "")
    old, _ = changes.get(f"{home}.{name}", (getattr(sys.modules.get(home), name, None), None))
    return home if old is value else str(getattr(value, "__module__", None))


def _reads(module: str, name: str) -> bool:
    """True if the module's own code reads the name, or has no source."""
    read = _names_read(module)
    return read is None or name in read


@cache
def _names_read(module: str) -> frozenset[str] | None:
    """The names that a module's own code reads; None if it has no source."""
    tree = _source_of(module)
    if tree is None:
        return None
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return frozenset(node.id for node in names if isinstance(node.ctx, ast.Load))


def _siblings(name: str, now: Any) -> Iterator[str]:
    """The names under which other classes still inherit the old method, if `now` was added to a
    class that inherited it.
    """
    owner, attribute = _class_of(name), name.rpartition(".")[2]
    if owner is None:
        return
    base = next((cls for cls in owner.__mro__[1:] if attribute in vars(cls)), None)
    if base is None or base.__module__ == "builtins" or vars(base)[attribute] is now:
        return
    for cls in _subclasses(base):
        if (
            cls is not base
            and not issubclass(cls, owner)
            and inspect.getattr_static(cls, attribute, None) is vars(base)[attribute]
            and cls.__module__.startswith("torch.")
        ):
            yield f"{cls.__module__}.{cls.__qualname__}.{attribute}"


def _subclasses(cls: type) -> Iterator[type]:
    children: list[type] = cls.__subclasses__()
    for child in children:
        yield child
        yield from _subclasses(child)


@contextmanager
def loaded_later(later: Mapping[str, str]) -> Iterator[None]:
    """Give replacements that are made in the block to holders that a new interpreter would load
    after it, unless the block has changed them itself.

    `later` maps each holder to the changed name, as in `Patched`.
    """
    before = {place: _attribute(place) for place in later}
    yield
    for place, name in later.items():
        owner, _, attribute = place.rpartition(".")
        with suppress(LookupError):
            if _attribute(place) is before[place] is not None:
                setattr(resolve(owner), attribute, resolve(name))


def _attribute(place: str) -> Any:
    """The object with a name in a module or class, not bound to it; None if there is none."""
    owner, _, attribute = place.rpartition(".")
    with suppress(LookupError):
        return vars(resolve(owner)).get(attribute)
    return None


def unreachable(changes: Changes) -> list[str]:
    """Replaced abstract methods that never run: each class without subclasses overrides them."""
    never_run = []
    for name, (old, now) in changes.items():
        owner = _class_of(name) if isinstance(now, _CODE) and _is_abstract(old) else None
        leaves = [cls for cls in _subclasses(owner) if not cls.__subclasses__()] if owner else []
        attribute = name.rpartition(".")[2]
        if leaves and all(
            inspect.getattr_static(cls, attribute, None) is not now for cls in leaves
        ):
            never_run.append(name)
    return never_run


def _class_of(name: str) -> type | None:
    """The class to which the name belongs; None if it does not belong to a class."""
    with suppress(LookupError):
        owner = resolve(name.rpartition(".")[0])
        return owner if isinstance(owner, type) else None
    return None


def _is_abstract(function: Any) -> bool:
    if getattr(function, "__isabstractmethod__", False):
        return True
    names = getattr(getattr(function, "__code__", None), "co_names", ())
    return "NotImplementedError" in names and len(names) <= 2


def names_unknown_to_torch(changed: Changes, targets: Sequence[str]) -> list[str]:
    """The changed names that are new to torch: they did not exist, nothing inherits them, and no
    line of torch looks them up.

    A new entry of a table counts: a patch that registers a backend, or an implementation of an
    operator, replaces nothing. A table that is replaced by a table with further entries, as in
    `torch.serialization`, counts too.
    """
    torchs = {name: pair for name, pair in changed.items() if name.startswith("torch.")}
    grown = {name for name, (old, now) in torchs.items() if _is_extended(old, now)}
    new = grown | {name for name, (old, _) in torchs.items() if old is None}
    claimed = {name for target in targets for name in covered_names(target, new)}
    return sorted(
        name
        for name in new - claimed
        if name in grown or name.endswith("]") or not _is_looked_up(name)
    )


def _is_extended(old: Any, now: Any) -> bool:
    """True if the second table extends the first: it has the same type and contains the same
    objects as entries, a sequence at its start and in their order.
    """
    kind = type(old)
    if kind is not type(now) or kind not in (dict, set, frozenset, list, tuple):
        return False
    if kind is dict:
        return all(key in now and now[key] is value for key, value in old.items())
    before, after = list(map(id, old)), list(map(id, now))
    if kind in (list, tuple):
        return after[: len(before)] == before
    return set(before) <= set(after)


def _is_looked_up(dotted: str) -> bool:
    """True if the owner inherits the name, or torch has it as an attribute or a text, or composes
    names with the same beginning.
    """
    owner_name, _, name = dotted.rpartition(".")
    try:
        owner = resolve(owner_name)
    except LookupError:
        return True
    if name.startswith("__"):
        return True
    if isinstance(owner, type) and (
        any(name in vars(base) for base in owner.__mro__[1:]) or _is_composed(owner, name)
    ):
        return True
    return _is_spelt(name)


@cache
def _is_spelt(name: str) -> bool:
    """True if a file of torch has the name as an attribute or a text. The answer is cached, because
    a patch may give one name to hundreds of classes.
    """
    spelt = re.compile(rf"(\.|['\"]){re.escape(name)}\b".encode())
    return any(name.encode() in text and spelt.search(text) for text in _texts_of_torch())


def _is_composed(owner: type, name: str) -> bool:
    """True if the file of the class or of a base composes names with the same beginning, as in
    `f"visit_{..}"`.
    """
    files = {getattr(sys.modules.get(base.__module__), "__file__", None) for base in owner.__mro__}
    text = b"".join(Path(file).read_bytes() for file in files if file and file.endswith(".py"))
    starts = [name[: at + 1] for at, letter in enumerate(name) if letter == "_"]
    return any(
        re.search(rf"""['"]{re.escape(start)}({{|['"] *[+%]|%s)""".encode(), text)
        for start in starts
    )
