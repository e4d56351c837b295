"""Equivalent variants of a workload: static and dynamic shapes, single rows, a graph in pieces, the
workload's own.

Rows are compared only where eager in float64 confirms that each gives its own result.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.passes.split_module import split_module

from patchgate.probe.compile.observe import environment, load_build
from patchgate.probe.numerics.numeric_metrics import Outputs, distance, load_files, share_differing
from patchgate.probe.numerics.outputs import (
    build_seeded,
    in_float64,
    reproducible,
    save_outputs,
    tensors,
)
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.protocol import Completed, Run, Stage

ROWS = 4
# Largest relative difference in float64 at which rows count as independent: some thousand
# roundings.
_SAME = 1e-12


def run_variants(request: Run, stage: Stage) -> Completed:
    """Write what each variant gives as (plain outputs, its own), and eager and float64 outputs.

    With a patch, which may never meet float64, rows count as independent if float64 fails.
    """
    apply_patch(request, stage)
    stage("run")
    build, dynamic = load_build(request), request["dynamic"]
    with reproducible(request["profile"]):
        module, args = build_seeded(build, request, request["seeds"][0])
        plain = tensors(torch.compile(module, dynamic=dynamic)(*args))
        torch._dynamo.reset()
        other = tensors(torch.compile(module, dynamic=not dynamic)(*args))
        torch._dynamo.reset()
        pieces = tensors(torch.compile(module, dynamic=dynamic, backend=_in_pieces)(*args))
        variants = {
            "static and dynamic shapes": (plain, other),
            "whole graph and pieces": (plain, pieces),
        }
        for name, variant in getattr(sys.modules[build.__module__], "FORMS", {}).items():
            torch._dynamo.reset()
            function, inputs = build_seeded(variant, request, request["seeds"][0])
            variants[name] = (plain, tensors(torch.compile(function, dynamic=dynamic)(*inputs)))
        reference, by_row = _reference(module, args, exact=not request.get("patch"))
        if by_row:
            torch._dynamo.reset()
            rows = _row_by_row(torch.compile(module), args)
            variants["batch and single rows"] = ([t[:ROWS] for t in plain], rows)
    eager = tensors(module(*args))
    written = {"forms": variants, "eager": eager, "plain": plain, "reference": reference}
    save_outputs(written, request["outputs"])
    return {"environment": environment()}


def _reference(module: Any, args: tuple[Any, ...], *, exact: bool) -> tuple[Outputs, bool]:
    """Outputs in float64, and whether its rows are independent; unless `exact`, it may fail."""
    wide, wide_args = in_float64(module, args)
    try:
        reference = tensors(wide(*wide_args))
        return reference, _rows_are_independent(wide, wide_args, reference)
    except Exception:
        if exact:
            raise
        return [], True


def differ_variants(unpatched: str, patched: str) -> dict[str, Any]:
    """Variant -> how far its two outputs differ on each side; and the larger error of eager and
    unpatched.
    """
    ours, theirs = load_files(unpatched, patched)
    metrics = {
        name: {
            side: {"differing": share_differing(*pair), "distance": distance(*pair)}
            for side, pair in (
                ("unpatched", pair),
                ("patched", theirs["forms"].get(name, (pair[0], []))),
            )
        }
        for name, pair in ours["forms"].items()
    }
    errors = [distance(ours[side], ours["reference"]) for side in ("eager", "plain")]
    return {"forms": metrics, "error": max(errors)}


def _in_pieces(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    """Cut the graph in the middle and compile each half by itself, as serving engines do around
    attention.
    """
    nodes = [node for node in module.graph.nodes if node.op not in ("placeholder", "output")]
    first = set(nodes[: len(nodes) // 2])
    halves = split_module(module, None, lambda node: 0 if node in first else 1)
    for name, half in list(halves.named_children()):
        _LazyGraphModule.force_recompile(
            half
        )  # Dynamo does not look into a forward that is not generated yet
        setattr(halves, name, torch.compile(half, fullgraph=True))
    return halves


def _row_by_row(module: Any, args: tuple[Any, ...]) -> Outputs:
    first, *rest = args
    rows = [tensors(module(first[i : i + 1], *rest)) for i in range(ROWS)]
    return [torch.cat(column) for column in zip(*rows, strict=True)]


def _rows_are_independent(module: Any, args: tuple[Any, ...], reference: Outputs) -> bool:
    """True if each row of the first input alone gives a row of every output, as tried in
    float64.
    """
    if not isinstance(args[0], torch.Tensor) or args[0].dim() < 2 or args[0].shape[0] < ROWS:
        return False
    if any(t.dim() == 0 or t.shape[0] != args[0].shape[0] for t in reference):
        return False
    try:
        rows = _row_by_row(module, args)
    except (RuntimeError, ValueError):
        return False
    expected = [t[:ROWS] for t in reference]
    return [t.shape for t in rows] == [t.shape for t in expected] and distance(
        rows, expected
    ) < _SAME
