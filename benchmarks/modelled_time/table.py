"""Modelled against measured changes: what agrees, on the blocks that the model was made on and on the others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from patchgate.inputs.devices import load_profile
from patchgate.probe.protocol import Launch
from patchgate.runner.modelled_time import roofline_time

# A change that is worth a sign, and what "beyond" means in the second table.
WORTH = 0.01
_BEYOND = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A block under a change."""

    block: str
    change: str
    fitted: bool  #: whether the model was made on this block
    modelled: float  #: change of its time, as a fraction
    measured: float  #: change of its time, as a fraction
    steady: bool  #: every repeat has the same sign

    @property
    def right(self) -> bool:
        """Whether the model has the sign of what was measured; no change is no sign."""
        return self.modelled * self.measured > 0


def load_lines(text: str) -> list[Pair]:
    """The pairs of what `measure` printed, one line of JSON a block; other lines are passed over."""
    lines = (json.loads(line) for line in text.splitlines() if line.startswith("{"))
    return [pair for line in lines if "failed" not in line for pair in _pairs(line)]


def _pairs(line: dict[str, Any]) -> Iterator[Pair]:
    speed = load_profile("h200")["speed"]

    def modelled(side: str) -> float:
        names = list(Launch.__annotations__)
        return roofline_time([dict(zip(names, launch, strict=True)) for launch in line["launches"][side]], speed)

    for change, row in line["changes"].items():
        if row and "ratios" in row and change != "same":
            yield Pair(
                block=line["block"],
                change=change,
                fitted=line["fitted"],
                modelled=round(modelled(change) / modelled("unpatched") - 1, 9),
                measured=median(row["ratios"]) - 1,
                steady=len({ratio > 1 for ratio in row["ratios"]}) == 1,
            )


def rank_correlation(pairs: Sequence[Pair]) -> float:
    """Spearman's, of modelled and measured changes."""
    one, other = (_ranks([getattr(pair, side) for pair in pairs]) for side in ("modelled", "measured"))
    a, b = mean(one), mean(other)
    covariance = sum((x - a) * (y - b) for x, y in zip(one, other, strict=True))
    spread = (sum((x - a) ** 2 for x in one) * sum((y - b) ** 2 for y in other)) ** 0.5
    return covariance / spread if spread else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def render(pairs: Sequence[Pair]) -> str:
    """Markdown: how often the model is right, then every pair of which something is worth a sign."""
    halves = {
        "the model was made on": [pair for pair in pairs if pair.fitted],
        "it had not seen": [pair for pair in pairs if not pair.fitted],
    }
    lines = ["| blocks that | pairs | measured beyond 1 % | sign right | no sign | sign wrong | rank | median error |"]
    lines += ["| --- " * 8 + "|"]
    for name, half in halves.items():
        worth = [pair for pair in half if abs(pair.measured) > WORTH and pair.steady]
        right, none = sum(pair.right for pair in worth), sum(not pair.modelled for pair in worth)
        error = median(abs(pair.modelled - pair.measured) for pair in half) if half else 0.0
        counts = map(str, (len(half), len(worth), right, none, len(worth) - right - none))
        rank = f"{rank_correlation(half):.2f}" if len(half) > 1 else "-"
        lines.append(f"| {name} | {' | '.join(counts)} | {rank} | {error:.1%} |")
    lines += ["", "| modelled beyond | " + " | ".join(f"blocks that {name}: sign right" for name in halves) + " |"]
    lines += ["| --- " * 3 + "|"]
    for beyond in _BEYOND:
        found = [[pair for pair in half if abs(pair.modelled) > beyond] for half in halves.values()]
        cells = [f"{sum(pair.right for pair in some)} of {len(some)}" for some in found]
        lines.append(f"| {beyond * 100:g} % | {' | '.join(cells)} |")
    lines += ["", "| block | change | modelled | measured | |", "| --- " * 5 + "|"]
    for pair in sorted(pairs, key=lambda pair: (pair.block, pair.change)):
        if max(abs(pair.modelled), abs(pair.measured)) > WORTH:
            said = "" if pair.right else "no sign" if not pair.modelled else "wrong"
            note = said if pair.steady else "repeats disagree"
            lines.append(f"| {pair.block} | {pair.change} | {pair.modelled:+.1%} | {pair.measured:+.1%} | {note} |")
    return "\n".join(lines) + "\n"
