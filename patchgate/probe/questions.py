"""The questions that the probe answers, each with the types of its request and its answer.

A new one is an entry here and a function of that type in `patchgate.probe.serve.answers`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict, TypeVar

from patchgate.probe import protocol as wire

_R = TypeVar("_R")
_A = TypeVar("_A")
_Handler = Callable[[_R, wire.Stage], _A]

#: Question -> the function that answers it: request -> answer.
Questions = TypedDict(
    "Questions",
    {
        "sentinel": _Handler[wire.Patched, wire.Sentinel],
        "observe": _Handler[wire.Observe, wire.Observed],
        "code": _Handler[wire.ReadCode, wire.OptionFacts],
        "failing stage": _Handler[wire.FindStage, wire.FailingStage],
        "shapes": _Handler[wire.Observe, wire.ShapeFacts],
        "options": _Handler[wire.Observe, wire.OptionFacts],
        "kernels": _Handler[wire.Compile, wire.Kernels],
        "cached": _Handler[wire.CompileCached, wire.Cached],
        "recompiles": _Handler[wire.Compile, wire.Recompiles],
        "calls": _Handler[wire.CountCalls, wire.Calls],
        "time": _Handler[wire.Time, wire.Times],
        "run": _Handler[wire.Run, wire.Ran],
        "offers": _Handler[wire.RunOffers, wire.Offered],
        "plain run": _Handler[wire.Run, wire.RanPlainly],
        "forms": _Handler[wire.Run, wire.Completed],
        "trace": _Handler[wire.Run, wire.Completed],
        "sample": _Handler[wire.Sample, wire.Completed],
        "operators": _Handler[wire.RunOperators, wire.Operators],
        "ranks": _Handler[wire.Sample, wire.Ranks],
        "differ": _Handler[wire.Compare, wire.Compared],
        "differ runs": _Handler[wire.Compare, wire.Compared],
        "differ forms": _Handler[wire.Compare, wire.Compared],
        "differ traces": _Handler[wire.Compare, wire.Compared],
        "differ samples": _Handler[wire.Compare, wire.Compared],
        "differ tokens": _Handler[wire.Compare, wire.Compared],
        "apply": _Handler[wire.Apply, wire.Applied],
        "applies": _Handler[wire.ApplyEach, wire.ChangesByVersion],
        "stand-ins": _Handler[wire.Patched, wire.StandIns],
        "new interpreter": _Handler[wire.RunAnew, wire.RunAnewResult],
        "surface": _Handler[wire.InspectSurface, wire.Surface],
        "undone": _Handler[wire.FindUndone, wire.Undone],
        "hooks": _Handler[wire.Patched, wire.Hooks],
        "functions": _Handler[wire.ReadPatch, wire.Functions],
    },
)
