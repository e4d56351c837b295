"""Runs code around the execution of modules that are imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType

Execute = Callable[[ModuleType], None]


class WatchedImports(MetaPathFinder):
    """Has `execute` run each watched module that the other finders find, until the context ends.

    The arguments of `execute` are the module, the function that runs it, and true if an import
    asked for the module: a patch may ask too, and then change the loader.
    """

    def __init__(
        self,
        watches: Callable[[str], bool],
        execute: Callable[[ModuleType, Execute, bool], None],
    ) -> None:
        self._watches, self._execute = watches, execute

    def __enter__(self) -> None:
        sys.meta_path.insert(0, self)

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not self._watches(name):
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        finders = (each for each in others if hasattr(each, "find_spec"))
        specs = (each.find_spec(name, path, target) for each in finders)
        spec = next(filter(None, specs), None)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            # The caller is the interpreter's own `_find_spec`.
            is_import = sys._getframe(2).f_code.co_name == "_find_and_load_unlocked"
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                self._execute(module, execute, is_import)

            # The loader itself stays, because tools that read sources test its type.
            vars(spec.loader)["exec_module"] = exec_module
        return spec
