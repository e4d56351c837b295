"""CPU seconds of each request of a run, and requests that were not needed: JSON lines that
`nox -s bench` adds up.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from patchgate.model.serialization import parse_json

# The file's name in the folder of a run.
COSTS = "costs.jsonl"
#: Why a question was not asked.
KEPT = "kept from an earlier run"


def note_cost(path: Path | None, **note: Any) -> None:
    """Add a line if costs are noted: the torch, the question ("do"), and the known parts of its
    cost.

    `at` is the time of the question, in seconds since the epoch, and `wall` the seconds until the
    answer. `child` is the CPU time of the child that answered, in seconds; `below` is the part of
    it that processes of the child used; `warm_up` is the CPU time of the server before its first
    child. `held` is the time for which the child held a device alone. `unasked` says why a question
    was not asked.
    """
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(note) + "\n")


def note_kept(path: Path | None, torch: str, question: str, patch: str | None) -> None:
    """Note a question that an earlier run has answered."""
    note_cost(path, torch=torch, do=question, unasked=KEPT, patch=patch)


def load_costs(folder: Path) -> list[dict[str, Any]]:
    """The readable notes of the run in a folder, in order; none if there was no run."""
    notes = []
    with contextlib.suppress(OSError, ValueError, TypeError):
        for line in (folder / COSTS).read_text(encoding="utf-8").splitlines():
            notes.append(dict(parse_json(line)))
    return notes
