"""Runs a patch's module and says what it changed.

Decides how a patch is run and what counts as a change to torch. Refuses to
know the patch's claims. Identity is compared, never equality: a replaced
function that does the same is still replaced.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import inspect
import re
import sys
import types
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
import torch.version
from torch.torch_version import TorchVersion
from torch.utils._config_module import ConfigModule

MODULE = "patchgate_patch"
_IGNORED = {"__warningregistry__", "__builtins__", "__annotations__", "__doc__", "__file__", "__cached__"}
# Generated code finds a name among the builtins too.
_CHANGEABLE = {"torch", "triton", "builtins"}
_CONTAINER_LIMIT = 20_000
_WRAPPED_LIMIT = 50
# Lists of what exists or was compiled; nothing in torch does anything else because of an entry.
_BOOKKEEPING = {
    "torch._dynamo.eval_frame.cached_backends",
    "torch._library.custom_ops.OPDEF_TO_LIB",
    "torch.jit._builtins._builtin_table",
    "torch.ops._dir",
}
# Operators by name; one in a namespace of its own replaces none.
_OPERATORS = ("torch.library._defs[]", "torch.library._impls[]")
_ABSENT = object()
# A context manager that nobody holds is collected, and a scope that is collected is left.
_ENTERED: list[contextlib.AbstractContextManager[Any]] = []

Snapshot = dict[str, dict[Any, Any]]


class Applied:
    """A patch that was run: its scope, when it has one, is entered and stays so until somebody leaves it."""

    def __init__(self, module: types.ModuleType, scope: str | None) -> None:
        self._imported = snapshot() if scope else {}
        self._scope: contextlib.AbstractContextManager[Any] | None = getattr(module, scope)() if scope else None
        if self._scope is not None:
            self._scope.__enter__()
            _ENTERED.append(self._scope)

    def leave(self) -> None:
        if self._scope is not None:
            self._scope.__exit__(None, None, None)

    def leaks(self, before: Snapshot) -> list[str]:
        """What the patch changes outside its scope: by being imported, or still after the scope has ended."""
        if self._scope is None:
            return []
        self.leave()
        left = {**changed(before, self._imported), **changed(before, snapshot())}
        return sorted(left)


def run_patch(path: str, name: str = MODULE, scope: str | None = None) -> Applied:
    """Import the patch and enter its scope; whatever it raises goes to the caller."""
    return Applied(import_patch(path, name), scope)


def import_patch(path: str, name: str = MODULE) -> types.ModuleType:
    """Run the file as module `name`."""
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"not a Python file: {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def faked_version(version: str) -> Iterator[None]:
    """Every place where a patch can read torch's version says `version`."""
    real = importlib.metadata.version
    with (
        mock.patch.object(torch, "__version__", TorchVersion(version)),
        mock.patch.object(torch.version, "__version__", version),
        mock.patch.object(importlib.metadata, "version", lambda name: version if name == "torch" else real(name)),
    ):
        yield


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


def snapshot() -> Snapshot:
    """Every attribute of every owner, and one level into module-level dicts, lists and sets."""
    shot: Snapshot = {}
    for dotted, owner in _owners():
        attributes = {
            key: value
            for key, value in vars(owner).items()
            if key not in _IGNORED and not isinstance(value, types.ModuleType)
        }
        shot[dotted] = attributes
        if isinstance(owner, types.ModuleType):
            for key, value in attributes.items():
                if f"{dotted}.{key}" in _BOOKKEEPING:
                    continue
                if isinstance(value, dict) and len(value) < _CONTAINER_LIMIT:
                    shot[f"{dotted}.{key}[]"] = dict(value)
                elif isinstance(value, (list, set)) and len(value) < _CONTAINER_LIMIT:
                    shot[f"{dotted}.{key}[]"] = {id(item): item for item in value}
    return shot


