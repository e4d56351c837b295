"""Show changes of models as a table in a terminal and in Markdown, and as a page with a plot.

The plot is SVG that this module draws, because the page's policy allows no inline style. The table
has the same figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from patchgate.model.public_model_figures import BYTES, TELLS, Change, Figure, Impact, ModelImpact
from patchgate.model.text import escape_control
from patchgate.report.html.latency_plot import Axis, axis_over
from patchgate.report.html.page_file import render_page
from patchgate.report.markdown import as_code, table_row

_SCALES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))


def value_text(value: float, figure: Figure) -> str:
    """Bytes with three significant figures, `1.24 GB`; a count as a whole number, `13`."""
    for scale, unit in _SCALES if figure.unit == "bytes" else ():
        if value >= scale:
            shown = value / scale
            return f"{shown:.{2 if shown < 10 else 1 if shown < 100 else 0}f} {unit}"
    return f"{value:,.0f}"


def percent(share: float) -> str:
    """`+11.5 %`; `+0.02 %` for a small change, `0 %` for none."""
    return f"{share * 100:+.{1 if abs(share) >= 0.001 else 2}f} %" if share else "0 %"


def change_text(change: Change) -> str:
    """The change in per cent; `new` if the value was 0 before."""
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
            texts = row_texts(row, impact.figures)
            cells = (Text(text, style="" if "(" in text else "dim") for text in texts)
            table.add_row(Text(escape_control(row.model), style=_colour(row)), *cells)
    if table.row_count:
        console.print(table)
    for row in impact.rows:
        if row.failed:
            console.print(
                Text(escape_control(f"not compared: {row.model}: {row.failed}"), style="yellow")
            )
    console.print(Text(f"{impact.before} -> {impact.after}", style="dim"))


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


# The sizes of the drawing in pixels: the width, the height of a row, the space for the names on the
# left, for the figures on the right, and for the axis at the top.
WIDTH, ROW, LEFT, RIGHT, TOP = 760, 26, 190, 80, 34


def impact_html(title: str, impact: Impact, *, at: str) -> str:
    """The whole page as one file; `at` is the time of the measurement."""
    compared = [row for row in impact.rows if not row.failed]
    drawn = [row for row in compared if BYTES.name in row.changes]
    return render_page(
        "models.html",
        title=title,
        at=at,
        impact=impact,
        plot=draw_impact(impact, drawn) if drawn else "",
        heads=[figure.name for figure in impact.figures],
        rows=[(row.model, _colour(row), row_texts(row, impact.figures)) for row in compared],
    )


def draw_impact(impact: Impact, rows: Sequence[ModelImpact]) -> str:
    """An SVG with a dumbbell for each model, from zero to the change of the bytes that the model
    moves, in per cent.
    """
    axis = axis_over([-TELLS * 100, TELLS * 100, *(row.share(BYTES) * 100 for row in rows)])
    height = TOP + ROW * len(rows) + 8
    title = f"Bytes moved by {len(rows)} models, {impact.after} against {impact.before}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}: {escape(impact.summary)}</title>",
        *_grid(axis, height),
        *(
            line
            for number, row in enumerate(rows)
            for line in _dumbbell(row, axis, TOP + ROW * (number + 0.5))
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(axis: Axis, change: float) -> float:
    return LEFT + axis.share(change) * (WIDTH - LEFT - RIGHT)


def _grid(axis: Axis, height: float) -> Iterator[str]:
    for change, kind, label in axis.lines():
        x = f"{_x(axis, change):.1f}"
        yield f'<line class="{kind}" x1="{x}" x2="{x}" y1="{TOP}" y2="{height}"/>'
        yield f'<text class="tick" x="{x}" y="{TOP - 10}" text-anchor="middle">{label}</text>'


def _dumbbell(row: ModelImpact, axis: Axis, y: float) -> Iterator[str]:
    """A hollow dot for the value without the change, a solid dot for the value with the change, a
    line between the dots, and the figures as a tooltip.
    """
    change = row.changes[BYTES.name]
    start, end = _x(axis, 0), _x(axis, row.share(BYTES) * 100)
    yield (
        f'<g class="{_colour(row)}"><title>{escape(row.model)}: {cell_text(change, BYTES)}</title>'
    )
    yield (
        f'<text x="{LEFT - 12}" y="{y + 4:.1f}" '
        f'text-anchor="end">{escape(_short(row.model))}</text>'
    )
    yield f'<line class="bar" x1="{start:.1f}" x2="{end:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
    yield f'<circle class="before" cx="{start:.1f}" cy="{y:.1f}" r="4"/>'
    yield f'<circle class="after" cx="{end:.1f}" cy="{y:.1f}" r="5"/>'
    yield (
        f'<text x="{WIDTH - 4}" y="{y + 4:.1f}" text-anchor="end">{change_text(change)}</text></g>'
    )


def _short(name: str, most: int = 22) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _colour(row: ModelImpact) -> str:
    """Return the badge's colour: red if more bytes are moved, green if fewer are."""
    return {0: "none", 1: "red", -1: "green"}[row.direction(BYTES)]
