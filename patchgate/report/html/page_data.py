"""Turn results of patches into the contents of the HTML page: data for its script, and a view of
each patch as plain text.

Equal values are stored once, so that a sweep of a hundred thousand cells stays small.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from packaging.version import Version

from patchgate.checks.framework.find_checks import catalogue
from patchgate.inputs.manifest import Patch
from patchgate.model.facts import UNPATCHED, check_of, format_value, not_requested, value_in
from patchgate.model.policy import Colour
from patchgate.model.records import FactValue, Observation, Verdict
from patchgate.model.serialization import fact_from
from patchgate.model.versions import release_line
from patchgate.report.html.code_diff import compare_calls, compare_code
from patchgate.report.next_commands import typed
from patchgate.report.view import RunView, cell_of, group_by_cell, reading_order, view
from patchgate.runner.run_results import ComparedCase, QuickLook, RunResults, TimeRatio


class ShownColour(NamedTuple):
    """The appearance of a colour on the page."""

    colour: Colour
    mark: str
    word: str


# A colour is sent as its index in this table, which the page's script has too.
COLOURS = (
    ShownColour(Colour.GREEN, "✓", "green"),
    ShownColour(Colour.RED, "✗", "red"),
    ShownColour(Colour.GREY, "?", "not judged"),
)
# The page has these fields of a verdict unchanged.
_SHOWN = ("code", "subject", "expected", "actual", "where", "why", "advice")
_PLACES = {shown.colour: place for place, shown in enumerate(COLOURS)}
# (workload, device) -> (torch, patch or "unpatched", fact) -> its values over time, oldest first.
Past = Callable[[str, str], Mapping[tuple[str, str, str], Sequence[str]]]


class Address(NamedTuple):
    """A cell of the matrix, as links name it."""

    patch: str
    check: str
    item: str
    torch: str


class Placed(int):
    """The number of a value in the pool."""


class Pool:
    """Values, each stored once. Mappings and lists refer to their values by number.

    A scalar is its own row. The row of a mapping begins with the number of its shape (its keys, in
    `shapes`), the row of a list with -1. The numbers of its values follow; they have earlier rows.
    """

    def __init__(self) -> None:
        self.rows: list[object] = []
        self.shapes: dict[tuple[str, ...], int] = {}
        self._places: dict[Hashable, int] = {}

    def place(self, value: Any) -> Placed:
        """Return the number of a value, added if it is new. A dataclass counts as a mapping."""
        if isinstance(value, Placed):
            return value
        if is_dataclass(value):
            value = vars(value)
        row = value
        if isinstance(value, Mapping):
            shape = self.shapes.setdefault(tuple(value), len(self.shapes))
            row = (shape, *map(self.place, value.values()))
        elif isinstance(value, (tuple, list)):
            row = (-1, *map(self.place, value))
        number = self._places.setdefault((type(row), row), len(self.rows))
        if number == len(self.rows):
            self.rows.append(row)
        return Placed(number)


@dataclass
class _OfPatch:
    """One patch on the page: its results and the lines of its matrix."""

    patch: Patch
    quick_look: QuickLook | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    #: (check, item) -> torch -> the cell
    lines: dict[tuple[str, str], dict[str, Placed]] = field(default_factory=dict)


class Page:
    """The page: fill it with `add`, then read `data` and `views`. `note` is below the title."""

    def __init__(self, *, past: Past = lambda workload, device: {}, note: str = "") -> None:
        self.past, self.note = past, note
        self.made_by: tuple[str, ...] = ()  # versions, commit, command, machine
        self.times: list[tuple[Patch, TimeRatio]] = []
        self._pool = Pool()
        self._diffs: dict[tuple[str, str], Placed] = {}
        self._patches: dict[str, _OfPatch] = {}
        self._torches: set[str] = set()

    def add(self, results: RunResults) -> None:
        """Add results of one patch; the same patch may be added again with other releases."""
        patch = results.patch
        known = self._patches.setdefault(patch.id, _OfPatch(patch))
        known.quick_look = results.quick_look
        known.verdicts += results.verdicts
        self._torches |= set(results.torches)
        facts = {(v.torch, v.case.name, v.fact): v for v in results.verdicts}
        cases = {
            (each.case.torch, each.case.name): self._case(each, facts) for each in results.compared
        }
        for (check, item, torch), verdicts in group_by_cell(results.verdicts).items():
            line = known.lines.setdefault((check, item), {})
            line[torch] = self._cell(verdicts, torch, cases)
        self.times += [(patch, ratio) for ratio in results.times]

    @property
    def torches(self) -> tuple[str, ...]:
        return tuple(sorted(self._torches, key=Version))

    @property
    def views(self) -> list[tuple[Patch, RunView]]:
        """The view of each patch, for the plain text of the page."""
        return [
            (each.patch, view(each.verdicts, self.torches, each.quick_look))
            for each in self._patches.values()
        ]

    @property
    def data(self) -> dict[str, Any]:
        """All that the script reads, ready for JSON."""
        codes = {v.code for each in self._patches.values() for v in each.verdicts}
        patches = [
            {
                "id": each.patch.id,
                "symptom": each.patch.claims.symptom,
                "lines": [
                    {"check": check, "item": item, "cells": [*map(cells.get, self.torches)]}
                    for (check, item), cells in sorted(
                        each.lines.items(), key=lambda line: reading_order(line[0])
                    )
                ],
            }
            for each in self._patches.values()
        ]
        return {
            "torches": self.torches,
            "colours": [
                {"name": each.colour.value, "mark": each.mark, "word": each.word}
                for each in COLOURS
            ],
            "codes": {code: catalogue()[code].title for code in sorted(codes)},
            "patches": self._pool.place(patches),
            "pool": self._pool.rows,
            "shapes": [*self._pool.shapes],
        }

    def _cell(
        self, verdicts: Sequence[Verdict], torch: str, cases: Mapping[tuple[str, str], Placed]
    ) -> Placed:
        """Place a cell: its worst colour, with the count and codes of the verdicts that have it,
        the verdicts to read, and the cases as evidence.
        """
        cell = cell_of(verdicts)
        names = dict.fromkeys(verdict.case.name for verdict in verdicts)
        evidence = [cases[torch, name] for name in names if (torch, name) in cases]
        # Green facts are in the table of their case.
        read = [
            v
            for v in verdicts
            if v.colour is not Colour.GREEN or not (evidence and v.check in ("kernels", "graph"))
        ]
        return self._pool.place(
            {
                "colour": _PLACES[cell.colour],
                "count": cell.count,
                "codes": cell.codes,
                "verdicts": [*map(_verdict, read)],
                "cases": evidence,
            }
        )

    def _case(
        self, compared: ComparedCase, verdicts: Mapping[tuple[str, str, str], Verdict]
    ) -> Placed:
        environment = {**compared.patched.environment, "measured on": compared.on}
        if compared.unpatched is None and compared.golden_unpatched.recorded:
            environment["unpatched"] = "not measured: as recorded"
        return self._pool.place(
            {
                "name": compared.case.name,
                "torch": compared.case.torch,
                "facts": [*_facts(compared, verdicts)],
                "failures": {
                    "unpatched": _failure_text(compared.unpatched),
                    "patched": _failure_text(compared.patched),
                },
                "environment": sorted(environment.items()),
                "diff": self._diff(compared.code),
                "history": [*self._history(compared)],
            }
        )

    def _diff(self, code: tuple[str, str] | None) -> Placed | None:
        """The number of equal kernels, and the diffs of the others; None if no code was kept."""
        if code is None:
            return None
        # Comparing takes longest, and most cases have the same code: compare it once.
        if code not in self._diffs:
            equal, kernels = compare_code(*code)
            calls = compare_calls(*code)
            self._diffs[code] = self._pool.place(
                {"equal": equal, "kernels": kernels, "calls": calls}
            )
        return self._diffs[code]

    def _history(self, compared: ComparedCase) -> Iterator[dict[str, object]]:
        """Yield unpatched and patched values over time for each fact that several runs have."""
        past = self.past(compared.case.workload, compared.case.device)
        line = release_line(compared.case.torch)
        for fact in sorted({fact for torch, _, fact in past if torch == line}):
            old, new = (
                tuple(map(_past_text, past.get((line, side, fact), ())))
                for side in (UNPATCHED, str(compared.case.patch))
            )
            if max(len(old), len(new)) > 1:
                yield {"fact": fact, "unpatched": old, "patched": new}


def _verdict(verdict: Verdict) -> dict[str, object]:
    shown = {name: getattr(verdict, name) for name in _SHOWN}
    commands = [{"when": each.when, "text": typed(each)} for each in verdict.commands]
    return {
        **shown,
        "colour": _PLACES[verdict.colour],
        "kind": verdict.kind.value,
        "commands": commands,
    }


def _facts(
    compared: ComparedCase, verdicts: Mapping[tuple[str, str, str], Verdict]
) -> Iterator[dict[str, str]]:
    """The facts of a case, kernel facts first; the code and kind of a fact are empty if no check
    judged it.
    """
    before = (compared.unpatched or compared.golden_unpatched).facts
    names = {*before, *compared.patched.facts, *compared.golden.facts} - not_requested(
        compared.golden.facts, compared.patched.facts
    )
    sides = {
        "golden": compared.golden.facts,
        "golden_unpatched": compared.golden_unpatched.facts,
        "unpatched": before,
        "patched": compared.patched.facts,
    }
    for name in sorted(names, key=lambda name: (check_of(name) != "kernels", name)):
        verdict = verdicts.get((compared.case.torch, compared.case.name, name))
        yield {
            "name": name,
            **{side: _fact_text(value_in(facts, name)) for side, facts in sides.items()},
            "code": verdict.code if verdict else "",
            "kind": verdict.kind.value if verdict else "",
        }


@lru_cache(maxsize=1 << 16)
def _fact_text(value: FactValue | None) -> str:
    return "" if value is None else format_value(value)


@lru_cache(maxsize=1 << 16)
def _past_text(value: str) -> str:
    """Convert a value from the JSON of the history to the form of golden files."""
    return format_value(fact_from(json.loads(value)))


def _failure_text(observation: Observation | None) -> str:
    failure = observation.failure if observation else None
    if failure is None:
        return ""
    where = f"\nat {failure.where}" if failure.where else ""
    return (
        f"{failure.cause.value} in {failure.stage}: {failure.signature}{where}\n{failure.detail}"
    ).strip()
