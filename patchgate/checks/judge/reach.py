"""Whether what a patch has put in place is reached: PG801 to PG809.

Decides from what the live process holds, from the lines that ran, and from
the hooks that were called. Refuses to run anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from patchgate.checks.codes import verdict_of
from patchgate.checks.coverage import Functions
from patchgate.model.paths import shown
from patchgate.model.records import Kind, Observation, Patch, Verdict
from patchgate.model.serialization import failure_of

_SHOWN = 6


_verdict = partial(verdict_of, "reach")


def judge_holders(torch: str, patch: Patch, answer: Mapping[str, Any]) -> Iterator[Verdict]:
    """PG801 and PG802 from the live process after the patch was applied."""
    for name, holders in answer["holders"].items():
        more = f" and {len(holders) - _SHOWN} more" if len(holders) > _SHOWN else ""
        told = f"{', '.join(holders[:_SHOWN])}{more}"
        place = _place(patch, name)
        yield _verdict("PG801", Kind.REGRESSED, torch, f"holders of {name}", "none hold the original", told, place)
    for name in answer["unreachable"]:
        told = "abstract, and overridden by every class that can be made"
        yield _verdict("PG802", Kind.REGRESSED, torch, name, "can be called", told, _place(patch, name))
    if not answer["holders"] and not answer["unreachable"]:
        told = ", ".join(answer["changed"]) or "nothing replaced"
        yield _verdict("PG806", Kind.PASS, torch, "holders", "none hold the original", told)


def judge_called(
    torch: str,
    patch: Patch,
    applied: Mapping[str, Any],
    functions: Functions,
    observed: Iterable[Observation],
) -> Iterator[Verdict]:
    """PG803, PG805 and PG807 from the lines of the patch that ran under the workloads."""
    done = [each for each in observed if each.failure is None]
    ran = {line for each in done for line in each.ran}
    workloads = f"{len(done)} workloads"
    replacements = applied["replacements"]
    if replacements and not done:
        yield _verdict("PG809", Kind.UNMEASURED, torch, "calls", "a workload that compiles", "none did")
        return
    dead = {name for name, lines in replacements.items() if not ran.intersection(lines)}
    for name in sorted(dead):
        told = f"no line of it ran in {workloads}"
        yield _verdict("PG803", Kind.REGRESSED, torch, f"calls of {name}", "called", told, _place(patch, name))
    if not replacements:
        yield _verdict("PG806", Kind.NOTE, torch, "calls", "called", "no function of the patch replaces anything here")
    elif not dead:
        yield _verdict("PG806", Kind.PASS, torch, "calls", "called", f"{len(replacements)} replacements")
    yield from _uncovered(torch, patch, functions, done)


def _uncovered(torch: str, patch: Patch, functions: Functions, done: Sequence[Observation]) -> Iterator[Verdict]:
    """Lines and branches that never ran, of functions that ran at all: the others may belong to another release."""
    ran = {line for each in done for line in each.ran}
    took = {outcome for each in done for outcome in each.took}
    for name, lines in sorted(functions.lines.items()):
        if not ran.intersection(lines):
            continue
        told, never = name.split(":")[0], sorted(set(lines) - ran)
        # Where the condition itself never ran, its line is told above.
        open_ends = [(line, word) for line, word in functions.outcomes.get(name, ()) if line in ran]
        open_ends = [outcome for outcome in open_ends if outcome not in took]
        if never:
            actual = f"lines {', '.join(map(str, never))} never ran in {len(done)} workloads: add a workload"
            place = f"{shown(patch.path)}:{never[0]}"
            yield _verdict("PG805", Kind.NOTE, torch, f"lines of {told}", "all run", actual, place)
        if open_ends:
            actual = f"{', '.join(f'line {line} was never {word}' for line, word in open_ends)}: add a workload"
            place = f"{shown(patch.path)}:{open_ends[0][0]}"
            yield _verdict("PG807", Kind.NOTE, torch, f"branches of {told}", "all taken", actual, place)


def judge_hooks(
    torch: str, patch: Patch, unpatched: Mapping[str, Any], patched: Mapping[str, Any]
) -> Iterator[Verdict]:
    """PG804 for each hook that is called without the patch and not with it."""
    failure = failure_of(dict(unpatched)) or failure_of(dict(patched))
    if failure:
        yield _verdict("PG809", Kind.INFRA, torch, "hooks", "an answer", failure.signature, failure.where)
        return
    lost = sorted(set(unpatched["called"]) - set(patched["called"]))
    for name in lost:
        times = unpatched["called"][name]
        told = f"called {times} times without the patch, never with it"
        where = f"{shown(patch.path)}:1"
        yield _verdict("PG804", Kind.REGRESSED, torch, f"hook {name}", "called", told, where)
    if not lost:
        told = f"{len(unpatched['called'])} hooks are called as without it"
        yield _verdict("PG806", Kind.PASS, torch, "hooks", "called", told)


def _place(patch: Patch, name: str) -> str:
    """The line of the patch that assigns `name`: the last that writes or names its last part."""
    last = name.partition("[")[0].rpartition(".")[2]
    lines = patch.source.splitlines()
    wanted = (f".{last} = ", f'"{last}"', f"'{last}'", last)
    for text in wanted:
        found = [number for number, line in enumerate(lines, 1) if text in line]
        if found:
            return f"{shown(patch.path)}:{found[-1]}"
    return f"{shown(patch.path)}:1"
