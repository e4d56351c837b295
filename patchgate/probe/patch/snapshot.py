"""Compares snapshots of torch for what a patch changed.

Identity is compared, never equality: a replaced function that does the same is still replaced.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import operator
import re
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch.utils._config_module import ConfigModule

IGNORED = {
    "__warningregistry__",
    "__builtins__",
    "__annotations__",
    "__doc__",
    "__file__",
    "__cached__",
    # What tells modules apart, not what is in them.
    "__name__",
    "__spec__",
    "__loader__",
    "__package__",
    "__path__",
    "__all__",
}
# The table in which a whole module is replaced by another one.
_MODULES = "sys.modules[]"
#: Packages whose names a patch can change; generated code finds a name among the builtins too.
CHANGEABLE = {"torch", "triton", "builtins"}
# Larger containers are left out, for time. The largest of torch 2.11.0 has 3,140 items.
_CONTAINER_SIZE = 20_000
# Characters of an item of a list that name it.
_ENTRY_LENGTH = 60
# Functions that are followed inward from one wrapper.
_WRAPPED_FUNCTIONS = 50
# Lists of what exists or was compiled; torch behaves the same with and without an entry.
_BOOKKEEPING = {
    "torch._dynamo.eval_frame.cached_backends",
    "torch._library.custom_ops.OPDEF_TO_LIB",
    "torch.jit._builtins._builtin_table",
    "torch.ops._dir",
    "triton.runtime.jit._triton_jit_function_registry",
}
# Every operator that there is, by `namespace::name`.
OPERATORS = "torch.ops[]"
_ABSENT = object()
#: As `id`, which calls every audit hook of the process each time.
identity = object.__hash__

#: Dotted name -> (object before, object after); None where there was none.
Changes = dict[str, tuple[Any, Any]]


class Snapshot(dict[str, dict[Any, Any]]):
    """Dotted name of a module, class or container (`name[]`) -> its attributes or items.

    What has not changed since the last snapshot is that one's own dict: whoever changes one copies
    it first.
    """

    def __init__(self, owners: Mapping[str, dict[Any, Any]] = types.MappingProxyType({})) -> None:
        super().__init__(owners)
        self.inner: dict[str, _Inner] = {}  # by module


class _Inner(NamedTuple):
    """The content of a snapshot beside a module's attributes, by dotted name."""

    tables: list[tuple[str, Any]]  #: the dicts, lists and sets among them
    classes: list[tuple[str, type]]  #: that the module defines

    @classmethod
    def of(cls, name: str, attributes: Mapping[str, Any]) -> _Inner:
        # Triton has `sys.modules` under its own name.
        interpreters = set(map(identity, vars(sys).values()))
        inner = cls([], [])
        for key, value in attributes.items():
            # Of its type, which answers faster than an object that is no class.
            kind = type(value)
            if issubclass(kind, (dict, list, set)):
                is_bookkeeping = key in IGNORED or f"{name}.{key}" in _BOOKKEEPING
                if not is_bookkeeping and identity(value) not in interpreters:
                    inner.tables.append((f"{name}.{key}[]", value))
            elif issubclass(kind, type) and value.__module__ == name and value.__name__ == key:
                inner.classes.append((f"{name}.{key}", value))
        return inner


# With the server's own as the first, a child of it has to compare, and to copy little.
_last = Snapshot()


