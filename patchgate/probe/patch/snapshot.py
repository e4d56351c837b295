"""Runs a patch's module, and compares snapshots of torch for what it changed.

Identity is compared, never equality: a replaced function that does the same is still replaced.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
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

#: Name of the module as which a patch that lies in no package is run, and the one as which it is run again.
MODULE = "patchgate_patch"
AGAIN = f"{MODULE}_again"
# Dotted names of the patches that lie in packages.
_PATCH_MODULES: set[str] = set()
_IGNORED = {"__warningregistry__", "__builtins__", "__annotations__", "__doc__", "__file__", "__cached__"}
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
# A context manager that nobody holds is collected, and a scope that is collected is left.
_ENTERED: list[contextlib.AbstractContextManager[Any]] = []

#: Dotted name of a module, class or container (`name[]`) -> its attributes or items.
Snapshot = dict[str, dict[Any, Any]]
#: Dotted name -> (object before, object after); None where there was none.
Changes = dict[str, tuple[Any, Any]]


class AppliedPatch:
    """A patch that was run, and its scope entered when it has one."""

    def __init__(self, module: types.ModuleType, scope: str | None) -> None:
        self._imported = take_snapshot() if scope else {}
        self._scope: contextlib.AbstractContextManager[Any] | None = getattr(module, scope)() if scope else None
        if self._scope is not None:
            self._scope.__enter__()
            _ENTERED.append(self._scope)

    def leave(self) -> None:
        if self._scope is not None:
            self._scope.__exit__(None, None, None)

    def leaks(self, before: Snapshot) -> list[str]:
        """Leave the scope. The names that the patch changes outside it: by its import, or still after it."""
        if self._scope is None:
            return []
        self.leave()
        return sorted({**changes(before, self._imported), **changes(before, take_snapshot())})


def run_patch(path: str, name: str = MODULE, scope: str | None = None, install: str | None = None) -> AppliedPatch:
    """Import the patch, call what installs it and enter its scope; raises whatever it raises."""
    return AppliedPatch(import_patch(path, name, install), scope)


def import_patch(path: str, name: str = MODULE, install: str | None = None) -> types.ModuleType:
    """Run the file, and call `install` if it is given; raises whatever they raise.

    A file in a package is imported under its own dotted name, so that whoever imports it, its package included, gets
    the one module; again, it is reloaded. Any other file is run as module `name`.
    """
    sys.dont_write_bytecode = True
    dotted, root = place_in_package(path)
    if dotted is None:
        module = _run_file(path, name)
    else:
        if root not in sys.path:
            sys.path.insert(0, root)
        is_there = dotted in sys.modules
        module = importlib.import_module(dotted)
        if is_there and name == AGAIN:
            module = importlib.reload(module)
        _PATCH_MODULES.add(dotted)
    if install:
        _call_installer(module, install)
    return module


def place_in_package(path: str) -> tuple[str | None, str]:
    """(dotted name of the file's module, folder from which it is imported); no name where it is in no package."""
    folder, file = os.path.split(os.path.abspath(path))
    stem = os.path.splitext(file)[0]
    names = [] if stem == "__init__" else [stem]
    if not os.path.isfile(os.path.join(folder, "__init__.py")):
        return None, folder
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        names.insert(0, package)
    return ".".join(names), folder


def is_patch_module(guarded: str) -> bool:
    """Whether Dynamo's name of a guard is about the globals of a module that was run as a patch."""
    names = (name.replace("_", "__").replace(".", "_dot_") for name in _PATCH_MODULES)
    return guarded.startswith((f"G['__import_{MODULE}", *(f"G['__import_{name}'" for name in names)))


def _call_installer(module: types.ModuleType, install: str) -> None:
    """Call `function`, or `package.module:function(arguments)`; arguments are literals."""
    owner, _, call = install.rpartition(":")
    node = ast.parse(call, mode="eval").body
    function: Any = importlib.import_module(owner) if owner else module
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    if isinstance(node, ast.Call):
        arguments = [ast.literal_eval(argument) for argument in node.args]
        keywords = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg}
        node = node.func
    for name in ast.unparse(node).split("."):
        function = getattr(function, name)
    function(*arguments, **keywords)


def _run_file(path: str, name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"not a Python file: {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def faked_version(version: str) -> Iterator[None]:
    """Replace torch's version by `version` wherever a patch can read it."""
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


def take_snapshot() -> Snapshot:
    """Every attribute of every owner, and one level into module-level dicts, lists and sets."""
    taken: Snapshot = {}
    for dotted, owner in _owners():
        attributes = {
            key: value
            for key, value in vars(owner).items()
            if key not in _IGNORED and not isinstance(value, types.ModuleType)
        }
        taken[dotted] = attributes
        if isinstance(owner, types.ModuleType):
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

    Modules that only the patch imported are new, not changed. A registry's entry is named
    `torch._inductor.lowering.lowerings[aten.silu.default]`, once, however many modules import the registry.
    """
    changed: Changes = {}
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
                changed[name] = (None if was is _ABSENT else was, None if now is _ABSENT else now)
    return changed


def _without_aliases(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """The names of both snapshots; of a registry under many names only one, that of the module that assigns it."""
    registries: dict[int, list[str]] = {}
    for dotted in before.keys() & after.keys():
        if not dotted.endswith("[]"):
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
