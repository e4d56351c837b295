"""The name of a cell -> the verdicts of that cell on one torch release, by the suite's own functions.

Decides what `import`, `surface` or `kernels pointwise.cpu` in a corpus.toml
means. Refuses to know what ought to come out.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from patchgate.checks.context import Trial
from patchgate.checks.judge.effects import judge_effects
from patchgate.checks.judge.gate import does_not_run
from patchgate.checks.judge.reach import judge_holders, judge_hooks
from patchgate.model.paths import SUITE
from patchgate.model.records import Verdict
from patchgate.model.serialization import failure_of


@cache
def _suite(name: str) -> Any:
    """One file of the suite as a module: what a check does is written there and nowhere else."""
    spec = importlib.util.spec_from_file_location(f"patchgate_suite_{name}", SUITE / f"test_{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _import(torch: str, trial: Trial, _: str) -> Iterable[Verdict]:
    own = trial.apply(torch, version=torch)
    failure = failure_of(own)
    if failure:
        return [does_not_run(torch, failure, trial.patch, trial.again)]
    return list(judge_effects(torch, trial.patch, own, trial.claim("targets")))


def _gate(torch: str, trial: Trial, _: str) -> Iterable[Verdict]:
    found: Iterable[Verdict] = _suite("gate").applied(torch, trial.patch, trial)
    return found


def _outside(torch: str, trial: Trial, cases: str) -> Iterable[Verdict]:
    """`outside pointwise.cpu prenorm_mlp.h200`"""
    asked = [case.rpartition(".")[::2] for case in cases.split()]
    found: Iterable[Verdict] = _suite("gate").outside(torch, trial.patch, trial, asked)
    return found


def _symptom(torch: str, trial: Trial, _: str) -> Iterable[Verdict]:
    return [_suite("gate").shown(torch, trial.patch.claims.symptom, trial.patch, trial)]


def _surface(torch: str, trial: Trial, _: str) -> Iterable[Verdict]:
    found: Iterable[Verdict] = _suite("surface").inspected(torch, trial.patch, trial)
    return found


def _facts(check: str) -> Callable[[str, Trial, str], Iterable[Verdict]]:
    def judge(torch: str, trial: Trial, case: str) -> Iterable[Verdict]:
        workload, _, device = case.partition(".")
        return trial.facts(check, torch, device, workload)

    return judge


def _parity(torch: str, trial: Trial, workload: str) -> Iterable[Verdict]:
    with TemporaryDirectory(prefix="patchgate-") as folder:
        found: list[Verdict] = list(_suite("parity").compared(torch, "cpu", workload, trial.patch, trial, Path(folder)))
    return found


def _holders(torch: str, trial: Trial, _: str) -> Iterable[Verdict]:
    return list(judge_holders(torch, trial.patch, trial.apply(torch, version=torch)))


def _called(torch: str, trial: Trial, cases: str) -> Iterable[Verdict]:
    """`called pointwise.cpu prenorm_mlp.h200`"""
    asked = [case.rpartition(".")[::2] for case in cases.split()]
    found: Iterable[Verdict] = _suite("reach").called(torch, trial.patch, trial, asked)
    return list(found)


def _cache(torch: str, trial: Trial, workload: str) -> Iterable[Verdict]:
    with TemporaryDirectory(prefix="patchgate-") as folder:
        found: list[Verdict] = list(_suite("cache").shared(torch, workload, trial.patch, trial, Path(folder)))
    return found


def _compile(torch: str, trial: Trial, workload: str) -> Iterable[Verdict]:
    return [_suite("compile").counted(torch, workload, trial.patch, trial)]


def _recompile(torch: str, trial: Trial, workload: str) -> Iterable[Verdict]:
    found: Iterable[Verdict] = _suite("recompile").recompiled(torch, workload, trial.patch, trial)
    return found


def _latency(torch: str, trial: Trial, case: str) -> Iterable[Verdict]:
    """`latency residual_stack.cuda 4096`"""
    timed, _, size = case.partition(" ")
    workload, _, device = timed.partition(".")
    found: Iterable[Verdict] = _suite("latency").timed(torch, device, workload, size, trial.patch, trial)
    return found


def _together(torch: str, trial: Trial, case: str) -> Iterable[Verdict]:
    """`together residual_chain.cpu`"""
    found: Iterable[Verdict] = _suite("together").installed(torch, trial, [case.rpartition(".")[::2]])
    return list(found)


def _hooks(torch: str, trial: Trial, _: str) -> Iterable[Verdict]:
    return list(judge_hooks(torch, trial.patch, *trial.hooks(torch)))


# "lint" reads the patch once for all releases and is not asked here.
CELLS: dict[str, Callable[[str, Trial, str], Iterable[Verdict]] | None] = {
    "lint": None,
    "surface": _surface,
    "import": _import,
    "gate": _gate,
    "outside": _outside,
    "symptom": _symptom,
    "kernels": _facts("kernels"),
    "graph": _facts("graph"),
    "parity": _parity,
    "holders": _holders,
    "called": _called,
    "hooks": _hooks,
    "together": _together,
    "cache": _cache,
    "compile": _compile,
    "recompile": _recompile,
    "latency": _latency,
}


def judge_cell(cell: str, torch: str, trial: Trial) -> list[Verdict]:
    """The verdicts of one cell; none where the cell is judged without a torch."""
    name, _, argument = cell.partition(" ")
    ask = CELLS[name]
    return [] if ask is None else list(ask(torch, trial, argument))
