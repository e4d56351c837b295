"""Judged patches -> what the HTML page shows: tables that the page's script reads, and what is plain text in it.

Decides what a cell can be drilled down to. Equal values are kept once, so that a sweep of a hundred thousand
cells stays small. Knows neither HTML nor files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from packaging.version import Version

from patchgate.checks.codes import CODES
from patchgate.model.facts import UNPATCHED, check_of, format_value, not_requested, value_in
from patchgate.model.records import Colour, FactValue, Failure, Observation, Patch, Verdict
from patchgate.model.serialization import fact_from
from patchgate.model.versions import release_line
from patchgate.report.html.code_diff import KernelDiff, compare_code
from patchgate.report.html.once import Once
from patchgate.report.view import Block, cell_of, group, item_of, reading_order, view
from patchgate.runs.evidence import Compared, Judged, Timed

_COLOURS = (Colour.GREEN, Colour.RED, Colour.GREY)
_COMMAND = re.compile(
    r"(.*?)((?:nox -s|patchgate (?:gate|explain|lint|index|accept|record|bisect|sweep)) [^;]*)", re.DOTALL
)
# (workload, device) -> (torch, patch or "unpatched", fact) -> its values over time, oldest first.
Past = Callable[[str, str], Mapping[tuple[str, str, str], Sequence[str]]]
Address = tuple[str, str, str, str]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A block of the view, and the cell of the page with its evidence."""

    block: Block
    evidence: Address | None


@dataclass(frozen=True, kw_only=True)
class Part:
    """One patch on the page."""

    patch: Patch
    summary: str
    colour: Colour
    findings: tuple[Finding, ...]


