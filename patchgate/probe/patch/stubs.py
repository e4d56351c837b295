"""Stands in for modules that are not installed, and records every name that is used of them.

A stub has no behaviour to rely on: whoever reads the record knows what of a patch was not judged.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from patchgate.probe.protocol import StubUse

# Name -> file:line that used it; a use by the patch stands before one by another file.
_USED: dict[str, str] = {}
_BY_PATCH: set[str] = set()
_OBJECTS: dict[str, Stub] = {}
# Files whose frames are never the user: the import system's have no file, or a frozen one.
_PASSED_THROUGH = (__file__, "<frozen importlib")


def install_stubs(names: Iterable[str], patch: str, root: str) -> None:
    """Let each module of `names`, and what lies below it, be a stub, whether or not it is installed.

    A package of the patch's own project, a folder below `root`, runs nothing; the modules in it are as they are.
    """
    folders = {name: os.path.join(root, *name.split(".")) for name in names}
    wanted = {name: folder if os.path.isdir(folder) else None for name, folder in folders.items()}
    if wanted and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(patch))
    for finder in sys.meta_path:
        if isinstance(finder, _Finder):
            finder.wanted |= wanted


def uses() -> list[StubUse]:
    """Every name that was used of a stub, with file:line, and whether the patch itself used it."""
    return [{"name": name, "where": where, "by_patch": name in _BY_PATCH} for name, where in sorted(_USED.items())]


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, patch: str) -> None:
        self.patch = patch
        self.wanted: dict[str, str | None] = {}  # folder of the project's own package

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        parents = [fullname[: at or None] for at in _ends(fullname)]
        name = next((name for name in parents if name in self.wanted), None)
        if name is None or (self.wanted[name] is not None and name != fullname):
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        folder = self.wanted[name]
        if folder is not None:
            spec.submodule_search_locations = [folder]
        else:
            self.note(fullname)
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return StubModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""

    def note(self, name: str) -> None:
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_PASSED_THROUGH):
            frame = frame.f_back
        file = frame.f_code.co_filename
        if file == self.patch and name not in _BY_PATCH:
            _BY_PATCH.add(name)
            _USED[name] = f"{file}:{frame.f_lineno}"
        _USED.setdefault(name, f"{file}:{frame.f_lineno}")


def _ends(name: str) -> Iterator[int]:
    """Where each of the names that lead to a module ends; 0 for the module's own."""
    yield 0
    yield from (at for at, letter in enumerate(name) if letter == ".")


def _use(name: str) -> Stub:
    if name.rpartition(".")[2].startswith("__"):
        raise AttributeError(f"a stub has no {name}")
    next(finder for finder in sys.meta_path if isinstance(finder, _Finder)).note(name)
    return _OBJECTS.setdefault(name, Stub(name))


class StubModule(types.ModuleType):
    """A module whose every name is a `Stub`."""

    def __getattr__(self, name: str) -> Stub:
        return _use(f"{self.__name__}.{name}")


class Stub:
    """Whatever a name of a stub may be: it can be called, read, subscripted, entered, iterated and inherited from."""

    def __init__(self, name: str) -> None:
        vars(self)["_stubbed"] = name

    def __getattr__(self, name: str) -> Stub:
        return _use(f"{vars(self)['_stubbed']}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # As a decorator it leaves what it decorates alone.
        if len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type)):
            return args[0]
        return _use(f"{vars(self)['_stubbed']}()")

    def __getitem__(self, key: object) -> Stub:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __enter__(self) -> Stub:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __or__(self, other: object) -> Stub:
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __instancecheck__(self, instance: object) -> bool:
        return False

    __subclasscheck__ = __instancecheck__

    def __repr__(self) -> str:
        return f"<stub {vars(self)['_stubbed']}>"
