"""What changed since the runs before: transitions, flaky cells, and failures that have one cause.

Decides, by DESIGN fact 17: signatures are compared, not names of cells; a cell
that the machine kept from judging is no baseline; one is closed after two
silent runs, not after one. Reads cells, not files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Cell = tuple[str, str, str, str]
Told = tuple[str, str, str]
Cells = Mapping[Cell, Told]
_ABSENT: Told = ("green", "", "")
# Runs without a failure before it counts as gone, and turns of colour before a cell counts as flaky.
_SILENT, _TURNS = 2, 3
# WORKLOAD.DEVICE; names of torch have more parts, or begin with it.
_CASE = re.compile(r"(?!torch\.)\w+\.\w+(?=\s|$)")
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Red cells with one signature; `bucket` is "new", "still", "newly silent" or "closed"."""

    bucket: str
    code: str
    signature: str
    cells: tuple[Cell, ...]


def signature_of(told: Told) -> tuple[str, str]:
    """Code and wording without figures and addresses: what 22 cells with one cause have in common."""
    _, code, actual = told
    return code, _NUMBERS.sub("N", actual.splitlines()[0] if actual else "")


def transitions(before: Cells, after: Cells) -> Iterator[tuple[Cell, str]]:
    """(cell, "green -> red (PG301)") for each that changed colour, or is red for another reason.

    A subject that exists only while it fails was green where its place was judged without it.
    """
    changed = [cell for cell in {**before, **after} if before.get(cell, _ABSENT)[:2] != after.get(cell, _ABSENT)[:2]]
    checks = {cell[:3] for cell in changed}
    runs = [(run, _places(run, checks)) for run in (before, after)]
    for cell in sorted(changed):
        (old, was, _), (colour, code, _) = before.get(cell, _ABSENT), after.get(cell, _ABSENT)
        if (old, colour) == ("green", "green") or not all(_judged(cell, *run) for run in runs):
            continue
        because = f" ({code})" if code else ""
        yield cell, f"{old} -> {colour}{because}" if old != colour else f"{was} -> {code}"


def flaky(runs: Sequence[Cells]) -> list[Cell]:
    """Cells that turned colour several times over these runs of unchanged content."""
    red = {cell for cells in runs for cell, told in cells.items() if told[0] == "red"}
    colours = {cell: [cells[cell][0] for cells in runs if cell in cells] for cell in red}
    return sorted(cell for cell, seen in colours.items() if _turns([each for each in seen if each != "grey"]) >= _TURNS)


def _turns(colours: Sequence[str]) -> int:
    return sum(one != other for one, other in pairwise(colours))


def groups(runs: Sequence[Cells]) -> list[Group]:
    """Failures of the last runs by signature, oldest run first: new ones first, closed ones last."""
    told = [_by_signature(cells) for cells in runs]
    now = told[-1] if told else {}
    earlier = told[:-1]
    found = [
        _group("still" if any(key in cells for cells in earlier) else "new", key, cells) for key, cells in now.items()
    ]
    gone = {key: cells for run in earlier for key, cells in run.items() if key not in now}
    checks = {cell[:3] for cells in gone.values() for cell in cells}
    looked = [(run, _places(run, checks)) for run in runs]
    for key, cells in gone.items():
        last = max(number for number, run in enumerate(told) if key in run)
        # Silence of the machine is no silence: only runs count in which all of it was judged again.
        silent = sum(all(_judged(cell, *each) for cell in cells) for each in looked[last + 1 :])
        found.append(_group(("still", "newly silent", "closed")[min(silent, _SILENT)], key, cells))
    order = ("new", "still", "newly silent", "closed")
    return sorted(found, key=lambda group: (order.index(group.bucket), -len(group.cells), group.code, group.signature))


def _judged(cell: Cell, run: Cells, places: Mapping[Cell, bool]) -> bool:
    """Whether a run looked at a cell; a subject that exists only while it fails is looked at with all beside it."""
    return run[cell][0] != "grey" if cell in run else places.get((*cell[:3], _place(cell)), False)


def _places(run: Cells, checks: Collection[tuple[str, str, str]]) -> dict[Cell, bool]:
    """(patch, torch, check, case) -> whether all of it was judged; the case "" is the whole check."""
    found: dict[Cell, bool] = {}
    for cell, (colour, _, _) in run.items():
        if cell[:3] not in checks:
            continue
        for place in {"", _place(cell)}:
            key = (*cell[:3], place)
            found[key] = found.get(key, True) and colour != "grey"
    return found


def _place(cell: Cell) -> str:
    """The case, `stack.h200`, with which a subject begins; "" where it is about no single case."""
    case = _CASE.match(cell[3])
    return case[0] if case else ""


def _by_signature(cells: Cells) -> dict[tuple[str, str], list[Cell]]:
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell, told in cells.items():
        if told[0] == "red":
            found.setdefault(signature_of(told), []).append(cell)
    return found


def _group(bucket: str, key: tuple[str, str], cells: Sequence[Cell]) -> Group:
    return Group(bucket=bucket, code=key[0], signature=key[1], cells=tuple(sorted(cells)))
