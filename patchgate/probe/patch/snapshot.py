"""Compares snapshots of torch to find the changes of a patch.

Identity is compared, never equality: a replacement that behaves the same still counts.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import operator
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any

import torch
from torch.utils._config_module import ConfigModule

from patchgate.probe.patch.module_name import top_level

IGNORED = {
    "__warningregistry__",
    "__builtins__",
    "__annotations__",
    "__doc__",
    "__file__",
    "__cached__",
    # Attributes that identify a module and are not its content.
    "__name__",
    "__spec__",
    "__loader__",
    "__package__",
    "__path__",
    "__all__",
}
# The table of modules, in which a patch can replace a whole module.
_MODULES = "sys.modules[]"
#: Packages whose names a patch can change; generated code looks names up in the builtins too.
CHANGEABLE = {"torch", "triton", "builtins"}
# The most characters of the text that names an item of a list.
_ENTRY_LENGTH = 60
_CONSTANT = (str, bytes, tuple, type)
# Prefixes of names under which originals are saved.
_SAVED = ("orig", "old_", "saved_", "real_", "unpatched_")
# The most functions that are followed inward from one wrapper.
_WRAPPED_FUNCTIONS = 50
# Lists of what exists or was compiled; torch behaves the same with and without an entry.
_BOOKKEEPING = {
    "torch._dynamo.eval_frame.cached_backends",
    "torch._dynamo.trace_rules._polyfilled_function_ids",  # POLYFILLS has them by name
    "torch._library.custom_ops.OPDEF_TO_LIB",
    "torch.jit._builtins._builtin_table",
    "torch.ops._dir",
    "triton.runtime.jit._triton_jit_function_registry",
}
# All operators, by `namespace::name`.
OPERATORS = "torch.ops[]"
#: Functions of Python by name -> what Dynamo traces in their place.
POLYFILLS = "torch._dynamo.polyfills[]"
_ABSENT = object()
#: Like `id`, but without a call of the audit hooks of the process.
identity = object.__hash__

#: Dotted name -> (object before, object after); None where there was none.
Changes = dict[str, tuple[Any, Any]]


class Snapshot(dict[str, dict[Any, Any]]):
    """Dotted name of a module, class or container (`name[]`) -> its attributes or items.

    It shares unchanged dicts with the previous snapshot, so a dict must be copied before it is
    changed.
    """

    def __init__(self, *owners: dict[str, dict[Any, Any]]) -> None:
        super().__init__(*owners)
        #: Module -> its dicts, lists and sets, and the classes that it defines, by dotted name.
        self.inner: dict[str, dict[str, Any]] = {}
        #: The lists of `_BOOKKEEPING`, which `changes` leaves out, and their items.
        self.lists: dict[str, dict[Any, Any]] = {}

    def names(self, owners: Iterable[str]) -> Iterable[list[str]]:
        """Group the names by owner. A table has several names if other modules have imported it."""
        tables = {name: table for inner in self.inner.values() for name, table in inner.items()}
        grouped: dict[int, list[str]] = defaultdict(list)
        for name in owners:
            grouped[identity(tables.get(name, name) if name.endswith("[]") else name)].append(name)
        return grouped.values()


# The last snapshot. A child starts with the server's last one, so that it copies little.
_last = Snapshot()


def resolve(dotted: str) -> Any:
    """The object behind a dotted name. Raises LookupError with the first part that is missing."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for depth, part in enumerate(parts[length:], length + 1):
            read = inspect.getattr_static if inspect.isclass(value) else getattr
            try:
                value = read(value, part)
            except AttributeError:
                raise LookupError(".".join(parts[:depth])) from None
        return value
    raise LookupError(parts[0])


def take_snapshot() -> Snapshot:
    """Copy every attribute of every owner, and the items of dicts, lists and sets in modules."""
    global _last
    operators = torch._C._dispatch_get_all_op_names()
    taken = Snapshot({_MODULES: {}, OPERATORS: dict(zip(operators, operators, strict=True))})
    taken[POLYFILLS] = _copy(POLYFILLS, _polyfills())
    for name, module in list(sys.modules.items()):
        is_module = isinstance(module, ModuleType) and not isinstance(module, ConfigModule)
        if top_level(name) not in CHANGEABLE or not is_module:
            continue
        taken[_MODULES][name] = module
        taken[name] = attributes = _copy(name, vars(module))
        is_as_before = attributes is _last.get(name)
        inner = _last.inner[name] if is_as_before else _inner(name, attributes)
        taken.inner[name] = inner
        for dotted, value in inner.items():
            taken[dotted] = _copy(dotted, value if dotted.endswith("[]") else vars(value))
    lists = {name: _attribute(name) for name in _BOOKKEEPING}
    taken.lists = {
        name: _copy(name, items)
        for name, items in lists.items()
        if isinstance(items, (dict, list, set))
    }
    _last = taken
    return taken