def resolve(dotted: str) -> Any:
    """The object behind a dotted name. Raises LookupError with the first part that is missing."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for depth, part in enumerate(parts[length:], length):
            try:
                value = (
                    inspect.getattr_static(value, part)
                    if inspect.isclass(value)
                    else getattr(value, part)
                )
            except AttributeError:
                raise LookupError(".".join(parts[: depth + 1])) from None
        return value
    raise LookupError(parts[0])


def take_snapshot() -> Snapshot:
    """Every attribute of every owner, and one level into module-level dicts, lists and sets."""
    global _last
    operators = {name: name for name in torch._C._dispatch_get_all_op_names()}
    taken = Snapshot({_MODULES: {}, OPERATORS: operators})
    for name, module in list(sys.modules.items()):
        is_module = isinstance(module, types.ModuleType) and not isinstance(module, ConfigModule)
        if name.partition(".")[0] not in CHANGEABLE or not is_module:
            continue
        taken[_MODULES][name] = module
        taken[name] = attributes = _copy(name, vars(module))
        is_as_before = attributes is _last.get(name)
        inner = _last.inner[name] if is_as_before else _Inner.of(name, attributes)
        taken.inner[name] = inner
        for dotted, table in inner.tables:
            if len(table) < _CONTAINER_SIZE:
                taken[dotted] = _copy(dotted, table)
        for dotted, owned in inner.classes:
            taken[dotted] = _copy(dotted, vars(owned))
    _last = taken
    return taken


def _copy(dotted: str, now: Any) -> dict[Any, Any]:
    """The attributes or items of an owner; the last snapshot's own where none is another object
    since.
    """
    is_mapping = isinstance(now, (dict, types.MappingProxyType))
    last = _last.get(dotted)
    if last is not None and len(last) == len(now):
        is_same = all(map(operator.is_, last.values(), now.values() if is_mapping else now))
        if is_same and (not is_mapping or all(map(operator.is_, last, now))):
            return last
    return dict(now) if is_mapping else {identity(item): item for item in now}


def changes(before: Snapshot, after: Snapshot) -> Changes:
    """The attributes that are another object now.

    Modules that only the patch imported are new, not changed. Of a module that another one
    replaces, what only one of
    them has is not listed: `sys.modules[torch...]` says that it is another. An operator that the
    patch defines replaces none, and neither does what is registered for it. A registry's entry is
    named `torch._inductor.lowering.lowerings[aten.silu.default]`, once, however many modules import
    the registry.
    """
    changed: Changes = {}
    own = set(defined_operators(before, after))
    replaced = {
        name for name, old in before[_MODULES].items() if after[_MODULES].get(name, old) is not old
    }
    for dotted in _without_aliases(before, after):
        old, new = before[dotted], after[dotted]
        if _same(old, new):
            continue
        is_registry = dotted.endswith("[]")
        for key in {**old, **new}:
            was, now = old.get(key, _ABSENT), new.get(key, _ABSENT)
            if not is_registry and key in IGNORED:
                continue
            if is_registry and own and _operator(now if key == identity(now) else key) in own:
                continue
            if was is now or (was is _ABSENT and isinstance(now, types.ModuleType)):
                continue
            if dotted not in replaced or not (was is _ABSENT or now is _ABSENT):
                name = (
                    f"{dotted[:-1]}{_entry(key, was, now)}]" if is_registry else f"{dotted}.{key}"
                )
                changed[name] = (None if was is _ABSENT else was, None if now is _ABSENT else now)
    return changed


def defined_operators(before: Snapshot, after: Snapshot) -> list[str]:
    """The operators that are in the second snapshot only, as `namespace::name`."""
    return sorted(
        {name.partition(".")[0] for name in after[OPERATORS].keys() - before[OPERATORS].keys()}
    )


def _entry(key: Any, was: Any, now: Any) -> str:
    """The name of an entry: its key, or in a list or set, where the key is the item's identity, its
    own name.
    """
    item = now if was is _ABSENT else was
    if key != identity(item):
        return str(key)
    name = getattr(item, "__qualname__", None) or re.sub(r" at 0x[0-9a-f]+", "", repr(item))
    return str(name)[:_ENTRY_LENGTH]


def _without_aliases(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """The names of both snapshots; of a registry under many names only one, that of the module that
    assigns it.
    """
    registries: dict[int, list[str]] = {}
    for dotted in before.keys() & after.keys():
        if dotted == OPERATORS:
            continue
        if not dotted.endswith("[]") or dotted == _MODULES:
            yield dotted
        elif not _same(before[dotted], after[dotted]):
            module, _, name = dotted[:-2].rpartition(".")
            registries.setdefault(identity(after[module][name]), []).append(dotted)
    yield from map(first_name, registries.values())


def owners_once(snapshot: Snapshot) -> Iterator[tuple[list[str], dict[Any, Any]]]:
    """Each owner and table with its names: a table that modules import is there under all of
    theirs.
    """
    tables: dict[int, tuple[list[str], dict[Any, Any]]] = {}
    for dotted, attributes in snapshot.items():
        module, _, name = dotted[:-2].rpartition(".")
        if dotted.endswith("[]") and name in snapshot.get(module, {}):
            tables.setdefault(identity(snapshot[module][name]), ([], attributes))[0].append(dotted)
        else:
            yield [dotted], attributes
    yield from tables.values()


def first_name(aliases: list[str]) -> str:
    """Of a table's names the one that is assigned."""
    return (
        aliases[0] if len(aliases) == 1 else next(filter(_assigns, sorted(aliases)), min(aliases))
    )


def _same(old: dict[Any, Any], new: dict[Any, Any]) -> bool:
    if old is new or _same_in_order(old, new):
        return True
    return old.keys() == new.keys() and all(old[key] is new[key] for key in old)


