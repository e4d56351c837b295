"""Shows what paired timing can see on this machine's GPU, beside the usual benchmark of separate runs.

Needs a GPU, and runs in the interpreter of one torch that has scipy too: `python ci/power.py RUNS`.
Prints a Markdown table for docs/latency.md; asserts nothing.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from torch._inductor.codegen.wrapper import PythonWrapperCodegen  # noqa: E402
from triton.testing import do_bench  # noqa: E402

from patchgate.interval import Interval, Round, ratio_interval  # noqa: E402
from patchgate.judge.latency import CONFIDENCE, LOOK_CONFIDENCE, ROUNDS  # noqa: E402
from patchgate.probe.timing import Pair, device_state  # noqa: E402


def load(path: Path):
    spec = importlib.util.spec_from_file_location("loaded", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where Dynamo looks up its globals
    spec.loader.exec_module(module)
    return module


STACK = load(ROOT / "fixtures/workloads/residual_stack.py")


@contextmanager
def undone() -> Iterator[None]:
    original = PythonWrapperCodegen.generate_return
    try:
        yield
    finally:
        PythonWrapperCodegen.generate_return = original


def slow_by(cycles: int) -> Callable[[], None]:
    """What fixtures/verdicts/PG601-slower.py does, with another length."""

    def change() -> None:
        original = PythonWrapperCodegen.generate_return

        def slower(self, output_refs):
            self.wrapper_call.writeline(f"torch.cuda._sleep({cycles})")
            return original(self, output_refs)

        PythonWrapperCodegen.generate_return = slower

    return change


def nothing() -> None:
    """An A/A comparison: both sides compiled afresh, neither changed."""


def compare(change: Callable[[], None], seconds: float, seed: int) -> tuple[Interval, Interval]:
    """The interval at 99 %, and at the confidence that a gate asks of one look."""
    with undone():
        pair = Pair(STACK.build, dtype=torch.bfloat16, size="full", device="cuda", change=change)
        taken = pair.rounds(rounds=ROUNDS, seconds=seconds, seed=seed)
    made = [Round(unpatched=tuple(one["unpatched"]), patched=tuple(one["patched"])) for one in taken]
    return ratio_interval(made, CONFIDENCE), ratio_interval(made, LOOK_CONFIDENCE)


def separate(change: Callable[[], None]) -> float:
    """The usual way: each form timed by itself, one after the other."""
    times = []
    with undone(), torch.no_grad():
        for prepare in (nothing, change):
            prepare()
            torch._dynamo.reset()
            module, args = STACK.build(torch.device("cuda"), torch.bfloat16, "full")
            compiled = torch.compile(module)
            compiled(*args)
            times.append(do_bench(lambda compiled=compiled, args=args: compiled(*args), return_mode="median"))
    return times[1] / times[0]


def row(name: str, change: Callable[[], None], runs: int, seconds: float, first_seed: int) -> None:
    if not runs:
        return
    started = time.perf_counter()
    both = [compare(change, seconds, first_seed + run) for run in range(runs)]
    found = [one for one, _ in both]
    each = (time.perf_counter() - started) / runs
    over = f"{sum(one.low > 1 for one in found)} | {sum(one.low > 1 for _, one in both)}"
    ratios = [one.ratio for one in found]
    width = statistics.median((one.high - one.low) / 2 for one in found)
    print(
        f"| {name} | {runs} | {seconds:g} | {each:.1f} | {over} | {statistics.mean(ratios):.5f}"
        f" | {min(ratios):.5f} .. {max(ratios):.5f} | {width:.5f} |",
        flush=True,
    )


def usual(name: str, change: Callable[[], None], runs: int) -> None:
    if not runs:
        return
    ratios = [separate(change) for _ in range(runs)]
    print(
        f"| {name}, separate runs | {runs} | | | | | {statistics.mean(ratios):.5f}"
        f" | {min(ratios):.5f} .. {max(ratios):.5f} | |",
        flush=True,
    )


def main() -> None:
    a_a, power, bench, small, large = (int(text) for text in sys.argv[1:6])
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {device_state()}\n")
    columns = ("comparison", "runs", "seconds timed", "in all", "OVER at 99 %", "OVER in a gate's look")
    print("| " + " | ".join((*columns, "mean ratio", "ratios", "half width")) + " |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    row("unchanged", nothing, a_a, 1.2, 0)
    row(f"slower ({small} cycles)", slow_by(small), power, 2, 1000)
    row(f"slower ({large} cycles)", slow_by(large), power, 2, 2000)
    usual("unchanged", nothing, bench)
    usual(f"slower ({small} cycles)", slow_by(small), bench)
    print(f"\n{device_state()}")


main()
