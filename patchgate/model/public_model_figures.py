"""Compare models on two sides: counts and sizes on both sides, and the change.

The sides are one release without and with a patch, or two releases without a patch. Nothing here is
judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from patchgate.model.facts import UNPATCHED, value_in
from patchgate.model.records import Observation, Unmeasured, record
from patchgate.model.text import counted

#: The summary ignores changes up to this fraction: they may come from alignment.
TELLS = 0.01


@record
class Part:
    """A part of a model that is compiled by itself, on both sides."""

    count: int = 1  #: how many parts of the model equal this part
    before: Observation
    after: Observation


@record
class Change:
    """A figure on both sides."""

    before: float
    after: float

    @property
    def share(self) -> float | None:
        """The change as a fraction of the old value; None if only the old value is 0."""
        if self.after == self.before:
            return 0.0
        return self.after / self.before - 1 if self.before else None


@record
class Figure:
    """A figure that is compared for each model. Less is always better."""

    name: str  #: its name for readers
    facts: tuple[str, ...]  #: the figure is the sum of these facts
    unit: str = ""  #: "bytes", or "" for a count
    combine: Callable[[Iterable[int]], int] = sum  #: combines the figures of a model's parts


BYTES = Figure(name="bytes", facts=("bytes.total",), unit="bytes")
PEAK = Figure(name="peak memory", facts=("memory.peak",), unit="bytes", combine=max)
#: In the order in which they matter.
FIGURES = (
    Figure(
        name="launches", facts=("kernels.called", "kernels.kind.extern", "kernels.kind.fallback")
    ),
    Figure(name="kernels", facts=("kernels.distinct",)),
    BYTES,
    PEAK,
    Figure(name="IR nodes", facts=("lowering.ir_nodes",)),
    Figure(name="graph breaks", facts=("dynamo.graph_breaks",)),
)


@record
class ModelImpact:
    """One model: the figures that both sides have, or why it could not be compared."""

    model: str
    changes: Mapping[str, Change] = field(default_factory=dict)  #: by the name of the figure
    failed: str = ""  #: why there are no changes
    broken: bool = False  #: the model failed only on the second side

    def share(self, figure: Figure) -> float:
        """The change of a figure as a fraction; 0 if the figure was not taken, or was 0 before."""
        return (self.changes[figure.name].share or 0.0) if figure.name in self.changes else 0.0

    def direction(self, figure: Figure) -> int:
        """1 if a figure grew, -1 if it shrank, and 0 for a change so small that the summary ignores
        it.
        """
        share = self.share(figure)
        return (share > TELLS) - (share < -TELLS)

    @property
    def changed(self) -> bool:
        return any(change.before != change.after for change in self.changes.values())


@record
class Impact:
    """The impact on all models. Failed models come first, then the models that changed most."""

    before: str  #: the name of the first side: "unpatched", "torch 2.14.1"
    after: str  #: the name of the second side
    rows: tuple[ModelImpact, ...]

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures that at least one model has."""
        return tuple(
            figure for figure in FIGURES if any(figure.name in row.changes for row in self.rows)
        )

    @property
    def summary(self) -> str:
        """`24 models: 3 with fewer bytes moved (up to -9.4 %: mamba), 21 unchanged`."""
        broken = [row.model for row in self.rows if row.broken]
        failed = [row.model for row in self.rows if row.failed and not row.broken]
        rest = [
            row
            for row in self.rows
            if not (row.failed or row.direction(BYTES) or row.direction(PEAK))
        ]
        little = sum(row.changed for row in rest)
        parts = []
        if broken:
            verb = f"compile{'s' * (len(broken) == 1)}"
            parts.append(f"{len(broken)} no longer {verb} ({_names(broken)})")
        for figure, direction, words in (
            (BYTES, 1, "more bytes moved"),
            (BYTES, -1, "fewer bytes moved"),
            (PEAK, 1, "more memory at the peak"),
            (PEAK, -1, "less memory at the peak"),
        ):
            rows = [row for row in self.rows if row.direction(figure) == direction]
            if rows:
                parts.append(f"{len(rows)} with {words} ({_extent(rows, figure)})")
        if little:
            parts.append(
                f"{little} changed in other figures only, or by less than {TELLS * 100:g} %"
            )
        if len(rest) > little:
            parts.append(f"{len(rest) - little} unchanged")
        if failed:
            parts.append(f"{len(failed)} not compared ({_names(failed)})")
        return f"{counted(len(self.rows), 'model')}: {', '.join(parts) or 'nothing to compare'}"


def _extent(rows: Sequence[ModelImpact], figure: Figure) -> str:
    most = max(rows, key=lambda row: abs(row.share(figure)))
    return f"{'up to ' if len(rows) > 1 else ''}{most.share(figure) * 100:+,.1f} %: {most.model}"


def _names(models: Sequence[str]) -> str:
    return ", ".join((*models[:3], "...") if len(models) > 3 else models)


def impact_of(models: Mapping[str, Sequence[Part]], *, before: str, after: str) -> Impact:
    """The impact on each of `models` (name -> parts). Failures come first; the other models are
    sorted by how much their figures changed.
    """
    rows = [_row(model, parts) for model, parts in models.items()]
    rows.sort(
        key=lambda row: (
            not row.failed,
            *(-abs(row.share(each)) for each in FIGURES),
            not row.changed,
            row.model,
        )
    )
    return Impact(before=before, after=after, rows=tuple(rows))


def _row(model: str, parts: Sequence[Part]) -> ModelImpact:
    missing = [
        (side.case, reason)
        for part in parts
        for side in (part.before, part.after)
        if (reason := _unmeasured(side))
    ]
    if missing:
        case, reason = missing[0]
        broken = any(_broken(part) for part in parts)
        return ModelImpact(
            model=model,
            failed=f"torch {case.torch}, {case.patch or UNPATCHED}: {reason}",
            broken=broken,
        )
    changes = {}
    for figure in FIGURES:
        before = [_value(figure, part.before, part.count) for part in parts]
        after = [_value(figure, part.after, part.count) for part in parts]
        if parts and None not in (*before, *after):
            sums = (
                figure.combine(value for value in side if value is not None)
                for side in (before, after)
            )
            changes[figure.name] = Change(before=next(sums), after=next(sums))
    return ModelImpact(model=model, changes=changes)


def _broken(part: Part) -> bool:
    """True if only the second side does not compile.

    A network that could not be built does not count, because it shows nothing about the compiler.
    """
    failure = part.after.failure
    return failure is not None and failure.stage != "build" and not _unmeasured(part.before)


def _unmeasured(side: Observation) -> str:
    """The reason why a side has no figures, or ""."""
    if side.failure:
        return side.failure.text
    missing = side.facts.get("compiles")
    return missing.reason if isinstance(missing, Unmeasured) else ""


def _value(figure: Figure, side: Observation, count: int) -> int | None:
    """The sum of a figure over `count` equal parts, or the figure of one part if only the largest
    part counts; None if it was not taken.
    """
    found = [value_in(side.facts, fact) for fact in figure.facts]
    values = [value for value in found if isinstance(value, int)]
    if len(values) < len(found):
        return None
    return sum(values) if figure.combine is max else sum(values) * count
