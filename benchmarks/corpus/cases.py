"""A folder with `corpus.toml` beside its patch -> a case with the verdicts that it must get.

Decides how an expectation is written: a code, the releases, the line. Refuses
to know how a verdict comes about. A new case is a folder, and no code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.corpus.checks import cell_names
from patchgate.checks.registry import catalogue
from patchgate.inputs.toml import line_of, read_toml, refuse_unknown
from patchgate.model.errors import UsageError
from patchgate.model.paths import shown
from patchgate.model.versions import parse_range

NAME = "corpus.toml"
# What a case may need that `corpus --gpu` has.
A_GPU = "a GPU"
SOUND, HOSTILE, FAULT, UNCHANGED = "sound", "hostile", "fault", "unchanged"
KINDS = (
    SOUND,
    "gate",
    "attribute",
    "signature",
    "dead-patch",
    "binding",
    "numerics",
    "kernels/traffic",
    "latency",
    "compile-time",
    "recompile/graph-break",
    "cache-key",
    "import-effect",
    "config-leak",
    "hook",
    "interaction",
    HOSTILE,
    FAULT,
    UNCHANGED,
)
_KEYS = frozenset({"class", "cells", "needs", "with", "seconds", "expect"})
_EXPECT = frozenset({"code", "torch", "at"})
_FORM = '[[expect]] code = "PG113", torch = "2.13.0..2.15.0", at = "text of the line"'


@dataclass(frozen=True, kw_only=True)
class Expected:
    """`code` must be red on the releases of `torch` (all when None), at `place` (anywhere when None)."""

    code: str
    torch: str | None = None
    place: str | None = None

    def covers(self, torch: str) -> bool:
        return self.torch is None or torch in parse_range(self.torch)


@dataclass(frozen=True, kw_only=True)
class CorpusCase:
    """One folder. `needs` says what is missing here to judge it; `others` are patches applied with it."""

    id: str
    folder: str
    kind: str
    cells: tuple[str, ...]
    expected: tuple[Expected, ...] = ()
    needs: str = ""
    others: tuple[str, ...] = ()
    seconds: float = 60.0

    @property
    def sound(self) -> bool:
        return self.kind in (SOUND, UNCHANGED)


def load_cases(folders: list[Path]) -> list[CorpusCase]:
    """Every case below `folders`. Raises UsageError with file:line for the first thing that is wrong."""
    return [load_case(path.parent) for folder in folders for path in sorted(folder.glob(f"*/{NAME}"))]


def with_gpu(case: CorpusCase) -> CorpusCase:
    """The case on a machine that has a GPU: when it needs nothing else it can be judged."""
    return replace(case, needs="") if case.needs == A_GPU else case


def load_case(folder: Path) -> CorpusCase:
    path = folder / NAME
    table = read_toml(path)
    refuse_unknown(path, table, _KEYS)
    kind, cells = table.get("class"), table.get("cells", ["lint", "api", "effects"])
    if kind not in KINDS:
        raise _wrong(path, "class", "unknown class", kind, f"one of: {', '.join(KINDS)}")
    for cell in cells if isinstance(cells, list) else [cells]:
        if not isinstance(cell, str) or cell.split(" ")[0] not in cell_names():
            raise _wrong(path, "cells", "no such cell", cell, f"one of: {', '.join(cell_names())}")
    case = CorpusCase(
        id=folder.name,
        folder=str(folder.resolve()),
        kind=kind,
        cells=tuple(cells),
        expected=tuple(_expected(folder, entry) for entry in table.get("expect", [])),
        needs=str(table.get("needs", "")),
        others=tuple(str((folder / other).resolve()) for other in table.get("with", [])),
        seconds=float(table.get("seconds", 60.0)),
    )
    # A hostile patch may come to nothing: that everything else goes on is what it is for.
    if case.sound is bool(case.expected) and not case.needs and kind != HOSTILE:
        got = f"class = {kind!r} with {len(case.expected)} expected codes"
        raise UsageError("a sound case expects nothing, any other something", where=shown(path), got=got, next=_FORM)
    return case


def _expected(folder: Path, entry: Any) -> Expected:
    path = folder / NAME
    refuse_unknown(path, entry, _EXPECT, prefix="expect.")
    code, torch, at = entry.get("code"), entry.get("torch"), entry.get("at")
    if code not in catalogue():
        raise _wrong(path, "code", "no such code", code, "patchgate explain   (lists all)")
    try:
        parse_range(torch or "2.11.0")
    except ValueError:
        raise _wrong(path, "torch", "not a range of releases", torch, 'torch = "2.13.0..2.15.0"') from None
    return Expected(code=code, torch=torch, place=_place(folder, at) if at else None)


def _place(folder: Path, at: str) -> str:
    """file:line of the one line below `folder` that holds the text `at`."""
    found = [
        f"{shown(file)}:{number}"
        for file in sorted(folder.glob("patch.*"))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if at in line
    ]
    if len(found) != 1:
        raise _wrong(folder / NAME, "at", "`at` must be text of exactly one line", at, f"found {len(found)}: {found}")
    return found[0]


def _wrong(path: Path, key: str, what: str, got: object, advice: str) -> UsageError:
    line = line_of(path.read_text(encoding="utf-8"), key)
    return UsageError(what, where=f"{shown(path)}:{line}", got=f"{key} = {got!r}", next=advice)
