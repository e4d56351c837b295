"""Runs a patch and reverts its changes except for some names, to search for the names that matter.

The host's bisection writes a file that calls `run_subset`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection
from typing import Any

from patchgate.probe.patch.load import run_patch
from patchgate.probe.patch.snapshot import IGNORED, OPERATORS, take_snapshot
from patchgate.probe.protocol import Loading

_ABSENT = object()
# A snapshot names the items of lists and sets by their address, which differs between processes.
_ADDRESS = re.compile(r"\[\d{6,}\]$")


def name_of(dotted: str, key: Any) -> str:
    """The name of a change in `snapshot.changes`; for an item without a name, the list's name."""
    name = f"{dotted[:-1]}{key}]" if dotted.endswith("[]") else f"{dotted}.{key}"
    return _ADDRESS.sub("[]", name)


def run_subset(path: str, kept: Collection[str], how: Loading) -> None:
    """Run the patch at `path` and enter its scope; keep only the changes to torch that are named in
    `kept`.
    """
    before = take_snapshot()
    run_patch(path, how, "patch_subset")
    after = take_snapshot()
    # Entries of containers are reverted first: reverting the container itself would lose the
    # entries that stay. Registrations with C++ are not reverted.
    names = before.keys() & after.keys() - {OPERATORS}
    for dotted in sorted(names, key=lambda name: not name.endswith("[]")):
        old, new = before[dotted], after[dotted]
        for key in {**old, **new}:
            was, now = old.get(key, _ABSENT), new.get(key, _ABSENT)
            if was is not now and key not in IGNORED and name_of(dotted, key) not in kept:
                _revert(_owner(dotted.removesuffix("[]")), dotted.endswith("[]"), key, was, now)


def _owner(dotted: str) -> Any:
    """The module, class or container of that name."""
    if dotted in sys.modules:
        return sys.modules[dotted]
    owner, _, name = dotted.rpartition(".")
    return vars(_owner(owner))[name]


def _revert(owner: Any, is_container: bool, key: Any, was: Any, now: Any) -> None:
    if not is_container:
        if was is _ABSENT:
            delattr(owner, key)
        else:
            setattr(owner, key, was)
    elif isinstance(owner, dict):
        if was is _ABSENT:
            owner.pop(key, None)
        else:
            owner[key] = was
    elif now is not _ABSENT:
        owner.remove(now)
    elif isinstance(owner, list):
        owner.append(was)
    else:
        owner.add(was)
