"""The questions that the probe answers, each with the types of its request and its answer.

A new one is an entry here and a function of that type in `patchgate.probe.serve.answers`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict, TypeVar

from patchgate.probe.protocol import (
    Applied,
    Apply,
    ApplyEach,
    Cached,
    Calls,
    ChangesByVersion,
    Compare,
    Compared,
    Compile,
    CompileCached,
    Completed,
    Costs,
    CountCalls,
    FailingStage,
    FindStage,
    FindUndone,
    Functions,
    Hooks,
    Inert,
    InspectSurface,
    Kernels,
    MeasureCosts,
    Observe,
    Observed,
    OptionFacts,
    Patched,
    Ran,
    Ranks,
    RanPlainly,
    ReadCode,
    ReadPatch,
    Recompiles,
    Run,
    RunAnew,
    RunAnewResult,
    Sample,
    Sentinel,
    ShapeFacts,
    Stage,
    Surface,
    Time,
    Times,
    Undone,
)

_R = TypeVar("_R")
_A = TypeVar("_A")
_Handler = Callable[[_R, Stage], _A]

#: Question -> the function that answers it: request -> answer.
Questions = TypedDict(
    "Questions",
    {
        "sentinel": _Handler[Patched, Sentinel],
        "observe": _Handler[Observe, Observed],
        "code": _Handler[ReadCode, OptionFacts],
        "failing stage": _Handler[FindStage, FailingStage],
        "shapes": _Handler[Observe, ShapeFacts],
        "options": _Handler[Observe, OptionFacts],
        "kernels": _Handler[Compile, Kernels],
        "cached": _Handler[CompileCached, Cached],
        "recompiles": _Handler[Compile, Recompiles],
        "calls": _Handler[CountCalls, Calls],
        "costs": _Handler[MeasureCosts, Costs],
        "time": _Handler[Time, Times],
        "run": _Handler[Run, Ran],
        "plain run": _Handler[Run, RanPlainly],
        "forms": _Handler[Run, Completed],
        "trace": _Handler[Run, Completed],
        "sample": _Handler[Sample, Completed],
        "ranks": _Handler[Sample, Ranks],
        "differ": _Handler[Compare, Compared],
        "differ runs": _Handler[Compare, Compared],
        "differ forms": _Handler[Compare, Compared],
        "differ traces": _Handler[Compare, Compared],
        "differ tokens": _Handler[Compare, Compared],
        "apply": _Handler[Apply, Applied],
        "applies": _Handler[ApplyEach, ChangesByVersion],
        "inert": _Handler[Patched, Inert],
        "new interpreter": _Handler[RunAnew, RunAnewResult],
        "surface": _Handler[InspectSurface, Surface],
        "undone": _Handler[FindUndone, Undone],
        "hooks": _Handler[Patched, Hooks],
        "functions": _Handler[ReadPatch, Functions],
    },
)
