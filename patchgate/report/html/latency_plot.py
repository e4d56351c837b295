"""Draw latency ratios or chances, with their intervals, against tokens as one self-contained SVG.

No plotting library is used: the page's policy allows no inline style, and equal input must give
equal text. The page's script draws the plots that depend on the cell that the reader opens
(`plots.js`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain
from math import ceil, floor, log2

from patchgate.model.records import Budget, record
from patchgate.model.statistics import Interval

# The size of the drawing and of its margins, in pixels.
WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 48
# Lengths of text for which the probability of a change is drawn.
_TEXTS = (16, 32, 64, 128, 256, 512, 1024)
# The most grid lines, and the distances between them, in per cent.
_LINES = 6
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


@record
class Axis:
    """An axis of changes in per cent, from `low` to `high` in round steps."""

    low: float
    high: float
    step: float
    sign: str  #: the sign before a positive change

    def share(self, change: float) -> float:
        """The place of a change along the axis: 0 to 1."""
        return (change - self.low) / (self.high - self.low)

    def label(self, change: float) -> str:
        return f"{change:{self.sign}.4g} %"

    def lines(self) -> Iterator[tuple[float, str, str]]:
        """Change, class and label of each grid line."""
        for number in range(round((self.high - self.low) / self.step) + 1):
            change = self.low + number * self.step
            is_one = abs(change) < self.step / 2
            label = "equal" if is_one and self.sign else self.label(change)
            yield change, "one" if is_one else "grid", label


def axis_over(changes: Iterable[float], sign: str = "+") -> Axis:
    """The axis that holds these changes and zero, with few grid lines."""
    ends = [0.0, *changes]
    spread = max(ends) - min(ends) or _STEPS[0]
    step = next((step for step in _STEPS if spread / step <= _LINES), spread / _LINES)
    low, high = floor(min(ends) / step) * step, ceil(max(ends) / step) * step
    return Axis(low=low, high=max(high, low + step), step=step, sign=sign)


def draw_flips(chance: tuple[float, float, float]) -> str:
    """Draw the probability that a text changes against its length in tokens; every token has the
    same `chance`.
    """
    flips = {tokens: [2 - (1 - one) ** tokens for one in chance] for tokens in _TEXTS}
    ratios = {
        tokens: Interval(ratio=flip, low=low, high=high)
        for tokens, (flip, low, high) in flips.items()
    }
    return draw_latency(ratios, "Chance that an exact-text test fails", sign="")


def draw_latency(
    ratios: Mapping[int, Interval],
    title: str,
    budget: Budget | None = None,
    *,
    style: str = "",
    sign: str = "+",
) -> str:
    """Draw `ratios`, which maps tokens to patched / unpatched, over a band for the `budget`.

    Raises ValueError without a ratio.

    `style` is for a drawing outside a page; a page has its own rules.
    """
    if not ratios:
        raise ValueError("nothing was measured, so there is nothing to draw")
    changes = {
        tokens: [(each - 1) * 100 for each in (one.ratio, one.low, one.high)]
        for tokens, one in sorted(ratios.items())
    }
    ends = [budget.low * 100, budget.high * 100] if budget else []
    axis = axis_over([*ends, *chain(*changes.values())], sign)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>" + (f"<style>{style}</style>" if style else ""),
        f'<text x="{LEFT}" y="20">{escape(title)}</text>',
        *_band(axis, budget),
        *_grid(axis),
        *_curve(axis, changes),
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">tokens</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(tokens: int, fewest: int, most: int) -> float:
    """The x coordinate of a number of tokens, on a logarithmic scale."""
    share = log2(tokens / fewest) / log2(most / fewest) if most > fewest else 0.5
    return LEFT + 24 + share * (WIDTH - LEFT - RIGHT - 48)


def _y(axis: Axis, change: float) -> float:
    return TOP + (1 - axis.share(change)) * (HEIGHT - TOP - BOTTOM)


def _band(axis: Axis, budget: Budget | None) -> Iterator[str]:
    if budget:
        top, bottom = _y(axis, budget.high * 100), _y(axis, budget.low * 100)
        size = f'width="{WIDTH - LEFT - RIGHT}" height="{bottom - top:.1f}"'
        yield (
            f'<rect class="budget" x="{LEFT}" y="{top:.1f}" {size}><title>the budget</title></rect>'
        )


def _grid(axis: Axis) -> Iterator[str]:
    for change, kind, label in axis.lines():
        y = _y(axis, change)
        yield f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'


def _curve(axis: Axis, changes: Mapping[int, Sequence[float]]) -> Iterator[str]:
    """A line through the changes; each has a dot, its interval as whiskers, and its figures as a
    tooltip.
    """
    ends = min(changes), max(changes)
    pixels = [
        (_x(tokens, *ends), *(_y(axis, each) for each in figures))
        for tokens, figures in changes.items()
    ]
    if len(pixels) > 1:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y, *_ in pixels)
        yield f'<polyline class="ratio" points="{points}"/>'
    for (tokens, figures), (x, y, low, high) in zip(changes.items(), pixels, strict=True):
        middle, least, most = map(axis.label, figures)
        yield f"<g><title>{tokens:,} tokens: {middle} ({least} to {most})</title>"
        whiskers = "".join(f"M{x - 4:.1f} {end:.1f}h8" for end in (low, high))
        yield f'<path class="ratio" d="M{x:.1f} {high:.1f}V{low:.1f}{whiskers}"/>'
        yield f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4"/></g>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tokens:,}</text>'
