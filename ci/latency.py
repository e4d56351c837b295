"""Draws docs/latency-42686.svg from the table of docs/latency.md: ratio against tokens, with intervals.

Decides which table; the figures are those that stand there. `--check` only says whether the drawing is up to date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from patchgate.model.files import write_atomically
from patchgate.model.paths import ROOT
from patchgate.report.html.plot import Point, draw_latency

PAGE = ROOT / "docs" / "latency.md"
DRAWING = ROOT / "docs" / "latency-42686.svg"
TITLE = "vLLM #42686, residual stack, NVIDIA H200, torch 2.11.0: patched / unpatched"
# | tokens | unpatched | patched | ratio | low .. high | ...
_ROW = re.compile(r"\| ([\d,]+) \| [\d.,]+ \| [\d.,]+ \| ([\d.]+) \| ([\d.]+) \.\. ([\d.]+) \|")


def points(text: str) -> Iterator[Point]:
    """The rows of the section about #42686."""
    text = text.split("## vLLM #42686 on the H200\n")[1].split("\n## ")[0]
    for tokens, *figures in _ROW.findall(text):
        ratio, low, high = map(float, figures)
        yield Point(tokens=int(tokens.replace(",", "")), ratio=ratio, low=low, high=high)


def drawing() -> str:
    return draw_latency(list(points(PAGE.read_text(encoding="utf-8"))), TITLE)


def main(arguments: list[str]) -> int:
    now = DRAWING.read_text(encoding="utf-8") if DRAWING.is_file() else ""
    if "--check" in arguments:
        return 0 if now == drawing() else 1
    write_atomically(DRAWING, drawing())
    print(f"wrote {Path(DRAWING).relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
