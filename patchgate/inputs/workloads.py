"""Workload files -> `Workload` records, one for each variant.

A file is read as text: only the probe imports torch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchgate.model.errors import UsageError
from patchgate.model.paths import PACKAGE, WORKLOADS, shown
from patchgate.model.records import Workload

_WORKLOAD = frozenset({"DTYPE", "VARIANTS", "PREMERGE", "READS", "CHECKS", "TOKENS"})
_CHECKS = frozenset({"kernels", "parity", "equivalence", "latency", "compile_cost", "cache", "recompile"})

# What torch.compile can be told: facts of no workload, but of the compiler itself.
OPTIONS = Workload(name="options", path=str(PACKAGE / "probe" / "compile" / "options.py"), dtype="", asks="options")
_TUNED = "it runs every candidate kernel on the device and keeps the fastest"

# Variant -> fields of `Workload`.
VARIANTS: dict[str, dict[str, Any]] = {
    "static": {},
    "dynamic": {"dynamic": True},
    "dynamic-batch": {"dynamic_dim": 0},
    "dynamic-sequence": {"dynamic_dim": 1},
    "training": {"training": True},
    "bfloat16": {"dtype": "bfloat16"},
    "float16": {"dtype": "float16"},
    "float32": {"dtype": "float32"},
    "reduce-overhead": {"mode": "reduce-overhead"},
    "shapes": {"asks": "shapes"},
    "max-autotune": {"mode": "max-autotune", "needs_device": _TUNED},
    "max-autotune-no-cudagraphs": {"mode": "max-autotune-no-cudagraphs", "needs_device": _TUNED},
}
# These have numbers to compare on the CPU; caches are asked of a file once, latency once in each mode.
_WITH_NUMBERS = {"bfloat16", "float16", "float32", "training"}
_WHOLE = {"static", "dynamic"}
_MODES = {"reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"}


def load_workloads(folder: Path = WORKLOADS) -> dict[str, Workload]:
    """Every workload of `folder` by name; its variants are called `<file>_<variant>`.

    Raises UsageError where a file's constants do not hold together.
    """
    return {w.name: w for path in sorted(folder.glob("*.py")) for w in _workloads(path)}


def workloads_with(patch: Path) -> dict[str, Workload]:
    """Ours, and those that a patch brings along: `workloads` in its folder, or beside its file."""
    return load_workloads() | load_workloads((patch if patch.is_dir() else patch.parent) / "workloads")


def _workloads(path: Path) -> Iterator[Workload]:
    constants, has_build = _constants(path)
    checks, variants = tuple(constants.get("CHECKS", ())), tuple(constants.get("VARIANTS", ("static",)))
    premerge = tuple(constants.get("PREMERGE", ()))
    known = _CHECKS.issuperset(checks) and VARIANTS.keys() >= {*variants} >= {*premerge}
    if not has_build or "DTYPE" not in constants or not known:
        raise UsageError(
            "not a workload",
            where=shown(path),
            got=f"constants {constants}, build: {'yes' if has_build else 'no'}",
            next='define DTYPE = "bfloat16", CHECKS = ("kernels", "parity") and build(device, dtype, scale)',
        )
    for variant in variants:
        plain = Workload(
            name=name_of_variant(path.stem, variant),
            path=str(path.resolve()),
            dtype=constants["DTYPE"],
            reads=tuple(constants.get("READS", ())),
            checks=checks_of_variant(variant, checks),
            premerge=variant in premerge,
            tokens=tuple(constants.get("TOKENS", ())),
        )
        yield replace(plain, **VARIANTS[variant])


def _constants(path: Path) -> tuple[dict[str, Any], bool]:
    """The constants that this module reads, and whether there is a `build`."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise UsageError("not Python", where=f"{shown(path)}:{error.lineno}", got=error.msg) from None
    constants = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in _WORKLOAD:
            try:
                constants[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                raise UsageError(
                    "a constant of a workload must be a literal",
                    where=f"{shown(path)}:{node.lineno}",
                    got=ast.unparse(node),
                    next='DTYPE = "bfloat16"',
                ) from None
    return constants, any(isinstance(node, ast.FunctionDef) and node.name == "build" for node in tree.body)


def checks_of_variant(variant: str, checks: tuple[str, ...]) -> tuple[str, ...]:
    """Those of a file's checks that its variant gets."""
    if variant in _WHOLE:
        return checks
    if variant == "shapes":
        return ("shapes",)
    if variant in _MODES and "latency" in checks:
        return ("latency",)  # what a mode does to facts is asked of other files
    kept = {"kernels", "parity"} if variant in _WITH_NUMBERS else {"kernels"}
    return tuple(check for check in checks if check in kept)


def name_of_variant(stem: str, variant: str) -> str:
    """`prenorm_mlp`, `prenorm_mlp_dynamic`, `pointwise_max_autotune`."""
    return stem if variant == "static" else f"{stem}_{variant.replace('-', '_')}"
