"""Compares snapshots of torch for what a patch changed.

Identity is compared, never equality: a replaced function that does the same is still replaced.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

from torch.utils._config_module import ConfigModule

_IGNORED = {"__warningregistry__", "__builtins__", "__annotations__", "__doc__", "__file__", "__cached__"}
# What tells modules apart, not what is in them.
_IGNORED |= {"__name__", "__spec__", "__loader__", "__package__", "__path__", "__all__"}
# The table in which a whole module is replaced by another one.
_MODULES = "sys.modules[]"
# Generated code finds a name among the builtins too.
_CHANGEABLE = {"torch", "triton", "builtins"}
# Larger containers are left out, for time. The largest of torch 2.11.0 has 3,140 items.
_CONTAINER_SIZE = 20_000
# Functions that are followed inward from one wrapper.
_WRAPPED_FUNCTIONS = 50
# Lists of what exists or was compiled; torch behaves the same with and without an entry.
_BOOKKEEPING = {
    "torch._dynamo.eval_frame.cached_backends",
    "torch._library.custom_ops.OPDEF_TO_LIB",
    "torch.jit._builtins._builtin_table",
    "torch.ops._dir",
}
# Operators by name; one in a namespace of its own replaces none.
_OPERATORS = ("torch.library._defs[]", "torch.library._impls[]")
_ABSENT = object()

#: Dotted name of a module, class or container (`name[]`) -> its attributes or items.
Snapshot = dict[str, dict[Any, Any]]
#: Dotted name -> (object before, object after); None where there was none.
Changes = dict[str, tuple[Any, Any]]


def _owners() -> Iterator[tuple[str, Any]]:
    """Torch's and Triton's modules, the builtins, and the classes that they define, by dotted name."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in _CHANGEABLE or not isinstance(module, types.ModuleType):
            continue
        if isinstance(module, ConfigModule):
            continue
        yield name, module
        for attribute, value in list(vars(module).items()):
            if isinstance(value, type) and value.__module__ == name and value.__name__ == attribute:
                yield f"{name}.{attribute}", value


def take_snapshot() -> Snapshot:
    """Every attribute of every owner, and one level into module-level dicts, lists and sets."""
    taken: Snapshot = {_MODULES: {}}
    for dotted, owner in _owners():
        attributes = {key: value for key, value in vars(owner).items() if key not in _IGNORED}
        taken[dotted] = attributes
        if isinstance(owner, types.ModuleType):
            taken[_MODULES][dotted] = owner
            for key, value in attributes.items():
                if f"{dotted}.{key}" in _BOOKKEEPING:
                    continue
                if isinstance(value, dict) and len(value) < _CONTAINER_SIZE:
                    taken[f"{dotted}.{key}[]"] = dict(value)
                elif isinstance(value, (list, set)) and len(value) < _CONTAINER_SIZE:
                    taken[f"{dotted}.{key}[]"] = {id(item): item for item in value}
    return taken


def changes(before: Snapshot, after: Snapshot) -> Changes:
    """The attributes that are another object now.

    Modules that only the patch imported are new, not changed. Of a module that another one replaces, what only one of
    them has is not listed: `sys.modules[torch...]` says that it is another. A registry's entry is named
    `torch._inductor.lowering.lowerings[aten.silu.default]`, once, however many modules import the registry.
    """
    changed: Changes = {}
    replaced = {name for name, old in before[_MODULES].items() if after[_MODULES].get(name, old) is not old}
    for dotted in _without_aliases(before, after):
        old, new = before[dotted], after[dotted]
        is_registry = dotted.endswith("[]")
        spaces = {_namespace(value) for value in old.values()} if dotted in _OPERATORS else None
        for key in {**old, **new}:
            was, now = old.get(key, _ABSENT), new.get(key, _ABSENT)
            if spaces is not None and _namespace(now) not in spaces:
                continue
            if was is now or (was is _ABSENT and isinstance(now, types.ModuleType)):
                continue
            if dotted not in replaced or not (was is _ABSENT or now is _ABSENT):
                name = f"{dotted[:-1]}{key}]" if is_registry else f"{dotted}.{key}"
                changed[name] = (None if was is _ABSENT else was, None if now is _ABSENT else now)
    return changed


def _without_aliases(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """The names of both snapshots; of a registry under many names only one, that of the module that assigns it."""
    registries: dict[int, list[str]] = {}
    for dotted in before.keys() & after.keys():
        if not dotted.endswith("[]") or dotted == _MODULES:
            yield dotted
        elif not _same(before[dotted], after[dotted]):
            module, _, name = dotted[:-2].rpartition(".")
            registries.setdefault(id(after[module][name]), []).append(dotted)
    for aliases in registries.values():
        yield aliases[0] if len(aliases) == 1 else next(filter(_assigns, sorted(aliases)), min(aliases))


def _same(old: dict[Any, Any], new: dict[Any, Any]) -> bool:
    return old.keys() == new.keys() and all(old[key] is new[key] for key in old)


def _assigns(registry: str) -> bool:
    """Whether the module assigns the name, rather than imports it."""
    module, _, name = registry[:-2].rpartition(".")
    with contextlib.suppress(OSError, TypeError):
        return re.search(rf"^{name}\b[^=\n]*=", inspect.getsource(sys.modules[module]), re.MULTILINE) is not None
    return False


def _namespace(operator: Any) -> str:
    """`aten` of `aten::silu` and of `aten/silu/CPU`."""
    return str(operator).replace("::", "/").partition("/")[0]


def config_values() -> dict[str, Any]:
    """`module.option` -> value for every config module of torch that is loaded."""
    values: dict[str, Any] = {}
    for name, module in list(sys.modules.items()):
        if isinstance(module, ConfigModule) and name.startswith("torch."):
            values |= {f"{name}.{option}": value for option, value in module.shallow_copy_dict().items()}
    return values


def with_wrapped(value: Any) -> Iterator[Any]:
    """A function and those that it wraps, at most `_WRAPPED_FUNCTIONS`: by closures, `__wrapped__` and partials."""
    seen: set[int] = set()
    todo = [value]
    while todo and len(seen) < _WRAPPED_FUNCTIONS:
        item = todo.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, functools.partial):
            todo.append(item.func)
        elif isinstance(item, types.FunctionType):
            todo += [held for held in _closure(item) if isinstance(held, (types.FunctionType, functools.partial))]
            todo += [vars(item)["__wrapped__"]] if "__wrapped__" in vars(item) else []


def reaches(outer: Any, inner: Any) -> bool:
    """Whether calling `outer` can call `inner`: by its closure, defaults, `__wrapped__` or globals.

    So the wrapper of a second import is known: it holds that of the first.
    """
    seen: set[int] = set()
    todo = [outer]
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if value is inner and value is not outer:
            return True
        value = getattr(value, "__func__", value)
        if isinstance(value, types.FunctionType):
            names = [value.__globals__.get(name) for name in value.__code__.co_names]
            todo += [item for item in (*_closure(value), *(value.__defaults__ or ()), *names) if callable(item)]
            todo += [value.__wrapped__] if hasattr(value, "__wrapped__") else []
    return False


def _closure(function: types.FunctionType) -> list[Any]:
    """The objects in a function's closure; a cell may still be empty."""
    held = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):
            held.append(cell.cell_contents)
    return held