def _same_in_order(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> bool:
    if len(old) != len(new):
        return False
    return all(map(operator.is_, old, new)) and all(map(operator.is_, old.values(), new.values()))


def _assigns(registry: str) -> bool:
    """True if the module assigns the name, rather than imports it."""
    module, _, name = registry[:-2].rpartition(".")
    with contextlib.suppress(OSError, TypeError):
        return (
            re.search(rf"^{name}\b[^=\n]*=", inspect.getsource(sys.modules[module]), re.MULTILINE)
            is not None
        )
    return False


def _operator(key: Any) -> str | None:
    """`aten::silu` of `aten/silu/CPU`, of an operator and of any of its overloads; None for what is
    no operator's.
    """
    if isinstance(key, torch._ops.OpOverload):
        return str(key._schema.name)
    if isinstance(key, torch._ops.OpOverloadPacket):
        return str(key._qualified_op_name)
    if not isinstance(key, str):
        return None
    space, _, rest = key.replace("::", "/").partition("/")
    return f"{space}::{rest.partition('/')[0].partition('.')[0]}"


def config_values() -> dict[str, Any]:
    """`module.option` -> value for every config module of torch that is loaded."""
    values: dict[str, Any] = {}
    for name, module in list(sys.modules.items()):
        if isinstance(module, ConfigModule) and name.startswith("torch."):
            values |= {
                f"{name}.{option}": value for option, value in module.shallow_copy_dict().items()
            }
    return values


def with_wrapped(value: Any) -> Iterator[Any]:
    """A function and those that it wraps, at most `_WRAPPED_FUNCTIONS`: by closures, `__wrapped__`
    and partials.
    """
    is_function = isinstance(value, types.FunctionType)
    wraps = (
        value.__closure__ or hasattr(value, "__wrapped__")
        if is_function
        else isinstance(value, functools.partial)
    )
    if not wraps:
        yield value
        return
    seen: set[int] = set()
    todo = [value]
    while todo and len(seen) < _WRAPPED_FUNCTIONS:
        item = todo.pop()
        if identity(item) in seen:
            continue
        seen.add(identity(item))
        yield item
        if isinstance(item, functools.partial):
            todo.append(item.func)
        elif isinstance(item, types.FunctionType):
            todo += [
                held
                for held in _closure(item)
                if isinstance(held, (types.FunctionType, functools.partial))
            ]
            if "__wrapped__" in vars(item):
                todo.append(vars(item)["__wrapped__"])


def reaches(outer: Any, inner: Any) -> bool:
    """True if calling `outer` can call `inner`: by its closure, defaults, `__wrapped__` or globals.

    So the wrapper of a second import is known: it holds that of the first.
    """
    seen: set[int] = set()
    todo = [outer]
    while todo:
        value = todo.pop()
        if identity(value) in seen:
            continue
        seen.add(identity(value))
        if value is inner and value is not outer:
            return True
        value = getattr(value, "__func__", value)
        if isinstance(value, types.FunctionType):
            names = [value.__globals__.get(name) for name in value.__code__.co_names]
            todo += [
                item
                for item in (*_closure(value), *(value.__defaults__ or ()), *names)
                if callable(item)
            ]
            todo += [value.__wrapped__] if hasattr(value, "__wrapped__") else []
    return False


def saved_after_replacing(changed: Changes) -> list[str]:
    """The changed names whose replacement was saved as its own original: calling it never ends.

    By a name of the module or the closure that is not the function's own, by which it would only
    call itself again, or
    by an attribute that is new: one that is called as saved originals are, or that the replacement
    itself reads.
    """
    saved = {
        identity(now)
        for name, (old, now) in changed.items()
        if old is None and is_saved_original(name.rpartition(".")[2])
    }
    looped = {
        getattr(now, "__code__", None)
        for name, (old, now) in changed.items()
        if old is None and _reads(now, name)
    }
    return sorted(
        name
        for name, (old, now) in changed.items()
        if old is not None
        and (identity(now) in saved or getattr(now, "__code__", "") in looped or _holds_itself(now))
    )


def is_saved_original(key: Any) -> bool:
    """True if the name says that a patch saved the original there."""
    return isinstance(key, str) and key.lstrip("_").startswith(("orig", "old_", "saved_", "real_"))


def _reads(function: Any, dotted: str) -> bool:
    """True if the code of a function reads an attribute of that last name."""
    return dotted.rpartition(".")[2] in getattr(getattr(function, "__code__", None), "co_names", ())


def _holds_itself(value: Any) -> bool:
    function = inspect.unwrap(getattr(value, "__func__", value))
    if not isinstance(function, types.FunctionType):
        return False
    code = function.__code__
    free = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    held = {
        name: function.__globals__.get(name)
        for name in code.co_names
        if name not in code.co_freevars
    }
    for name, cell in free.items():
        with contextlib.suppress(ValueError):  # the cell is still empty
            held[name] = cell.cell_contents
    return any(
        name != code.co_name and (item is value or item is function) for name, item in held.items()
    )


def wrapped_twice(changed: Changes) -> list[str]:
    """The changed names whose replacement wraps another made by the same code: what installs it ran
    twice in one run.

    Wrappers of one decorator that hold different arguments are different wrappers.
    """
    return sorted(
        name for name, (old, now) in changed.items() if old is not None and _wraps_its_like(now)
    )


def _wraps_its_like(value: Any) -> bool:
    function = getattr(value, "__func__", value)
    if not isinstance(function, types.FunctionType):
        return False
    held = [*_closure(function), *(function.__defaults__ or ())]
    for inner in held:
        is_like = isinstance(inner, types.FunctionType) and inner.__code__ is function.__code__
        if is_like and inner is not function:
            also = [*_closure(inner), *(inner.__defaults__ or ())]
            pairs = zip(held, also, strict=False)
            return all(mine is its or (callable(mine) and callable(its)) for mine, its in pairs)
    return False


def _closure(function: types.FunctionType) -> list[Any]:
    """The objects in a function's closure; a cell may still be empty."""
    held = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):
            held.append(cell.cell_contents)
    return held
