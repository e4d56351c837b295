"""Draws docs/latency-42686.svg from the table of docs/latency.md: ratio against tokens, with intervals.

Decides which table; the figures are those that stand there. `--check` only says whether the drawing is up to date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from patchgate.model.files import write_atomically
from patchgate.model.paths import ROOT
from patchgate.model.statistics import Interval
from patchgate.report.html.latency_plot import draw_latency

PAGE = ROOT / "docs" / "latency.md"
DRAWING = ROOT / "docs" / "latency-42686.svg"
TITLE = "vLLM #42686, residual stack, NVIDIA H200, torch 2.11.0: patched / unpatched"
# | tokens | unpatched | patched | ratio | low .. high | ...
_ROW = re.compile(r"\| ([\d,]+) \| [\d.,]+ \| [\d.,]+ \| ([\d.]+) \| ([\d.]+) \.\. ([\d.]+) \|")


def ratios(text: str) -> dict[int, Interval]:
    """The rows of the section about #42686."""
    text = text.split("## vLLM #42686 on the H200\n")[1].split("\n## ")[0]
    return {
        int(tokens.replace(",", "")): Interval(ratio=float(ratio), low=float(low), high=float(high))
        for tokens, ratio, low, high in _ROW.findall(text)
    }


def drawing() -> str:
    return draw_latency(ratios(PAGE.read_text(encoding="utf-8")), TITLE)


def main(arguments: list[str]) -> int:
    now = DRAWING.read_text(encoding="utf-8") if DRAWING.is_file() else ""
    if "--check" in arguments:
        return 0 if now == drawing() else 1
    write_atomically(DRAWING, drawing())
    print(f"wrote {Path(DRAWING).relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
