"""Shows what paired timing can see on this machine's GPU or CPU, beside the usual benchmark of
separate runs.

Runs in the interpreter of one torch:
`python benchmarks/timing_power.py cuda|cpu A_A POWER BENCH SMALL LARGE`, numbers of comparisons and
the lengths of two slower patches. Prints a table for docs/latency.md; asserts nothing.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from torch._inductor.codecache import CppCodeCache  # noqa: E402
from torch._inductor.codegen.wrapper import PythonWrapperCodegen  # noqa: E402
from torch.utils.benchmark import Timer  # noqa: E402
from triton.testing import do_bench  # noqa: E402

from patchgate.inputs.devices import load_profile  # noqa: E402
from patchgate.model.statistics import (  # noqa: E402
    CONFIDENCE,
    LOOK_CONFIDENCE,
    ROUNDS,
    Interval,
    Round,
    ratio_interval,
)
from patchgate.probe.simulate.device_context import device_context  # noqa: E402
from patchgate.probe.timing.device import device_state  # noqa: E402
from patchgate.probe.timing.paired import Pair  # noqa: E402


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("loaded", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where Dynamo looks up its globals
    spec.loader.exec_module(module)
    return module


STACK = load(ROOT / "fixtures/workloads/residual_stack.py")


# The device, what is timed on it, and what a generated wrapper does to be slower.
DEVICE = sys.argv[1]
SIZE, UNIT, SLOWER = {
    "cuda": ("full", "cycles", "torch.cuda._sleep({})"),
    "cpu": ("small", "additions", "sum(range({}))"),
}[DEVICE]
compiled_before = itertools.count()
BUILT = tempfile.TemporaryDirectory(prefix="patchgate-")


@contextlib.contextmanager
def undone() -> Iterator[None]:
    with (
        mock.patch.object(
            PythonWrapperCodegen, "generate_return", PythonWrapperCodegen.generate_return
        ),
        mock.patch.object(CppCodeCache, "load_async", vars(CppCodeCache)["load_async"]),
    ):
        yield


def slow_by(length: int) -> Callable[[], None]:
    """Do the same as fixtures/verdicts/PG611-slower.py, with another length."""

    def change() -> None:
        original = PythonWrapperCodegen.generate_return

        def slower(self: Any, output_refs: Any) -> Any:
            self.wrapper_call.writeline(SLOWER.format(length))
            return original(self, output_refs)

        PythonWrapperCodegen.generate_return = slower
        compile_afresh()

    return change


def compile_afresh() -> None:
    """An A/A comparison: both sides compiled, neither changed.

    Equal C++ would be one library, in one place.
    """
    original = CppCodeCache.load_async.__func__
    mark = f"// {next(compiled_before)}\n"
    CppCodeCache.load_async = classmethod(
        lambda cls, code, *args, **more: original(cls, mark + code, *args, **more)
    )


def compare(change: Callable[[], None], seconds: float, seed: int) -> tuple[Interval, Interval]:
    """The interval at 99 %, and at the confidence that a gate asks of one look."""
    simulated = (
        device_context(load_profile("cpu") | {"threads": 1})
        if DEVICE == "cpu"
        else contextlib.nullcontext()
    )
    with undone(), simulated:
        pair = Pair(
            STACK.build,
            dtype=torch.bfloat16,
            size=SIZE,
            device=DEVICE,
            change=change,
            built=BUILT.name,
        )
        taken = pair.rounds(rounds=ROUNDS, seconds=seconds, seed=seed)
    made = [
        Round(unpatched=tuple(one["unpatched"]), patched=tuple(one["patched"])) for one in taken
    ]
    return ratio_interval(made, CONFIDENCE), ratio_interval(made, LOOK_CONFIDENCE)


def usual_benchmark(compiled: Callable[..., object], args: tuple[object, ...]) -> float:
    if DEVICE == "cuda":
        return float(do_bench(lambda: compiled(*args), return_mode="median"))
    timer = Timer("compiled(*args)", globals={"compiled": compiled, "args": args})
    return float(timer.blocked_autorange().median)


def separate(change: Callable[[], None]) -> float:
    """The usual way: each form timed by itself, one after the other."""
    times = []
    with undone(), torch.no_grad():
        for prepare in (compile_afresh, change):
            prepare()
            torch._dynamo.reset()
            module, args = STACK.build(torch.device(DEVICE), torch.bfloat16, SIZE)
            compiled = torch.compile(module)
            compiled(*args)
            times.append(usual_benchmark(compiled, args))
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


def device_name() -> str:
    if DEVICE == "cuda":
        return str(torch.cuda.get_device_name())
    named = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return named[1] if named else "an unnamed CPU"


def main() -> None:
    a_a, power, bench, small, large = (int(text) for text in sys.argv[2:7])
    print(f"{device_name()}, torch {torch.__version__}, {device_state(DEVICE)}\n")
    columns = (
        "comparison",
        "runs",
        "seconds timed",
        "in all",
        "OVER at 99 %",
        "OVER in a gate's look",
    )
    print("| " + " | ".join((*columns, "mean ratio", "ratios", "half width")) + " |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    seconds = 1.2 if DEVICE == "cuda" else 2
    row("unchanged", compile_afresh, a_a, seconds, 0)
    row(f"slower ({small:,} {UNIT})", slow_by(small), power, seconds, 1000)
    row(f"slower ({large:,} {UNIT})", slow_by(large), power, seconds, 2000)
    usual("unchanged", compile_afresh, bench)
    usual(f"slower ({small:,} {UNIT})", slow_by(small), bench)
    print(f"\n{device_state(DEVICE)}")


main()
