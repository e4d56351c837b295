"""Ratios patched / unpatched with their intervals against tokens -> one self-contained SVG.

Decides how the figure is drawn. Pure: the same points give the same text; refuses to know where they come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log2

from patchgate.model.records import Budget

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 48
_LINES = 6
# Per cent between two lines of the grid.
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#57606a}"
    ".grid{stroke:#d0d7de}.one{stroke:#57606a;stroke-dasharray:4 3}"
    ".budget{fill:#dafbe1}.ratio{stroke:#0969da;stroke-width:2;fill:none}.dot{fill:#0969da}"
)


@dataclass(frozen=True, kw_only=True)
class Point:
    """One size: the ratio, and the interval that it was measured to lie in."""

    tokens: int
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """Where a size and a change in per cent lie on the page; sizes are drawn by their logarithm."""

    sizes: tuple[int, int]
    low: float
    high: float

    def x(self, tokens: int) -> float:
        first, last = (log2(size) for size in self.sizes)
        share = (log2(tokens) - first) / (last - first) if last > first else 0.5
        return LEFT + 24 + share * (WIDTH - LEFT - RIGHT - 48)

    def y(self, change: float) -> float:
        return TOP + (self.high - change) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)


def draw_latency(points: Sequence[Point], title: str, budget: Budget | None = None, style: str = _STYLE) -> str:
    """The figure as text. Raises ValueError without a point.

    A `budget` is a band behind the points. A page that the figure is put into has a `style` of its own, and gives none.
    """
    if not points:
        raise ValueError("nothing was measured, so there is nothing to draw")
    ordered = sorted(points, key=lambda point: point.tokens)
    scale, step = _scale(ordered, budget)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>" + (f"<style>{style}</style>" if style else ""),
        f'<text x="{LEFT}" y="20">{escape(title)}</text>',
        *_band(scale, budget),
        *_grid(scale, step),
        *_curve(scale, ordered),
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">tokens</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _scale(points: Sequence[Point], budget: Budget | None) -> tuple[_Scale, float]:
    """A scale that holds every interval, the budget and no change at all, and the distance of its lines."""
    ends = [(end - 1) * 100 for point in points for end in (point.low, point.high)]
    ends += [0.0, budget.low * 100, budget.high * 100] if budget else [0.0]
    spread = max(ends) - min(ends) or _STEPS[0]
    step = next((step for step in _STEPS if spread / step <= _LINES), spread / _LINES)
    low, high = floor(min(ends) / step) * step, ceil(max(ends) / step) * step
    sizes = points[0].tokens, points[-1].tokens
    return _Scale(sizes=sizes, low=low, high=high if high > low else low + step), step


def _band(scale: _Scale, budget: Budget | None) -> Iterator[str]:
    if budget:
        top, bottom = scale.y(budget.high * 100), scale.y(budget.low * 100)
        size = f'width="{WIDTH - LEFT - RIGHT}" height="{bottom - top:.1f}"'
        yield f'<rect class="budget" x="{LEFT}" y="{top:.1f}" {size}><title>the budget</title></rect>'


def _grid(scale: _Scale, step: float) -> Iterator[str]:
    for number in range(round((scale.high - scale.low) / step) + 1):
        change = scale.low + number * step
        kind = "one" if abs(change) < step / 2 else "grid"
        y = scale.y(change)
        yield f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        label = f"{change:+.4g} %" if kind == "grid" else "equal"
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'


def _curve(scale: _Scale, points: Sequence[Point]) -> Iterator[str]:
    placed = [(scale.x(point.tokens), scale.y((point.ratio - 1) * 100), point) for point in points]
    if len(placed) > 1:
        yield '<polyline class="ratio" points="' + " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in placed) + '"/>'
    for x, y, point in placed:
        low, high = scale.y((point.low - 1) * 100), scale.y((point.high - 1) * 100)
        told = f"{point.tokens:,} tokens: {point.ratio:.4f} [{point.low:.4f}, {point.high:.4f}]"
        yield f"<g><title>{told}</title>"
        whiskers = "".join(f"M{x - 4:.1f} {end:.1f}h8" for end in (low, high))
        yield f'<path class="ratio" d="M{x:.1f} {high:.1f}V{low:.1f}{whiskers}"/>'
        yield f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4"/></g>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{point.tokens:,}</text>'
