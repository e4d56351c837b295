"""The page of gains and losses of models: one line, a plot with a row for each model, and the
table.

The plot is an SVG of our own, because the page's policy allows no inline style; the table says the
same in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from patchgate.model.public_model_figures import BYTES, TELLS, Impact, ModelImpact
from patchgate.report.html.latency_plot import Axis, axis_over
from patchgate.report.html.page_file import render_page
from patchgate.report.models import cell_text, change_text, row_texts

# The sizes of the drawing in pixels: a row, the names on the left, the figures on the right, the
# axis above.
WIDTH, ROW, LEFT, RIGHT, TOP = 760, 26, 190, 80, 34


def impact_html(title: str, impact: Impact, *, at: str) -> str:
    """The whole file; `at` is the time of the measurement."""
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
    """A dumbbell for each model: from no change to the change of the bytes that it moves, in per
    cent.
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
    """A hollow dot for the value without the change, a solid one with it, the line between them,
    and the figures as a tooltip.
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
