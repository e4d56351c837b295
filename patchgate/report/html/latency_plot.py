"""Latency ratios, or chances, with their intervals against tokens, as one self-contained SVG.

Drawn here and not by a plotting library: the page's policy allows no inline style, and equal input
must give equal text. The page's script draws the rest (`plots.js`): that depends on the cell that
the reader opens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from math import ceil, floor, log2

from patchgate.model.records import Budget, record
from patchgate.model.statistics import Interval

# Of the drawing and of its margins, in pixels.
WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 48
# Lengths of text for which it is drawn how likely it changes.
_TEXTS = (16, 32, 64, 128, 256, 512, 1024)
# At most so many grid lines, and the distances between them, in per cent.
_LINES = 6
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


@record
class _Scale:
    """Pixels of a number of tokens (logarithmic) and of a ratio; `low`, `high` and `step` are
    changes in per cent.
    """

    tokens: tuple[int, int]  #: fewest and most
    low: float
    high: float
    step: float
    sign: str  #: of a figure that is positive

    def label(self, change: float) -> str:
        return f"{change:{self.sign}.4g} %"

    def x(self, tokens: int) -> float:
        first, last = map(log2, self.tokens)
        share = (log2(tokens) - first) / (last - first) if last > first else 0.5
        return LEFT + 24 + share * (WIDTH - LEFT - RIGHT - 48)

    def y(self, change: float) -> float:
        return TOP + (self.high - change) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)


def draw_flips(chance: tuple[float, float, float]) -> str:
    """How likely a text of so many tokens changes, where every token has the same `chance`."""
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
    """`ratios` maps tokens to patched / unpatched; `budget` is a band behind them.

    Raises ValueError without a ratio.

    `style` is for a drawing that stands alone; a page has the rules in its own.
    """
    if not ratios:
        raise ValueError("nothing was measured, so there is nothing to draw")
    ratios = dict(sorted(ratios.items()))
    scale = _scale(ratios, budget, sign)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>" + (f"<style>{style}</style>" if style else ""),
        f'<text x="{LEFT}" y="20">{escape(title)}</text>',
        *_band(scale, budget),
        *_grid(scale),
        *_curve(scale, ratios),
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">tokens</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _scale(ratios: Mapping[int, Interval], budget: Budget | None, sign: str) -> _Scale:
    """A scale that holds every interval, the budget and no change at all."""
    ends = [
        (end - 1) * 100 for interval in ratios.values() for end in (interval.low, interval.high)
    ]
    ends += [0.0, budget.low * 100, budget.high * 100] if budget else [0.0]
    step = grid_step(max(ends) - min(ends))
    low, high = floor(min(ends) / step) * step, ceil(max(ends) / step) * step
    return _Scale(
        tokens=(min(ratios), max(ratios)),
        low=low,
        high=high if high > low else low + step,
        step=step,
        sign=sign,
    )


def grid_step(spread: float) -> float:
    """Per cent between grid lines, so that few of them hold a spread of so many per cent."""
    spread = spread or _STEPS[0]
    return next((step for step in _STEPS if spread / step <= _LINES), spread / _LINES)


def _band(scale: _Scale, budget: Budget | None) -> Iterator[str]:
    if budget:
        top, bottom = scale.y(budget.high * 100), scale.y(budget.low * 100)
        size = f'width="{WIDTH - LEFT - RIGHT}" height="{bottom - top:.1f}"'
        yield (
            f'<rect class="budget" x="{LEFT}" y="{top:.1f}" {size}><title>the budget</title></rect>'
        )


def _grid(scale: _Scale) -> Iterator[str]:
    for number in range(round((scale.high - scale.low) / scale.step) + 1):
        change = scale.low + number * scale.step
        kind = "one" if abs(change) < scale.step / 2 else "grid"
        y = scale.y(change)
        yield f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        label = "equal" if kind == "one" and scale.sign else scale.label(change)
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'


def _curve(scale: _Scale, ratios: Mapping[int, Interval]) -> Iterator[str]:
    """A line through the ratios, and for each a dot, its interval as whiskers, and its figures as a
    tooltip.
    """
    changes = {
        tokens: [(each - 1) * 100 for each in (interval.ratio, interval.low, interval.high)]
        for tokens, interval in ratios.items()
    }
    pixels = [(scale.x(tokens), *map(scale.y, each)) for tokens, each in changes.items()]
    if len(pixels) > 1:
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y, *_ in pixels)
        yield f'<polyline class="ratio" points="{points}"/>'
    for (tokens, figures), (x, y, low, high) in zip(changes.items(), pixels, strict=True):
        middle, least, most = map(scale.label, figures)
        yield f"<g><title>{tokens:,} tokens: {middle} ({least} to {most})</title>"
        whiskers = "".join(f"M{x - 4:.1f} {end:.1f}h8" for end in (low, high))
        yield f'<path class="ratio" d="M{x:.1f} {high:.1f}V{low:.1f}{whiskers}"/>'
        yield f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4"/></g>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tokens:,}</text>'
