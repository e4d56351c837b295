"""Results of patches -> what the HTML page shows: tables for its script, and a view of each patch
as plain text.

Equal rows and values are stored once, so that a sweep of a hundred thousand cells stays small.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from packaging.version import Version

from patchgate.checks.framework.find_checks import catalogue
from patchgate.inputs.manifest import Patch
from patchgate.model.facts import UNPATCHED, check_of, format_value, not_requested, value_in
from patchgate.model.records import Colour, FactValue, Observation, Verdict
from patchgate.model.serialization import fact_from
from patchgate.model.versions import release_line
from patchgate.report.html.code_diff import compare_code
from patchgate.report.html.kernel_calls import compare_calls
from patchgate.report.next_commands import typed
from patchgate.report.view import RunView, cell_of, group_by_cell, reading_order, view
from patchgate.runner.run_results import ComparedCase, QuickLook, RunResults, TimeRatio


class ShownColour(NamedTuple):
    """How the page shows a colour."""

    colour: Colour
    mark: str
    word: str


# A colour is sent as its place here, and the page's script reads the table.
COLOURS = (
    ShownColour(Colour.GREEN, "✓", "green"),
    ShownColour(Colour.RED, "✗", "red"),
    ShownColour(Colour.GREY, "?", "not judged"),
)
_PLACES = {shown.colour: place for place, shown in enumerate(COLOURS)}
# (workload, device) -> (torch, patch or "unpatched", fact) -> its values over time, oldest first.
Past = Callable[[str, str], Mapping[tuple[str, str, str], Sequence[str]]]


class Address(NamedTuple):
    """A cell of the matrix, as links name it."""

    patch: str
    check: str
    item: str
    torch: str


class Tables:
    """Named tables of rows, each row once; a row is referred to by its number.

    As JSON each table is the names of its columns, which the script reads rows by, and the rows
    without them.
    """

    def __init__(self) -> None:
        self._fields: dict[str, tuple[str, ...]] = {}
        self._rows: dict[str, dict[tuple[Hashable, ...], int]] = defaultdict(dict)

    def place(self, table: str, **row: Hashable) -> int:
        """The number of the row, which is added if it is new."""
        self._fields[table] = tuple(row)
        rows = self._rows[table]
        return rows.setdefault(tuple(row.values()), len(rows))

    @property
    def data(self) -> dict[str, Any]:
        return {
            table: {"fields": self._fields[table], "rows": list(rows)}
            for table, rows in self._rows.items()
        }


class Page:
    """Fill it with `add`, then read `data` and `views`. `note` is shown below the title."""

    def __init__(self, *, past: Past = lambda workload, device: {}, note: str = "") -> None:
        self.past, self.note = past, note
        self.made_by: tuple[str, ...] = ()  # versions, commit, command, machine
        self.times: list[tuple[Patch, TimeRatio]] = []
        self._tables = Tables()
        self._diffs: dict[tuple[str, str], int] = {}
        self._patches: dict[str, Patch] = {}
        self._torches: set[str] = set()
        # patch -> (check, item) -> torch -> number of the cell
        self._lines: dict[str, dict[tuple[str, str], dict[str, int]]] = {}
        self._verdicts: dict[str, list[Verdict]] = {}
        self._quick_looks: dict[str, QuickLook | None] = {}

    def add(self, results: RunResults) -> None:
        """Take in one patch on some releases; the same patch may come again with others."""
        patch = results.patch
        self._patches.setdefault(patch.id, patch)
        self._torches |= set(results.torches)
        self._quick_looks[patch.id] = results.quick_look
        self._verdicts.setdefault(patch.id, []).extend(results.verdicts)
        facts = {(v.torch, v.case.name, v.fact): v for v in results.verdicts}
        cases = {
            (each.case.torch, each.case.name): self._case(each, facts) for each in results.compared
        }
        lines = self._lines.setdefault(patch.id, {})
        for (check, item, torch), verdicts in group_by_cell(results.verdicts).items():
            lines.setdefault((check, item), {})[torch] = self._cell(verdicts, torch, cases)
        self.times += [(patch, ratio) for ratio in results.times]

    @property
    def torches(self) -> tuple[str, ...]:
        return tuple(sorted(self._torches, key=Version))

    @property
    def views(self) -> list[tuple[Patch, RunView]]:
        """The plain text of the page for each patch."""
        return [
            (patch, view(self._verdicts[name], self.torches, self._quick_looks[name]))
            for name, patch in self._patches.items()
        ]

    @property
    def data(self) -> dict[str, Any]:
        """All that the script reads, ready for JSON."""
        codes = {verdict.code for verdicts in self._verdicts.values() for verdict in verdicts}
        matrix = Tables()
        for patch in self._patches.values():
            symptom = patch.claims.symptom
            lines = sorted(self._lines[patch.id].items(), key=lambda line: reading_order(line[0]))
            matrix.place(
                "patches",
                id=patch.id,
                symptom=tuple(vars(symptom).items()) if symptom else None,
                lines=tuple(
                    matrix.place(
                        "lines", check=check, item=item, cells=tuple(map(cells.get, self.torches))
                    )
                    for (check, item), cells in lines
                ),
            )
        return {
            "torches": self.torches,
            "colours": [
                {"name": each.colour.value, "mark": each.mark, "word": each.word}
                for each in COLOURS
            ],
            "codes": {code: catalogue()[code].title for code in sorted(codes)},
            **self._tables.data,
            **matrix.data,
        }

    def _value(self, value: Hashable) -> int:
        return self._tables.place("values", value=value)

    def _place_values(self, table: str, **row: Hashable) -> int:
        """A row whose columns are all numbers of `values`: many rows have texts in common."""
        return self._tables.place(
            table, **{name: self._value(value) for name, value in row.items()}
        )

    def _cell(
        self, verdicts: Sequence[Verdict], torch: str, cases: Mapping[tuple[str, str], int]
    ) -> int:
        """Its worst colour, how many verdicts have it, their codes; verdicts to read, and cases as
        evidence.
        """
        cell = cell_of(verdicts)
        names = dict.fromkeys(verdict.case.name for verdict in verdicts)
        evidence = tuple(cases[torch, name] for name in names if (torch, name) in cases)
        # Green facts are in the table of their case.
        read = [
            v
            for v in verdicts
            if v.colour is not Colour.GREEN or not (evidence and v.check in ("kernels", "graph"))
        ]
        return self._tables.place(
            "cells",
            colour=_PLACES[cell.colour],
            count=cell.count,
            codes=cell.codes,
            verdicts=tuple(map(self._verdict, read)),
            cases=evidence,
        )

    def _verdict(self, verdict: Verdict) -> int:
        commands = (
            self._tables.place("commands", when=each.when, text=typed(each))
            for each in verdict.commands
        )
        return self._place_values(
            "verdicts",
            colour=_PLACES[verdict.colour],
            code=verdict.code,
            kind=verdict.kind.value,
            subject=verdict.subject,
            expected=verdict.expected,
            actual=verdict.actual,
            where=verdict.where,
            why=verdict.why,
            advice=verdict.advice,
            commands=tuple(commands),
        )

    def _case(
        self, compared: ComparedCase, verdicts: Mapping[tuple[str, str, str], Verdict]
    ) -> int:
        environment = {**compared.patched.environment, "measured on": compared.on}
        if compared.unpatched is None and compared.golden_unpatched.recorded:
            environment["unpatched"] = "not measured: as recorded"
        return self._tables.place(
            "cases",
            name=compared.case.name,
            torch=compared.case.torch,
            facts=self._tables.place("fact_lists", facts=tuple(self._facts(compared, verdicts))),
            unpatched_failure=self._value(_failure_text(compared.unpatched)),
            patched_failure=self._value(_failure_text(compared.patched)),
            environment=self._tables.place(
                "environments", pairs=tuple(sorted(environment.items()))
            ),
            diff=self._diff(compared.code),
            history=tuple(self._history(compared)),
        )

    def _facts(
        self, compared: ComparedCase, verdicts: Mapping[tuple[str, str, str], Verdict]
    ) -> Iterator[int]:
        """The facts of a case, those of its kernels first; code and kind are empty where nothing
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
            yield self._place_values(
                "facts",
                name=name,
                **{side: _fact_text(value_in(facts, name)) for side, facts in sides.items()},
                code=verdict.code if verdict else "",
                kind=verdict.kind.value if verdict else "",
            )

    def _diff(self, code: tuple[str, str] | None) -> int | None:
        """How many kernels are equal, and the diffs of the others; None where no code was kept."""
        if code is None:
            return None
        if (
            code not in self._diffs
        ):  # most patches change nothing in most cases, and comparing takes the longest
            equal, diffs = compare_code(*code)
            numbers = []
            for diff in diffs:
                lines = (self._tables.place("diff_lines", **vars(line)) for line in diff.lines)
                kernel = vars(diff) | {"lines": tuple(lines)}
                numbers.append(self._tables.place("kernels", **kernel))
            calls = (self._tables.place("calls", **vars(pair)) for pair in compare_calls(*code))
            self._diffs[code] = self._tables.place(
                "diffs", equal=equal, kernels=tuple(numbers), calls=tuple(calls)
            )
        return self._diffs[code]

    def _history(self, compared: ComparedCase) -> Iterator[int]:
        """Values over time, unpatched and patched, of each fact that has those of several runs."""
        past = self.past(compared.case.workload, compared.case.device)
        line = release_line(compared.case.torch)
        for fact in sorted({fact for torch, _, fact in past if torch == line}):
            old, new = (
                tuple(map(_past_text, past.get((line, side, fact), ())))
                for side in (UNPATCHED, str(compared.case.patch))
            )
            if max(len(old), len(new)) > 1:
                yield self._tables.place("histories", fact=fact, unpatched=old, patched=new)


@lru_cache(maxsize=1 << 16)
def _fact_text(value: FactValue | None) -> str:
    return "" if value is None else format_value(value)


@lru_cache(maxsize=1 << 16)
def _past_text(value: str) -> str:
    """A value as golden writes it, from the JSON of the history."""
    return format_value(fact_from(json.loads(value)))


def _failure_text(observation: Observation | None) -> str:
    failure = observation.failure if observation else None
    if failure is None:
        return ""
    where = f"\nat {failure.where}" if failure.where else ""
    return (
        f"{failure.cause.value} in {failure.stage}: {failure.signature}{where}\n{failure.detail}"
    ).strip()