def _attribute(dotted: str) -> Any:
    """The attribute of a module with this name; None if the module is not imported."""
    module, _, name = dotted.rpartition(".")
    return vars(sys.modules[module]).get(name) if module in sys.modules else None


def _polyfills() -> dict[str, Any]:
    """Map the name of each function to its substitute by `torch.compiler.substitute_in_graph`. A
    cache holds the table of substitutes; no module has it as an attribute.
    """
    functions = sys.modules.get("torch._dynamo.variables.functions")
    if functions is None:
        return {}
    handlers = functions.PolyfilledFunctionVariable._get_polyfill_handlers()
    return {
        _full_name(function): handler
        for function, handler in handlers.items()
        if function is not handler
    }


def _full_name(function: Any) -> str:
    """Return a name such as `_operator.indexOf`; a method written in C has its class's module."""
    owner = getattr(function, "__module__", None) or getattr(
        getattr(function, "__objclass__", None), "__module__", ""
    )
    return f"{owner}.{getattr(function, '__qualname__', type(function).__name__)}"


def _inner(module: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """The tables of a module (`name[]`), and the classes that it defines."""
    # Tables of `sys` do not count; Triton has `sys.modules` under a name of its own.
    interpreters = set(map(identity, vars(sys).values()))
    inner = {}
    for key, value in attributes.items():
        # Testing the type is faster than testing an object that is no class.
        kind = type(value)
        dotted = f"{module}.{key}"
        if issubclass(kind, (dict, list, set)):
            is_bookkeeping = key in IGNORED or dotted in _BOOKKEEPING
            if not is_bookkeeping and identity(value) not in interpreters:
                inner[f"{dotted}[]"] = value
        elif issubclass(kind, type) and value.__module__ == module and value.__name__ == key:
            inner[dotted] = value
    return inner


def _copy(dotted: str, now: Any) -> dict[Any, Any]:
    """Copy the attributes or items of an owner, or reuse the last copy if no object changed."""
    is_mapping = isinstance(now, (dict, MappingProxyType))
    last = _last.get(dotted)
    if last is not None and len(last) == len(now):
        is_same = all(map(operator.is_, last.values(), now.values() if is_mapping else now))
        if is_same and (not is_mapping or all(map(operator.is_, last, now))):
            return last
    return dict(now) if is_mapping else {identity(item): item for item in now}


def changes(before: Snapshot, after: Snapshot) -> Changes:
    """The attributes and entries whose object differs between the snapshots.

    Modules that only the patch imported are new, not changed. If a module replaces another one,
    `sys.modules[torch...]` is listed, and those changed names that both modules have. Operators
    that the patch defines, and their registrations, replace nothing and are left out. An entry of
    a registry is listed once, as `torch._inductor.lowering.lowerings[aten.silu.default]`, however
    many modules import the registry.
    """
    changed: Changes = {}
    own = set(defined_operators(before, after))
    replaced = {
        name for name, old in before[_MODULES].items() if after[_MODULES].get(name, old) is not old
    }
    differing = [
        name
        for name in before.keys() & after.keys() - {OPERATORS}
        if not _same(before[name], after[name])
    ]
    for dotted in map(first_name, after.names(differing)):
        old, new = before[dotted], after[dotted]
        is_table = dotted.endswith("[]")
        for key in {**old, **new}:
            was, now = old.get(key, _ABSENT), new.get(key, _ABSENT)
            is_added = was is _ABSENT
            if was is now or (is_added and isinstance(now, ModuleType)):
                continue
            if is_table:
                if own and _operator(now if key == identity(now) else key) in own:
                    continue
                name = f"{dotted[:-1]}{_entry(key, now if is_added else was)}]"
            elif key in IGNORED:
                continue
            else:
                name = f"{dotted}.{key}"
            if dotted not in replaced or not (is_added or now is _ABSENT):
                changed[name] = (None if is_added else was, None if now is _ABSENT else now)
    return changed


def changed_lists(before: Snapshot, after: Snapshot) -> list[str]:
    """The lists that `changes` leaves out and whose items differ."""
    both = before.lists.keys() & after.lists.keys()
    return [name for name in both if not _same(before.lists[name], after.lists[name])]


#: Identity of a function -> the objects that it, and the functions that it wraps, consist of.
Contents = dict[int, list[Any]]


def contents(taken: Snapshot) -> Contents:
    """The code, constants, defaults and closure of every function and of the functions that it
    wraps. A patch can change these parts without replacing a name.
    """
    found: Contents = {}
    for owner in taken.values():
        for value in owner.values():
            function = _function(value) if type(value) in _METHODS else value
            if type(function) is FunctionType and identity(function) not in found:
                is_plain = function.__closure__ is None and not vars(function)
                found[identity(function)] = (
                    _parts(function)
                    if is_plain
                    else [part for each in with_wrapped(function) for part in _parts(each)]
                )
    return found


# Objects in which a class keeps functions.
_METHODS = {staticmethod, classmethod, property}


def _function(value: Any) -> Any:
    """The function inside a staticmethod, classmethod or property; any other value as it is."""
    if type(value) in (staticmethod, classmethod):
        return value.__func__
    return value.fget if type(value) is property else value


def _parts(value: Any) -> list[Any]:
    if not isinstance(value, FunctionType):
        return [value]
    code = value.__code__
    parts = [value, code, value.__defaults__, value.__kwdefaults__, *code.co_consts]
    if value.__closure__:
        # Counters and caches that torch keeps in a closure are of other types.
        parts += (each for each in _closure(value) if isinstance(each, _CONSTANT))
    return parts


def edited(before: Contents, taken: Snapshot) -> list[str]:
    """The functions that are the same objects as before but have other parts, each by its first
    name.
    """
    unlike = {
        which: now[0]
        for which, now in contents(taken).items()
        if not _is_same_list(before.get(which, now), now)
    }
    names: dict[int, str] = {}
    for dotted, owner in taken.items() if unlike else ():
        for key, value in owner.items():
            function = _function(value)
            if unlike.get(identity(function), _ABSENT) is function:
                is_table = dotted.endswith("[]")
                name = f"{dotted[:-1]}{_entry(key, value)}]" if is_table else f"{dotted}.{key}"
                names.setdefault(identity(function), name)
    return sorted(names.values())


def _is_same_list(was: list[Any], now: list[Any]) -> bool:
    """True if the parts are the same, or if another function now has the address of a function
    that was freed.
    """
    return was[0] is not now[0] or (len(was) == len(now) and all(map(operator.is_, was, now)))


def defined_operators(before: Snapshot, after: Snapshot) -> list[str]:
    """The operators that are in the second snapshot only, as `namespace::name`."""
    return sorted(set(map(top_level, after[OPERATORS].keys() - before[OPERATORS].keys())))


def _entry(key: Any, item: Any) -> str:
    """The name of an entry: its key, or the item's name in a list or set, whose keys are
    identities.
    """
    if key != identity(item):
        return str(key)
    name = getattr(item, "__qualname__", None) or re.sub(r" at 0x[0-9a-f]+", "", repr(item))
    return str(name)[:_ENTRY_LENGTH]


def first_name(aliases: list[str]) -> str:
    """Return the name of a table in the module that assigns it, among all its names."""
    if len(aliases) == 1:
        return aliases[0]
    return next(filter(_assigns, sorted(aliases)), min(aliases))


def _same(old: dict[Any, Any], new: dict[Any, Any]) -> bool:
    if old is new:
        return True
    return old.keys() == new.keys() and all(new[key] is value for key, value in old.items())


def _assigns(table: str) -> bool:
    """True if the module assigns the name, rather than imports it."""
    module, _, name = table[:-2].rpartition(".")
    with suppress(OSError, TypeError):
        source = inspect.getsource(sys.modules[module])
        return re.search(rf"^{name}\b[^=\n]*=", source, re.MULTILINE) is not None
    return False


def _operator(key: Any) -> str | None:
    """The operator that a key is about: `aten::silu` for `aten/silu/CPU`, for the operator itself
    and for any overload. None for a key of another kind.
    """
    if isinstance(key, torch._ops.OpOverload):
        return str(key._schema.name)
    if isinstance(key, torch._ops.OpOverloadPacket):
        return str(key._qualified_op_name)
    if not isinstance(key, str):
        return None
    space, _, rest = key.replace("::", "/").partition("/")
    return f"{space}::{top_level(rest.partition('/')[0])}"


def config_values() -> dict[str, Any]:
    """`module.option` -> value for every config module of torch that is loaded."""
    return {
        f"{name}.{option}": value
        for name, module in list(sys.modules.items())
        if isinstance(module, ConfigModule) and name.startswith("torch.")
        for option, value in module.shallow_copy_dict().items()
    }


def older_names(option: str) -> list[str]:
    """The names that torch keeps for a config option which it has renamed."""
    return [
        f"{name}.{other}"
        for name, module in list(sys.modules.items())
        if isinstance(module, ConfigModule)
        for other, entry in module._config.items()
        if entry.alias == option
    ]


def _reachable(start: Any, steps: Callable[[Any], Iterable[Any]]) -> Iterator[Any]:
    """`start`, and everything that the steps reach from it, each once."""
    seen: set[int] = set()
    todo = [start]
    while todo:
        item = todo.pop()
        if identity(item) not in seen:
            seen.add(identity(item))
            yield item
            todo += steps(item)


def with_wrapped(value: Any) -> Iterator[Any]:
    """A function and at most `_WRAPPED_FUNCTIONS` that it wraps: by closures, `__wrapped__` and
    partials.
    """
    return itertools.islice(_reachable(value, _wrapped_by), _WRAPPED_FUNCTIONS)


def _wrapped_by(value: Any) -> list[Any]:
    if isinstance(value, partial):
        return [value.func]
    if not isinstance(value, FunctionType):
        return []
    held = [each for each in _closure(value) if isinstance(each, (FunctionType, partial))]
    return [*held, vars(value)["__wrapped__"]] if "__wrapped__" in vars(value) else held


def reaches(outer: Any, inner: Any) -> bool:
    """True if calling `outer` can call `inner`: by its closure, defaults, `__wrapped__` or globals.

    It detects the wrapper of a second import, which holds the wrapper of the first.
    """
    return outer is not inner and any(each is inner for each in _reachable(outer, _called_by))


def _called_by(value: Any) -> list[Any]:
    function = getattr(value, "__func__", value)
    if not isinstance(function, FunctionType):
        return []
    named = map(function.__globals__.get, function.__code__.co_names)
    wrapped = getattr(function, "__wrapped__", None)
    return [*filter(callable, (*_held_by(function), *named, wrapped))]


def saved_after_replacing(changed: Changes) -> list[str]:
    """The changed names whose replacement was saved as its own original, so that a call never ends.

    The replacement is held by a global or closure variable other than the function's own name, or
    by a new attribute whose name shows a saved original, or that the replacement itself reads.
    """
    added = {name: now for name, (old, now) in changed.items() if old is None}
    # Identity of each saved object -> the owners that saved it.
    saved: dict[int, list[str]] = defaultdict(list)
    for name, now in added.items():
        owner, _, last = name.rpartition(".")
        if is_saved_original(last):
            saved[identity(now)].append(owner)
    looped = {getattr(now, "__code__", None) for name, now in added.items() if _reads(now, name)}
    return sorted(
        name
        for name, (old, now) in changed.items()
        if old is not None
        and (
            not all(_is_below(owner, name.rpartition(".")[0]) for owner in saved[identity(now)])
            or getattr(now, "__code__", "") in looped
            or _holds_itself(now)
        )
    )


def _is_below(owner: str, base: str) -> bool:
    """True if `owner` is a class that inherits from `base`: its wrapper calls the saved wrapper of
    `base`, so the calls end.
    """
    with suppress(LookupError):
        classes = resolve(owner), resolve(base)
        return owner != base and all(isinstance(c, type) for c in classes) and issubclass(*classes)
    return False


def is_saved_original(key: Any) -> bool:
    """True if the name shows that a patch, or torch, saved the original there on purpose."""
    return isinstance(key, str) and key.lstrip("_").startswith(_SAVED)


def _reads(function: Any, dotted: str) -> bool:
    """True if the code of a function uses the last part of the dotted name."""
    return dotted.rpartition(".")[2] in getattr(getattr(function, "__code__", None), "co_names", ())


def _holds_itself(value: Any) -> bool:
    function = inspect.unwrap(getattr(value, "__func__", value))
    if not isinstance(function, FunctionType):
        return False
    code = function.__code__
    held = {name: function.__globals__.get(name) for name in code.co_names}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        held[name] = None
        with suppress(ValueError):  # the cell is still empty
            held[name] = cell.cell_contents
    held.pop(code.co_name, None)
    return any(item is value or item is function for item in held.values())


def wrapped_twice(changed: Changes) -> list[str]:
    """The changed names whose replacement wraps another one of the same code: the installer ran
    twice in one run.

    Wrappers of one decorator with different arguments are different wrappers.
    """
    return sorted(
        name for name, (old, now) in changed.items() if old is not None and _wraps_its_like(now)
    )


def _wraps_its_like(value: Any) -> bool:
    function = getattr(value, "__func__", value)
    if not isinstance(function, FunctionType):
        return False
    held = _held_by(function)
    for inner in held:
        is_like = isinstance(inner, FunctionType) and inner.__code__ is function.__code__
        if is_like and inner is not function:
            pairs = zip(held, _held_by(inner), strict=False)
            return all(mine is its or (callable(mine) and callable(its)) for mine, its in pairs)
    return False


def _held_by(function: FunctionType) -> list[Any]:
    """The objects in a function's closure and its defaults."""
    return [*_closure(function), *(function.__defaults__ or ())]


def _closure(function: FunctionType) -> list[Any]:
    """The objects in a function's closure; a cell may still be empty."""
    held = []
    for cell in function.__closure__ or ():
        try:  # `suppress` takes longer than all the rest
            held.append(cell.cell_contents)
        except ValueError:
            continue
    return held
