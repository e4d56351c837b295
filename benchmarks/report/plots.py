"""The drawings of docs/case-42686.md and docs/latency.md, from figures that stand there or in
golden/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from patchgate.inputs.golden import load_golden
from patchgate.inputs.matrix import load_matrix
from patchgate.model.paths import GOLDEN, ROOT
from patchgate.model.statistics import Interval
from patchgate.report.html.latency_plot import draw_latency

DOCS = ROOT / "docs"
# | tokens | unpatched | patched | ratio | low .. high | ...
_LATENCY = re.compile(r"\| ([\d,]+) \| [\d.,]+ \| [\d.,]+ \| ([\d.]+) \| ([\d.]+) \.\. ([\d.]+) \|")
# | where | sampling | ... | ... | share % (low % to high %) |
_FLIPS = re.compile(
    r"\| (\w+) \| (\w+) \| [^|]+ \| [^|]+ \| ([\d.]+) % \(([\d.]+) % to ([\d.]+) %\) \|"
)
# Tokens of the texts that the table of flips is about, and those that are drawn.
_SAMPLED, _LENGTHS = 64, (16, 32, 64, 128, 256, 512, 1024)
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 640, 340, 64, 130, 48, 56
_NAME_HEIGHT = 14
_MARKS = ("circle", "square", "triangle")
# Light and dark: as the reader of the page has it.
_LIGHT = {"ground": "#fff", "text": "#1a1f26", "grid": "#d3d9e0", "band": "#dff3e4"}
_DARK = {"ground": "#0e1217", "text": "#e7ebf0", "grid": "#36404c", "band": "#10341d"}
_LINES = (("#0a58ca", "#6ea8ff"), ("#8a4a00", "#f4c27a"), ("#535d69", "#a9b3bf"))


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a chart."""

    name: str
    #: (x, y, lowest and highest y of its interval); without an interval both are y
    points: Sequence[tuple[float, float, float, float]]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A drawing: ticks are (value, label), and the outer ones are the ends of an axis."""

    title: str
    x_title: str
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    lines: Sequence[Line]

    def x(self, value: float) -> float:
        first, last = self.x_ticks[0][0], self.x_ticks[-1][0]
        return _LEFT + 12 + (value - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT - 24)

    def y(self, value: float) -> float:
        low, high = self.y_ticks[0][0], self.y_ticks[-1][0]
        return _TOP + (high - value) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)


def drawings() -> Mapping[str, str]:
    """File name below docs/ -> SVG."""
    latency, case = (
        (DOCS / name).read_text(encoding="utf-8") for name in ("latency.md", "case-42686.md")
    )
    title = "vLLM #42686, residual stack, NVIDIA H200, torch 2.11.0: patched / unpatched"
    return {
        "latency-42686.svg": draw_latency(
            latency_ratios(latency), title, style=_style(of_latency=True)
        ),
        "images/flips-42686.svg": draw(flips_chart(case)),
        "images/releases-42686.svg": draw(releases_chart()),
    }


def latency_ratios(page: str) -> dict[int, Interval]:
    """Tokens -> ratio, from the section about #42686."""
    section = page.split("## vLLM #42686 on the H200\n")[1].split("\n## ")[0]
    return {
        int(tokens.replace(",", "")): Interval(ratio=float(ratio), low=float(low), high=float(high))
        for tokens, ratio, low, high in _LATENCY.findall(section)
    }


def flips_chart(page: str) -> Chart:
    """How likely a text of so many tokens changes: every token has the same chance, as for the
    sampled length.
    """
    lines = []
    for where, sampling, *figures in _FLIPS.findall(page):
        share, low, high = (1 - (1 - float(figure) / 100) ** (1 / _SAMPLED) for figure in figures)
        points = [
            (number, *(1 - (1 - chance) ** tokens for chance in (share, low, high)))
            for number, tokens in enumerate(_LENGTHS)
        ]
        lines.append(Line(name=f"{where}, {sampling}", points=points))
    return Chart(
        title="How likely an exact-text test changes with #42686, 95 % intervals",
        x_title="tokens of the text",
        x_ticks=[(number, str(tokens)) for number, tokens in enumerate(_LENGTHS)],
        y_ticks=[(share / 100, f"{share} %") for share in range(0, 101, 20)],
        lines=lines,
    )


