"""Prints where the seconds of one warm gate run go, which questions were left out and why, and what a lint costs.

It has no limits of its own: times on shared machines are no test.
"""

from __future__ import annotations

import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

from patchgate.inputs.devices import load_profile
from patchgate.inputs.workloads import load_workloads
from patchgate.model.records import Case
from patchgate.runner.client import Runner
from patchgate.runner.costs import load_costs
from patchgate.runner.run_settings import Run
from patchgate.runner.start_server import start_server

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
    text = f"{' + '.join(NUMBERS)}: {numbers:.0f} s in cells, {numbers / total:.0%} of them"
    print(f"{text}; {numbers / 2:.0f} s of a gate on two cores, {ALLOWED} are allowed")
    _costs(_computed() - before)


def _shares(spent: dict[str, float]) -> dict[str, float]:
    """Seconds by part. Cells of a case share one observation, and whichever runs first pays for it."""
    parts = {"kernels": "facts", "graph": "facts", "symptom": "facts", "machine": "torch warms up"}
    shares: dict[str, float] = defaultdict(float)
    for cell, seconds in spent.items():
        check = cell.partition("-")[0]
        shares[parts.get(check, check)] += seconds
    return shares


def _costs(computed: float) -> None:
    """CPU seconds by question and side; what was not asked, and why; for how long a device was held alone."""
    notes = load_costs(FOLDER)
    children: dict[str, list[float]] = defaultdict(list)
    unasked: Counter[tuple[str, str]] = Counter()
    for note in notes:
        if "unasked" in note:
            unasked[note["do"], note["unasked"]] += 1
        elif "child" in note:
            side = "patched" if note["patch"] else "unpatched"
            children[f"{note['do']}, {note['device'] or 'no device'}, {side}"].append(note["child"])
    _idle([(note["at"], note["at"] + note["wall"]) for note in notes if "wall" in note])
    warm_ups = {note["torch"]: note["warm_up"] for note in notes if "warm_up" in note}
    in_children = sum(map(sum, children.values()))
    rest = computed - in_children - sum(warm_ups.values())
    print(
        f"computed: {computed:.0f} s of one core; {in_children:.0f} s in {sum(map(len, children.values()))} children,"
    )
    print(f"  {sum(warm_ups.values()):.0f} s in {len(warm_ups)} servers that warm up, {rest:.0f} s in patchgate itself")
    for question, seconds in sorted(children.items(), key=lambda item: -sum(item[1])):
        print(f"  {sum(seconds):6.1f} s  {len(seconds):4} x  {question}")
    print("not asked:")
    for (question, why), times in unasked.most_common():
        print(f"  {times:4} x  {question}: {why}")
    held = [note["held"] for note in notes if note.get("held")]
    if held:
        print(f"the device was held alone for {sum(held):.0f} s, in {len(held)} cases that were timed")


def _idle(spans: list[tuple[float, float]]) -> None:
    """For how long of the time between the first question and the last answer one answer alone was waited for."""
    changes = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    seconds: dict[int, float] = defaultdict(float)
    count = 0
    for (at, change), (until, _) in itertools.pairwise(changes):
        count += change
        seconds[min(count, 2)] += until - at
    few = f"{seconds[1]:.0f} s with one alone, {seconds[0]:.0f} s with none"
    print(f"between the first question and the last answer: {sum(seconds.values()):.0f} s; {few}")


def _computed() -> float:
    """Processor seconds of every process that has ended so far: unlike wall time, nearly the same on a busy machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cases(torch: str, python: str) -> None:
    """Seconds of one simulated case after the other, every workload unpatched on an H200, one at a time and warm."""
    spent: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="patchgate-bench-") as folder:
        server = start_server(torch, python)
        run = Run(folder=folder, patch="", rows={torch: python})
        runner = Runner(run=run, connect=server.connect, logs={torch: server.log})
        runner.ask(torch, "sentinel", profile=load_profile("h200"))
        for name, workload in load_workloads().items():
            if "kernels" in workload.checks and not workload.needs_device:
                started = time.monotonic()
                runner.observe(Case(torch=torch, device="h200", workload=name), workload, None)
                spent[name] = time.monotonic() - started
        server.stop()
    slowest = max(spent, key=lambda name: spent[name])
    text = f"median {median(spent.values()):.2f} s, slowest {spent[slowest]:.2f} s ({slowest})"
    print(f"{len(spent)} simulated cases on torch {torch}, one core: {text}")


def _lint(patch: str) -> None:
    """Wall time and peak memory of linting the same patch over every indexed release."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "patchgate", "lint", patch], stdout=subprocess.DEVNULL)
    wall = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(f"lint over every release: {wall:.2f} s wall, {used} MiB at most")


main(sys.argv[1:])
