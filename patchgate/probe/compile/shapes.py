"""Calls one workload with a script of sizes and counts what Dynamo makes of them: compiles, reasons, guards, fallbacks.

Decides the script and the ways of compiling. On the CPU, small; code is generated and never built, because only
Inductor's guards matter. Refuses to know what ought to have happened.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
import torch._dynamo.config as dynamo_config
from torch._dynamo import convert_frame
from torch._dynamo import utils as dynamo_utils
from torch._inductor.compile_fx import compile_fx

from patchgate.probe.compile.capture import Build, Captured, no_caches, recording, standing_in
from patchgate.probe.compile.facts import Facts
from patchgate.probe.compile.instrumentation import Seen, watching
from patchgate.probe.simulate.fake_device import Profile

# Sizes of the first dimension, call by call: one again, three others, and the one that torch treats apart.
SCRIPT = (8, 8, 12, 16, 3, 1)
# Torch's own limit is 8. With this one static shapes reach it, which shows that it is seen, and others do not.
LIMIT = 4
MODES: dict[str, bool | None] = {"static": False, "automatic": None, "dynamic": True}
_PLACE = re.compile(r"([\w.-]+\.py:\d+)")
_ADDRESS = re.compile(r"0x[0-9a-f]+|\b\d{9,}\b")


@dataclass(kw_only=True)
class Told:
    """One run of the script: `compiled` is how many frames each call compiled, `eager` the calls that ran none."""

    seen: Seen = field(default_factory=Seen)
    compiled: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    eager: int = 0
    limit: int = 0


def shape_facts(build: Build, *, dtype: torch.dtype, profile: Profile) -> Facts:
    """The facts of the script under every mode."""
    torch.set_num_threads(1)
    facts: Facts = {}
    with torch.no_grad(), no_caches(), standing_in(profile), dynamo_config.patch(recompile_limit=LIMIT):
        for mode, dynamic in MODES.items():
            facts |= _facts(mode, _played(build, dtype, dynamic))
    return facts


def _facts(mode: str, told: Told) -> Facts:
    facts: Facts = {
        f"shapes.compiled.{mode}": told.compiled,
        f"shapes.breaks.{mode}": len(told.seen.breaks),
        f"shapes.eager.{mode}": told.eager,
        f"shapes.limit.{mode}": told.limit,
    }
    for name, texts in (("reason", told.reasons), ("break", list(dict.fromkeys(told.seen.breaks)))):
        facts |= {f"shapes.{name}.{mode}.{index}": text for index, text in enumerate(texts, 1)}
    guards = told.seen.guards + Counter(SYMBOLIC=told.seen.relations)
    return facts | {f"shapes.guard.{mode}.{kind}": count for kind, count in guards.items()}


def _played(build: Build, dtype: torch.dtype, dynamic: bool | None) -> Told:
    told, runs = Told(), Counter[str]()
    torch._dynamo.reset()
    torch.manual_seed(0)
    function, args = build(torch.device("cpu"), dtype, "small")
    compiled = torch.compile(function, dynamic=dynamic, backend=_backend(runs, lowers=dynamic is not False))
    with watching(told.seen), _watching_limit(told), recording(Captured(has_loads=False), run=False):
        for size in SCRIPT:
            dynamo_utils.clear_compilation_metrics()
            runs.clear()
            compiled(*_resized(args, size))
            told.eager += not runs
            frames = [frame for frame in dynamo_utils.get_compilation_metrics() if not frame.fail_reason]
            told.compiled.append(len(frames))
            told.reasons += [_reason(frame.recompile_reason) for frame in frames if frame.recompile_reason]
    return told


def _backend(runs: Counter[str], *, lowers: bool) -> Callable[..., Any]:
    """Lowers a graph for its guards (where sizes are constants there are none), and runs it as it was captured."""

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        if lowers:
            compile_fx(module, inputs)

        def run(*args: Any) -> Any:
            runs["graph"] += 1
            return module.forward(*args)

        return run

    return backend


@contextmanager
def _watching_limit(told: Told) -> Iterator[None]:
    exceeds = convert_frame.exceeds_recompile_limit

    def watched(*args: Any, **kwargs: Any) -> Any:
        result = exceeds(*args, **kwargs)
        told.limit += bool(result[0])
        return result

    with mock.patch.object(convert_frame, "exceeds_recompile_limit", watched):
        yield


def _resized(args: tuple[Any, ...], size: int) -> list[Any]:
    """The inputs with `size` rows, wherever one has as many as the first."""
    rows = args[0].shape[0]

    def resized(arg: Any) -> Any:
        if not torch.is_tensor(arg) or arg.dim() == 0 or arg.shape[0] != rows:
            return arg
        return arg[torch.arange(size) % rows].clone()

    return [resized(arg) for arg in args]


def _reason(text: str) -> str:
    """Torch's reason for a recompile: the guard that failed and the user's line, without what differs by process."""
    guard, _, comment = text.splitlines()[0].partition("  # ")
    guard = _ADDRESS.sub("N", re.sub(r"^\d+/\d+: ", "", guard))
    place = _PLACE.search(comment)
    return f"{guard} ({place[1]})" if place else guard