def releases_chart() -> Chart:
    """The symptom's fact on each release, without the patch and with it, as golden records it."""
    golden = load_golden("residual_stack", "h200", GOLDEN)
    releases = [entry.torch for entry in load_matrix()]
    sides = (("unpatched", "unpatched"), ("#42686, ungated", "vllm-42686-corrected"))
    lines = []
    for name, section in sides:
        recorded = golden.sections[section]["loads.max"]
        values = {torch: v for span, v in recorded.items() for torch in releases if torch in span}
        points = [(releases.index(torch), float(str(v))) for torch, v in values.items()]
        lines.append(Line(name=name, points=[(x, y, y, y) for x, y in sorted(points)]))
    return Chart(
        title="Most loads of one kernel in the residual stack, by torch release",
        x_title="torch release; the patch was gated to 2.11.0 alone",
        x_ticks=[(number, torch) for number, torch in enumerate(releases)],
        y_ticks=[(count, str(count)) for count in range(0, 8, 2)],
        lines=lines,
    )


def draw(chart: Chart) -> str:
    """The chart as SVG.

    A line is told by its mark and its name at its end, not by its colour alone.
    """
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{escape(chart.title)}</title><style>{_style()}</style>",
        f'<text x="{_LEFT}" y="24">{escape(chart.title)}</text>',
        *_axes(chart),
    ]
    for number, (line, place) in enumerate(zip(chart.lines, _name_places(chart), strict=True)):
        parts += _line(chart, line, number, place)
    parts += [
        f'<text x="{(_WIDTH - _RIGHT + _LEFT) / 2}" y="{_HEIGHT - 12}" '
        f'text-anchor="middle">{chart.x_title}</text>'
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axes(chart: Chart) -> Iterator[str]:
    for value, label in chart.y_ticks:
        y = chart.y(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    for value, label in chart.x_ticks:
        yield (
            f'<text x="{chart.x(value):.1f}" y="{_HEIGHT - _BOTTOM + 20}" '
            f'text-anchor="middle">{label}</text>'
        )


def _name_places(chart: Chart) -> list[float]:
    """y of each line's name: at its end, and below the name above it."""
    ends = [chart.y(line.points[-1][1]) + 4 for line in chart.lines]
    before = 0.0
    for number in sorted(range(len(ends)), key=ends.__getitem__):
        before = ends[number] = max(ends[number], before + _NAME_HEIGHT)
    return ends


def _line(chart: Chart, line: Line, number: int, name_y: float) -> Iterator[str]:
    pixels = [(chart.x(x), *map(chart.y, (y, low, high))) for x, y, low, high in line.points]
    yield f'<g class="line{number}"><title>{escape(line.name)}</title>'
    upper = [f"{x:.1f},{high:.1f}" for x, _, _, high in pixels]
    lower = [f"{x:.1f},{low:.1f}" for x, _, low, _ in reversed(pixels)]
    yield f'<polygon class="interval" points="{" ".join([*upper, *lower])}"/>'
    yield f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in pixels)}"/>'
    yield from (_mark(x, y, _MARKS[number % len(_MARKS)]) for x, y, _, _ in pixels)
    yield f'<text x="{pixels[-1][0] + 10:.1f}" y="{name_y:.1f}">{escape(line.name)}</text></g>'


def _mark(x: float, y: float, shape: str) -> str:
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    if shape == "square":
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
    return f'<path d="M{x:.1f} {y - 5:.1f}l5 9h-10z"/>'


def _style(*, of_latency: bool = False) -> str:
    rules = _latency_rules if of_latency else _chart_rules
    return f"{rules(_LIGHT, 0)}@media (prefers-color-scheme:dark){{{rules(_DARK, 1)}}}"


def _chart_rules(colours: Mapping[str, str], theme: int) -> str:
    rules = (
        f"svg{{background:{colours['ground']}}}text{{font:12px "
        f"system-ui,sans-serif;fill:{colours['text']}}}"
    )
    rules += f".grid{{stroke:{colours['grid']}}}polyline{{fill:none;stroke-width:2}}"
    rules += ".interval{opacity:.15;stroke:none}"
    for number, pair in enumerate(_LINES):
        colour = pair[theme]
        rules += (
            f".line{number}{{fill:{colour};stroke:{colour}}}.line{number} "
            f"text{{fill:{colour};stroke:none}}"
        )
    return rules


def _latency_rules(colours: Mapping[str, str], theme: int) -> str:
    line = _LINES[0][theme]
    return (
        f"svg{{background:{colours['ground']}}}text{{font:12px "
        f"system-ui,sans-serif;fill:{colours['text']}}}"
        f".grid{{stroke:{colours['grid']}}}.one{{stroke:{colours['text']};stroke-dasharray:4 3}}"
        f".budget{{fill:{colours['band']}}}.ratio{{stroke:{line};stroke-width:2;fill:none}}.dot{{fill:{line}}}"
    )
