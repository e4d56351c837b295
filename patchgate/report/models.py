"""Gains and losses of models, as a table in a terminal and in Markdown; the page is
`report/html/models_page.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from patchgate.model.public_model_figures import BYTES, Change, Figure, Impact, ModelImpact
from patchgate.model.text import escape_control
from patchgate.report.markdown import as_code, table_row

_SCALES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))


def value_text(value: float, figure: Figure) -> str:
    """A value of three significant figures, `1.24 GB`; a count is a whole number, `13`."""
    for scale, unit in _SCALES if figure.unit == "bytes" else ():
        if value >= scale:
            shown = value / scale
            return f"{shown:.{2 if shown < 10 else 1 if shown < 100 else 0}f} {unit}"
    return f"{value:,.0f}"


def percent(share: float) -> str:
    """`+11.5 %`; `+0.02 %` for a small change, `0 %` for none."""
    return f"{share * 100:+.{1 if abs(share) >= 0.001 else 2}f} %" if share else "0 %"


def change_text(change: Change) -> str:
    """The change in per cent; `new` if it was 0 and is not."""
    return "new" if change.share is None else percent(change.share)


def cell_text(change: Change, figure: Figure) -> str:
    """`13`, or `13 -> 14 (+7.7 %)` if it changed."""
    before, after = value_text(change.before, figure), value_text(change.after, figure)
    if change.before == change.after:
        return after
    return (
        f"{before} -> {after} ({change_text(change)})"
        if before != after
        else f"{after} ({change_text(change)})"
    )


def row_texts(row: ModelImpact, figures: tuple[Figure, ...]) -> list[str]:
    """A cell for each figure; `-` if it was not taken."""
    return [
        cell_text(row.changes[each.name], each) if each.name in row.changes else "-"
        for each in figures
    ]


def show_impact(console: Console, impact: Impact) -> None:
    """Print the summary line, and a row for each model."""
    console.print(Text(escape_control(impact.summary), style="bold"))
    table = Table(
        "model", *(figure.name for figure in impact.figures), box=SIMPLE_HEAD, pad_edge=False
    )
    for row in impact.rows:
        if not row.failed:
            table.add_row(*_cells(row, impact.figures))
    if table.row_count:
        console.print(table)
    for row in impact.rows:
        if row.failed:
            console.print(
                Text(escape_control(f"not compared: {row.model}: {row.failed}"), style="yellow")
            )
    console.print(Text(f"{impact.before} -> {impact.after}", style="dim"))


def _cells(row: ModelImpact, figures: tuple[Figure, ...]) -> Iterator[Text]:
    style = {0: "", 1: "red", -1: "green"}[row.direction(BYTES)]
    yield Text(escape_control(row.model), style=style)
    for text in row_texts(row, figures):
        yield Text(text, style="" if "(" in text else "dim")


def impact_markdown(title: str, impact: Impact) -> str:
    """Title, the summary line, the table, and the models that were not compared."""
    figures = impact.figures
    lines = [f"## {as_code(title)}", "", as_code(impact.summary), ""]
    compared = [row for row in impact.rows if not row.failed]
    if compared:
        lines += [
            table_row(["model", *(figure.name for figure in figures)]),
            table_row(["---"] * (1 + len(figures))),
        ]
        lines += [table_row([as_code(row.model), *row_texts(row, figures)]) for row in compared]
    lines += [
        f"\nNot compared: {as_code(row.model)}: {as_code(row.failed)}"
        for row in impact.rows
        if row.failed
    ]
    return "\n".join([*lines, "", as_code(f"{impact.before} -> {impact.after}"), ""])
