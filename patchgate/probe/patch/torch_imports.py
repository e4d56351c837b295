"""Keeps apart what a patch changes and what torch's own modules bring along when the patch is the first to import them.

A module is looked at when its own code has run and before the patch goes on; what that code registered elsewhere is
looked at too.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import sys
import types
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from typing import Any

from patchgate.probe.patch.snapshot import CHANGEABLE, Snapshot, take_snapshot


@contextlib.contextmanager
def torch_imports_added_to(before: Snapshot) -> Iterator[None]:
    """Within it, what importing a module of torch makes and changes is added to `before`, as if it had been there."""
    finder = _Finder(before)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds torch's modules as the other finders do, and watches while the outermost of them runs."""

    def __init__(self, before: Snapshot) -> None:
        self._before = before
        self._depth = 0

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] not in CHANGEABLE:
            return None
        others = (finder for finder in sys.meta_path[sys.meta_path.index(self) + 1 :] if hasattr(finder, "find_spec"))
        spec = next((spec for finder in others if (spec := finder.find_spec(name, path, target))), None)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            self._watch(spec.loader)
        return spec

    def _watch(self, loader: Loader) -> None:
        run = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            outermost = take_snapshot() if self._depth == 0 else None
            if outermost is not None:
                del outermost[module.__name__]  # it is among the loaded modules already, and still empty
            self._depth += 1
            try:
                run(module)
            finally:
                self._depth -= 1
                if outermost is not None:
                    _add_changes(self._before, outermost, take_snapshot())

        # On the loader itself: tools that read sources ask the loader what it is.
        vars(loader)["exec_module"] = exec_module


def _add_changes(before: Snapshot, old: Snapshot, new: Snapshot) -> None:
    """Bring what differs between two snapshots into `before`; what the patch had changed by then stays a change."""
    for owner, attributes in new.items():
        known = before.setdefault(owner, {}) if owner not in old else before.get(owner)
        if known is None:
            continue
        was: dict[Any, Any] = old.get(owner, {})
        for key, value in attributes.items():
            if key not in was or was[key] is not value:
                known[key] = value
        for key in was.keys() - attributes.keys():
            known.pop(key, None)