@dataclass
class Page:
    """Fill it with `add`, then read `data` and `parts`. `note` is said to the reader below the title."""

    past: Past = lambda workload, device: {}
    note: str = ""

    def __post_init__(self) -> None:
        self._texts, self._verdicts, self._rows, self._tables = Once(), Once(), Once(), Once()
        self._environments, self._diffs, self._cases = Once(), Once(), Once()
        self._compared: dict[tuple[str, str], int] = {}
        self._patches: dict[str, Patch] = {}
        self._torches: set[str] = set()
        self._cells: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
        self._told: dict[str, list[Verdict]] = {}
        self.times: list[tuple[Patch, Timed]] = []

    def add(self, judged: Judged) -> None:
        """Take in one patch on some rows; the same patch may come again with other rows."""
        patch = judged.patch
        self._patches.setdefault(patch.id, patch)
        self._torches |= set(judged.torches)
        self._told.setdefault(patch.id, []).extend(judged.verdicts)
        kinds = {(v.torch, v.subject): f"{v.code} {v.kind.value}" for v in judged.verdicts}
        cases = {(one.case.torch, one.name): self._case(one, kinds) for one in judged.compared}
        lines = self._cells.setdefault(patch.id, {})
        for (check, item, torch), verdicts in group(judged.verdicts).items():
            lines.setdefault((check, item), {})[torch] = self._cell(verdicts, torch, cases)
        self.times += [(patch, timed) for timed in judged.times]

    @property
    def torches(self) -> tuple[str, ...]:
        return tuple(sorted(self._torches, key=Version))

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(self._part(patch) for patch in self._patches.values())

    @property
    def data(self) -> dict[str, Any]:
        """All that the script reads, ready for JSON."""
        return {
            "torches": self.torches,
            "codes": {code: CODES[code].title for code in sorted(self._codes())},
            "texts": self._texts.values,
            "verdicts": self._verdicts.values,
            "rows": self._rows.values,
            "tables": self._tables.values,
            "environments": self._environments.values,
            "diffs": self._diffs.values,
            "cases": self._cases.values,
            "patches": [
                [patch.id, patch.claims.title, _symptom(patch), list(self._lines(patch.id))]
                for patch in self._patches.values()
            ],
        }

    def _codes(self) -> set[str]:
        return {verdict.code for told in self._told.values() for verdict in told}

    def _lines(self, patch: str) -> Iterator[list[Any]]:
        cells = self._cells[patch]
        for check, item in sorted(cells, key=reading_order):
            yield [check, item, [cells[check, item].get(torch, 0) for torch in self.torches]]

    def _cell(self, verdicts: Sequence[Verdict], torch: str, cases: Mapping[tuple[str, str], int]) -> list[Any]:
        """Colour, how many of it, their codes, verdicts to read, and cases that are their evidence."""
        cell = cell_of(verdicts)
        words = dict.fromkeys(word for verdict in verdicts for word in verdict.subject.split())
        evidence = [cases[torch, word] for word in words if (torch, word) in cases]
        told = [
            v for v in verdicts if v.colour is not Colour.GREEN or not (evidence and v.check in ("kernels", "graph"))
        ]
        return [_COLOURS.index(cell.colour), cell.count, cell.codes, [self._verdict(v) for v in told], evidence]

    def _verdict(self, v: Verdict) -> int:
        texts = (v.code, v.kind.value, v.subject, v.expected, v.actual, v.where or "", v.why, *split_command(v.next))
        return self._verdicts.place((_COLOURS.index(v.colour), *map(self._texts.place, texts)))

    def _case(self, one: Compared, kinds: Mapping[tuple[str, str], str]) -> int:
        """A case: its name, facts, failures, environment, changed code, and the history of its facts."""
        before = one.unpatched.facts if one.unpatched else {}
        names = {*before, *one.patched.facts, *one.golden.facts} - not_requested(one.golden.facts, one.patched.facts)
        told = []
        for fact in sorted(names, key=lambda name: (check_of(name) != "kernels", name)):
            sides = value_in(one.golden.facts, fact), value_in(one.golden_unpatched.facts, fact)
            now = value_in(before, fact), value_in(one.patched.facts, fact)
            kind = kinds.get((one.case.torch, f"{one.name} {fact}"), "")
            told.append(self._rows.place(tuple(map(self._texts.place, (fact, *map(_shown, (*sides, *now)), kind)))))
        failures = tuple(self._texts.place(_failure(side)) for side in (one.unpatched, one.patched))
        environment = tuple(sorted({**one.patched.environment, "measured on": one.on}.items()))
        return self._cases.place(
            (
                one.name,
                one.case.torch,
                self._tables.place(tuple(told)),
                failures,
                self._environments.place(environment),
                self._diff(one.code),
                self._history(one),
            )
        )

    def _diff(self, code: tuple[str, str] | None) -> int | None:
        """Equal kernels, and for the others (old name, new name, lines); None where no code was kept."""
        if code is None:
            return None
        if code not in self._compared:  # most patches change nothing in most cases, and comparing takes the longest
            equal, diffs = compare_code(*code)
            self._compared[code] = self._diffs.place((equal, tuple(self._listed(diff) for diff in diffs)))
        return self._compared[code]

    def _listed(self, diff: KernelDiff) -> tuple[Any, ...]:
        lines = tuple(
            (line.sign, line.old or 0, line.new or 0, *(part for token in line.tokens for part in token))
            for line in diff.lines
        )
        return diff.old or "", diff.new or "", lines

    def _history(self, one: Compared) -> tuple[Any, ...]:
        """(fact, values unpatched, values patched) where there are values of several runs."""
        known, line = self.past(one.case.workload, one.case.device), release_line(one.case.torch)
        facts = sorted({fact for torch, _, fact in known if torch == line})
        sides = (
            (
                fact,
                *(tuple(map(_kept, known.get((line, side, fact), ()))) for side in (UNPATCHED, str(one.case.patch))),
            )
            for fact in facts
        )
        return tuple((fact, old, new) for fact, old, new in sides if max(len(old), len(new)) > 1)

    def _part(self, patch: Patch) -> Part:
        shown = view(self._told[patch.id], self.torches)
        worst = next((c for c in (Colour.RED, Colour.GREY) if shown.counts[c]), Colour.GREEN)
        findings = tuple(Finding(block=block, evidence=self._address(patch.id, block)) for block in shown.blocks)
        return Part(patch=patch, summary=shown.summary, colour=worst, findings=findings)

    def _address(self, patch: str, block: Block) -> Address | None:
        """The cell of a block's first finding: (patch, check, item, torch)."""
        for verdict in self._told[patch]:
            if (verdict.check, verdict.code) == (block.check, block.code) and verdict.torch in self._torches:
                return patch, block.check, item_of(verdict), verdict.torch
        return None


def split_command(text: str) -> tuple[str, str]:
    """What to do, and the command at the end of it, if there is one to copy."""
    found = _COMMAND.fullmatch(text)
    # The full stop of a sentence is no part of what is typed.
    return (found[1].rstrip(), re.sub(r"(?<=[^\s.])\.$", "", found[2])) if found else (text, "")


@lru_cache(maxsize=1 << 16)
def _shown(value: FactValue | None) -> str:
    return "" if value is None else format_value(value)


@lru_cache(maxsize=1 << 16)
def _kept(value: str) -> str:
    """A value as golden writes it, from how the history keeps it."""
    return format_value(fact_from(json.loads(value)))


def _failure(observation: Observation | None) -> str:
    failure: Failure | None = observation.failure if observation else None
    if failure is None:
        return ""
    where = f"\nat {failure.where}" if failure.where else ""
    return f"{failure.cause.value} in {failure.stage}: {failure.signature}{where}\n{failure.detail}".strip()


def _symptom(patch: Patch) -> list[str] | None:
    symptom = patch.claims.symptom
    return [f"{symptom.workload}.{symptom.device}", symptom.fact, symptom.predicate] if symptom else None
