"""`python -m benchmarks.mutations`: thousands of damaged inputs, each read as the commands read it.

Each is read or refused in words. Anything else is a finding: another exception, or no end within
ten seconds of CPU time. The seed, the kind and the number of a mutation make it again. Exit codes:
0 none, 1 findings.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import click

from benchmarks.mutations.damage import mutated
from benchmarks.mutations.readers import KINDS, Read
from benchmarks.repeat import tree_text
from patchgate.cli.main import bad_input, end_by_exit_code
from patchgate.model.errors import UsageError

#: Seconds of CPU time for one input.
SECONDS = 10.0
# Mutations of one kind that a process makes before it takes other ones.
_AT_ONCE = 250


class _Hung(BaseException):
    """No reader catches it."""


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _Hung(f"no end within {SECONDS} s of CPU time")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def fault_of(read: Read, folder: Path, data: bytes) -> str:
    """Say where and how reading these bytes fails; empty if they are read or refused in words."""
    try:
        with _time_limit():
            read(folder, data)
    except UsageError as error:
        return "" if len(str(error)) < 8000 else f"{len(str(error))} characters of an error"
    except (Exception, _Hung) as error:
        if isinstance(error, Exception) and bad_input(error):
            return ""
        last = [
            at for at in traceback.extract_tb(error.__traceback__) if "patchgate" in at.filename
        ]
        where = f"{Path(last[-1].filename).name}:{last[-1].lineno}" if last else ""
        return f"{type(error).__name__} in {where}: {str(error)[:200]}"
    return ""


def mutation(kind: str, seed: int, number: int, folder: Path) -> bytes:
    """The bytes that seed, kind and number stand for."""
    chance = random.Random(f"{seed}/{kind}/{number}")
    return mutated(chance.choice(_originals(kind, folder)), chance)


@cache
def _originals(kind: str, folder: Path) -> list[bytes]:
    place = folder / "made"
    place.mkdir(parents=True, exist_ok=True)
    return list(KINDS[kind][1](place))


def faults(kind: str, seed: int, numbers: range) -> list[tuple[str, int, str]]:
    """(kind, number, fault) of these mutations."""
    found = []
    with tempfile.TemporaryDirectory(prefix="mutations-") as home:
        place = Path(home).resolve()
        for number in numbers:
            data = mutation(kind, seed, number, place)
            folder = place / f"read-{number % 50}"  # what an earlier one left may matter
            folder.mkdir(exist_ok=True)
            for leftover in folder.glob("history.sqlite-*"):
                leftover.unlink()
            if fault := fault_of(KINDS[kind][0], folder, data):
                found.append((kind, number, fault))
    return found


@click.command()
@click.option("--count", default=100_000, show_default=True, help="Of all kinds together.")
@click.option("--seed", default=1, show_default=True)
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(KINDS)), help="Only these.")
@click.option("--show", "shown", type=int, metavar="NUMBER", help="Print one mutation of a kind.")
@click.option("-n", "jobs", default=os.cpu_count() or 1, help="Processes.")
def mutations(count: int, seed: int, kinds: tuple[str, ...], shown: int | None, jobs: int) -> None:
    """Read damaged inputs, and show those that end otherwise than in a record or in words."""
    chosen = kinds or tuple(KINDS)
    if shown is not None:
        with tempfile.TemporaryDirectory(prefix="mutations-") as home:
            click.echo(mutation(chosen[0], seed, shown, Path(home).resolve()), nl=False)
        return
    each = -(-count // len(chosen))
    starts = range(0, each, _AT_ONCE)
    parts = [range(start, min(start + _AT_ONCE, each)) for start in starts]
    found = 0
    with ProcessPoolExecutor(jobs) as pool:
        running = [pool.submit(faults, kind, seed, part) for part in parts for kind in chosen]
        for ended in as_completed(running):
            for kind, number, fault in ended.result():
                found += 1
                click.echo(f"--kind {kind!r} --seed {seed} --show {number}: {fault}")
    total = each * len(chosen)
    click.echo(
        f"{time.strftime('%Y-%m-%d')}, {tree_text()}, seed {seed}: {total:,} mutated inputs of "
        f"{len(chosen)} kinds, {found} findings"
    )
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    end_by_exit_code(mutations, "mutations")
