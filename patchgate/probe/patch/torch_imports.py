"""Separates the changes of a patch from the changes that modules of torch make when the patch
imports them first.

A module, with all that its code registered elsewhere, is examined after that code has run and
before the patch goes on. A patch may wait for a module with a finder of its own, and change the
module before its import has ended.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from patchgate.probe.patch.module_name import top_level
from patchgate.probe.patch.snapshot import CHANGEABLE, Snapshot, take_snapshot
from patchgate.probe.process.watched_imports import Execute, WatchedImports


def torch_imports_added_to(before: Snapshot) -> WatchedImports:
    """Until the context ends, add to `before` everything that the import of a module of torch makes
    and changes, as if it had existed before the patch.
    """
    depth = 0
    # Modules that a finder of the patch waits for, in the state in which their own code left them.
    waited_for: dict[str, dict[Any, Any]] = {}

    def execute(module: ModuleType, run: Execute, is_import: bool) -> None:
        nonlocal depth
        outermost = take_snapshot() if depth == 0 else None
        if outermost is not None:
            # The module is among the loaded modules already, and still empty.
            del outermost[module.__name__]
        depth += 1
        try:
            run(module)
            if not is_import and outermost is None:
                waited_for.update(_owned_by(module.__name__, take_snapshot()))
        finally:
            depth -= 1
            if outermost is not None:
                add_changes(before, outermost, take_snapshot())
                before.update(waited_for)
                waited_for.clear()

    return WatchedImports(lambda name: top_level(name) in CHANGEABLE, execute)


def _owned_by(module: str, snapshot: Snapshot) -> dict[str, dict[Any, Any]]:
    """The entries of a snapshot for a module, its classes and its tables."""
    return {
        owner: attributes
        for owner, attributes in snapshot.items()
        if owner == module or (owner.rpartition(".")[0] == module and owner not in sys.modules)
    }


def add_changes(before: Snapshot, old: Snapshot, new: Snapshot) -> None:
    """Copy the differences between two snapshots into `before`. Earlier changes by the patch still
    count as changes.
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
