"""Says how the time of one warm gate run is spent, as shares of that run, and what a lint costs.

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
from statistics import median

from patchgate.inputs.devices import load_profile
from patchgate.inputs.workloads import load_workloads
from patchgate.model.records import Case
from patchgate.runner.client import Runner
from patchgate.runner.results import ResultStore
from patchgate.runner.run import Limits
from patchgate.runner.server import start_server

# The cells that compare numbers; they may add so many seconds to a gate on two cores.
NUMBERS, ALLOWED = ("parity", "equivalence", "ranks", "tokens"), 60
# Beside the folder of the gate, so that the compiled C++ of its runs is found again.
FOLDER = Path(".patchgate", "bench")


def main(arguments: list[str]) -> None:
    """Run the gate with `arguments` and print seconds and shares by check."""
    _lint(arguments[-1])
    _cases(*arguments[arguments.index("--row") + 1].split("=", 1))
    started, before = time.monotonic(), _computed()
    command = [sys.executable, "-m", "patchgate", "gate", *arguments, "--folder", str(FOLDER)]
    ended = subprocess.run(command, capture_output=True, text=True)
    wall = time.monotonic() - started
    times = FOLDER / "times.json"
    if not times.is_file():
        sys.exit(ended.stdout + ended.stderr)
    shares = _shares(json.loads(times.read_text(encoding="utf-8")))
    total = sum(shares.values())
    print(f"one gate run: {wall:.0f} s wall, {total:.0f} s in cells (with several at once, and waiting for torch)")
    for part, seconds in sorted(shares.items(), key=lambda item: -item[1]):
        print(f"  {part:22} {seconds:6.1f} s {seconds / total:6.1%}")
    numbers = sum(shares[part] for part in NUMBERS if part in shares)
    told = f"{' + '.join(NUMBERS)}: {numbers:.0f} s in cells, {numbers / total:.0%} of them"
    print(f"{told}; {numbers / 2:.0f} s of a gate on two cores, {ALLOWED} are allowed")
    print(f"computed in all: {_computed() - before:.0f} s of one core")


def _shares(spent: dict[str, float]) -> dict[str, float]:
    """Seconds by part. Cells of a case share one observation, and whichever runs first pays for it."""
    parts = {"kernels": "facts", "graph": "facts", "symptom": "facts", "machine": "torch warms up"}
    shares: dict[str, float] = defaultdict(float)
    for cell, seconds in spent.items():
        check = cell.partition("-")[0]
        shares[parts.get(check, check)] += seconds
    return shares


def _computed() -> float:
    """Processor seconds of every process that has ended so far: unlike wall time, nearly the same on a busy machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cases(torch: str, python: str) -> None:
    """Seconds of one simulated case after the other, every workload unpatched on an H200, one at a time and warm."""
    spent: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="patchgate-bench-") as folder:
        server = start_server(torch, python)
        runner = Runner(
            connect=server.connect,
            logs={torch: server.log},
            store=ResultStore(Path(folder)),
            artifacts=Path(folder) / "code",
            limits=Limits(),
        )
        runner.ask(torch, "sentinel", profile=load_profile("h200"))
        for name, workload in load_workloads().items():
            if "kernels" in workload.checks and not workload.needs_device:
                started = time.monotonic()
                runner.observe(Case(torch=torch, device="h200", workload=name), workload, None)
                spent[name] = time.monotonic() - started
        server.stop()
    slowest = max(spent, key=lambda name: spent[name])
    told = f"median {median(spent.values()):.2f} s, slowest {spent[slowest]:.2f} s ({slowest})"
    print(f"{len(spent)} simulated cases on torch {torch}, one core: {told}")


def _lint(patch: str) -> None:
    """Wall time and peak memory of linting the same patch over every indexed release."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "patchgate", "lint", patch], stdout=subprocess.DEVNULL)
    wall = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(f"lint over every release: {wall:.2f} s wall, {used} MiB at most")


main(sys.argv[1:])
