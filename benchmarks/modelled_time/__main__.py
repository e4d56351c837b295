"""What the modelled time is worth.

`python -m benchmarks.modelled_time measure [N]` times the blocks on the GPU, N processes at once, and prints a line of
JSON for each; `python -m benchmarks.modelled_time table FILE` makes the table of docs/modelled-time.md from such lines.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.modelled_time.table import load_lines, render

_USAGE = "measure [N] | table FILE"


def main(arguments: list[str]) -> None:
    match arguments:
        case ["measure", *workers]:
            from benchmarks.modelled_time.run import measure_all  # which imports torch

            measure_all(int(workers[0]) if workers else 4)
        case ["table", file]:
            print(render(load_lines(Path(file).read_text(encoding="utf-8"))))
        case _:
            sys.exit(_USAGE)


if __name__ == "__main__":
    main(sys.argv[1:])
