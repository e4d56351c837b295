"""Says how the time of one warm gate run is spent, as shares of that run.

Decides nothing and asserts nothing: times on shared machines are no test.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path


def main(arguments: list[str]) -> None:
    """Run the gate with `arguments` and print seconds and shares by check."""
    _lint(arguments[-1])
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        command = [sys.executable, "-m", "patchgate", "gate", *arguments, "--folder", f"{folder}/gate"]
        ended = subprocess.run(command, capture_output=True, text=True)
        wall = time.monotonic() - started
        times = Path(folder, "gate", "times.json")
        if not times.is_file():
            sys.exit(ended.stdout + ended.stderr)
        spent: dict[str, float] = json.loads(times.read_text(encoding="utf-8"))
    shares: dict[str, float] = defaultdict(float)
    for cell, seconds in spent.items():
        shares[cell.partition(".")[0].removeprefix("test_")] += seconds
    total = sum(shares.values())
    print(f"one gate run: {wall:.0f} s wall, {total:.0f} s in cells (with several at once, and waiting for torch)")
    for check, seconds in sorted(shares.items(), key=lambda item: -item[1]):
        print(f"  {check:10} {seconds / total:6.1%}")


def _lint(patch: str) -> None:
    """Wall time and peak memory of linting the same patch over every indexed release."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "patchgate", "lint", patch], stdout=subprocess.DEVNULL)
    wall = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(f"lint over every release: {wall:.2f} s wall, {used} MiB at most")


main(sys.argv[1:])