def changed(before: Snapshot, after: Snapshot) -> dict[str, tuple[Any, Any]]:
    """Dotted name -> (before, after) for every attribute that is another object now.

    Modules that only the patch imported are new, not changed. A registry's entry is named
    `torch._inductor.lowering.lowerings[aten.silu.default]`, once, however many modules import the registry.
    """
    found: dict[str, tuple[Any, Any]] = {}
    for dotted in _without_aliases(before, after):
        old, new = before[dotted], after[dotted]
        is_registry = dotted.endswith("[]")
        spaces = {_namespace(value) for value in old.values()} if dotted in _OPERATORS else None
        for key in {**old, **new}:
            was, now = old.get(key, _ABSENT), new.get(key, _ABSENT)
            if spaces is not None and _namespace(now) not in spaces:
                continue
            if was is not now and not isinstance(was, types.ModuleType) and not isinstance(now, types.ModuleType):
                name = f"{dotted[:-1]}{key}]" if is_registry else f"{dotted}.{key}"
                found[name] = (None if was is _ABSENT else was, None if now is _ABSENT else now)
    return found


def _without_aliases(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """What is in both snapshots and differs; of one registry under many names, the name where it is made."""
    registries: dict[int, list[str]] = {}
    for dotted in before.keys() & after.keys():
        if not dotted.endswith("[]"):
            yield dotted
        elif not _same(before[dotted], after[dotted]):
            module, _, name = dotted[:-2].rpartition(".")
            registries.setdefault(id(after[module][name]), []).append(dotted)
    for aliases in registries.values():
        yield aliases[0] if len(aliases) == 1 else next(filter(_is_made_there, sorted(aliases)), min(aliases))


def _same(old: dict[Any, Any], new: dict[Any, Any]) -> bool:
    return old.keys() == new.keys() and all(old[key] is new[key] for key in old)


def _is_made_there(registry: str) -> bool:
    """Whether the module assigns the name, and does not merely import it."""
    module, _, name = registry[:-2].rpartition(".")
    with contextlib.suppress(OSError, TypeError):
        return re.search(rf"^{name}\b[^=\n]*=", inspect.getsource(sys.modules[module]), re.MULTILINE) is not None
    return False


def _namespace(operator: Any) -> str:
    """`aten` of `aten::silu` and of `aten/silu/CPU`."""
    return str(operator).replace("::", "/").partition("/")[0]


def configs() -> dict[str, Any]:
    """`module.option` -> value for every config module of torch that is loaded."""
    values: dict[str, Any] = {}
    for name, module in list(sys.modules.items()):
        if isinstance(module, ConfigModule) and name.startswith("torch."):
            values |= {f"{name}.{option}": value for option, value in module.shallow_copy_dict().items()}
    return values


def functions_inside(value: Any) -> Iterator[Any]:
    """A function, and those that it wraps: through closures, `__wrapped__` and partials, a bounded number."""
    seen: set[int] = set()
    todo = [value]
    while todo and len(seen) < _WRAPPED_LIMIT:
        item = todo.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, functools.partial):
            todo.append(item.func)
        elif isinstance(item, types.FunctionType):
            cells = [cell.cell_contents for cell in item.__closure__ or () if _filled(cell)]
            todo += [held for held in cells if isinstance(held, (types.FunctionType, functools.partial))]
            todo += [vars(item)["__wrapped__"]] if "__wrapped__" in vars(item) else []


def keeps(outer: Any, inner: Any) -> bool:
    """Whether calling `outer` can reach `inner`: through its closure, defaults, wraps or globals.

    This is how a second import shows itself: the new wrapper holds the first one.
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
            cells = [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)]
            names = [value.__globals__.get(name) for name in value.__code__.co_names]
            todo += [item for item in (*cells, *(value.__defaults__ or ()), *names) if callable(item)]
            todo += [value.__wrapped__] if hasattr(value, "__wrapped__") else []
    return False


def _filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True
