"""Keeps apart what a patch changes and what torch's own modules bring along when the patch is the
first to import them.

A module is looked at when its own code has run and before the patch goes on; what that code
registered elsewhere is looked at too. A patch may wait for a module with a finder of its own, and
change it before the import has ended.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import inspect
import sys
import types
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from typing import Any

from patchgate.probe.patch.snapshot import CHANGEABLE, Snapshot, take_snapshot
from patchgate.probe.simulate.triton_driver import spec_of_others


@contextlib.contextmanager
def torch_imports_added_to(before: Snapshot) -> Iterator[None]:
    """Within it, what importing a module of torch makes and changes is added to `before`, as if it
    had been there.
    """
    finder = _Finder(before)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds torch's modules as the other finders do, and watches while the outermost of them
    runs.
    """

    def __init__(self, before: Snapshot) -> None:
        self._before = before
        self._depth = 0
        # Modules whose import somebody changes, as their own code left them.
        self._waited_for: dict[str, dict[Any, Any]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in CHANGEABLE:
            return None
        spec = spec_of_others(self, name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            self._watch(spec.loader, is_waited_for=not _is_asked_by_an_import())
        return spec

    def _watch(self, loader: Loader, is_waited_for: bool) -> None:
        run = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            outermost = take_snapshot() if self._depth == 0 else None
            if outermost is not None:
                # It is among the loaded modules already, and still empty.
                del outermost[module.__name__]
            self._depth += 1
            try:
                run(module)
                if is_waited_for and outermost is None:
                    self._waited_for |= _owned_by(module.__name__, take_snapshot())
            finally:
                self._depth -= 1
                if outermost is not None:
                    _add_changes(self._before, outermost, take_snapshot())
                    self._before.update(self._waited_for)
                    self._waited_for.clear()

        # On the loader itself: tools that read sources ask the loader what it is.
        vars(loader)["exec_module"] = exec_module


def _is_asked_by_an_import() -> bool:
    """True if the interpreter wants a module; otherwise the patch does, and may then change the
    loader.
    """
    frame = inspect.currentframe()
    for _ in range(3):  # this function, `find_spec`, and the interpreter's own `_find_spec`
        frame = frame.f_back if frame else None
    return frame is not None and frame.f_code.co_name == "_find_and_load_unlocked"


def _owned_by(module: str, snapshot: Snapshot) -> dict[str, dict[Any, Any]]:
    """The module and its classes."""
    return {
        owner: attributes
        for owner, attributes in snapshot.items()
        if owner == module or (owner.rpartition(".")[0] == module and owner not in sys.modules)
    }


def _add_changes(before: Snapshot, old: Snapshot, new: Snapshot) -> None:
    """Bring what differs between two snapshots into `before`; what the patch had changed by then
    stays a change.
    """
    for owner, attributes in new.items():
        was: dict[Any, Any] = old.get(owner, {})
        if was is attributes or (owner in old and owner not in before):
            continue
        known = before[owner] = {**before.get(owner, {})}
        for key, value in attributes.items():
            if key not in was or was[key] is not value:
                known[key] = value
        for key in was.keys() - attributes.keys():
            known.pop(key, None)
