"""Equivalent variants of a workload: static and dynamic shapes, single rows, a graph in pieces, and
the workload's own variants.

Rows are compared only if float64 in eager mode confirms that each row gives its own result.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import torch
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.passes.split_module import split_module

from patchgate.probe.compile.observe import environment, load_build
from patchgate.probe.numerics.numeric_metrics import Outputs, distance, load_files, share_differing
from patchgate.probe.numerics.outputs import (
    backend_of,
    build_seeded,
    in_float64,
    reproducible,
    save_outputs,
    tensors,
    unmeasured,
)
from patchgate.probe.protocol import Function, Interpreted, Run, Stage

# The fewest rows of an input that is run row by row, and the most rows that are run.
_FEWEST, _MOST = 4, 16
# The number of heads with random weights that choose a token for a row, and each head's tokens.
_HEADS, _VOCABULARY = 64, 128
# The largest relative difference in float64 at which rows count as independent: a few thousand
# roundings.
_SAME = 1e-12


def run_variants(request: Run, stage: Stage) -> Interpreted:
    """Write the plain outputs with the outputs of each variant, and the outputs in eager mode and
    in float64.

    With a patch, rows count as independent if float64 fails: the patch may not support float64.
    """
    missing = unmeasured(request, stage, partial(_write_variants, request))
    return {"environment": environment(), "unmeasured": missing}


def _write_variants(request: Run) -> None:
    build, dynamic = load_build(request), request["dynamic"]
    with reproducible(request["profile"]):
        compiled = partial(torch.compile, backend=backend_of(request["profile"], {}))
        module, args = build_seeded(build, request, request["seeds"][0])
        plain = tensors(compiled(module, dynamic=dynamic)(*args))
        torch._dynamo.reset()
        other = tensors(compiled(module, dynamic=not dynamic)(*args))
        torch._dynamo.reset()
        in_pieces = partial(_in_pieces, compiled)
        pieces = tensors(torch.compile(module, dynamic=dynamic, backend=in_pieces)(*args))
        variants = {
            "static and dynamic shapes": (plain, other),
            "whole graph and pieces": (plain, pieces),
        }
        for name, variant in getattr(sys.modules[build.__module__], "FORMS", {}).items():
            torch._dynamo.reset()
            function, inputs = build_seeded(variant, request, request["seeds"][0])
            variants[name] = (plain, tensors(compiled(function, dynamic=dynamic)(*inputs)))
        reference, by_row = _reference(module, args, exact=not request.get("patch"))
        if by_row:
            torch._dynamo.reset()
            rows = _row_by_row(compiled(module), args)
            variants["batch and single rows"] = ([t[:_MOST] for t in plain], rows)
    eager = tensors(module(*args))
    written = {"forms": variants, "eager": eager, "plain": plain, "reference": reference}
    save_outputs(written, request["outputs"])


def _reference(module: Any, args: tuple[Any, ...], *, exact: bool) -> tuple[Outputs, bool]:
    """Outputs in float64, and True if rows are independent. Without `exact`, float64 may fail: then
    there are no outputs, and rows count as independent.
    """
    wide, wide_args = in_float64(module, args)
    try:
        reference = tensors(wide(*wide_args))
        return reference, _rows_are_independent(wide, wide_args, reference)
    except Exception:
        if exact:
            raise
        return [], True


def differ_variants(unpatched: str, patched: str) -> dict[str, Any]:
    """Variant -> the difference of its two outputs on each side; and the error of eager mode or of
    unpatched code, whichever is larger.
    """
    ours, theirs = load_files(unpatched, patched)
    metrics = {
        name: {
            "unpatched": _difference(*pair),
            "patched": _difference(*theirs["forms"].get(name, (pair[0], []))),
        }
        for name, pair in ours["forms"].items()
    }
    errors = [distance(ours[side], ours["reference"]) for side in ("eager", "plain")]
    return {"forms": metrics, "error": max(errors)}


def _difference(one: Outputs, other: Outputs) -> dict[str, float]:
    """The difference of two outputs, the number of tokens that heads draw from them, and the number
    of these tokens that change.
    """
    drawn = [_tokens(outputs) for outputs in (one, other)]
    changed = len(drawn[0]) if drawn[0].shape != drawn[1].shape else (drawn[0] != drawn[1]).sum()
    return {
        "differing": share_differing(one, other),
        "distance": distance(one, other),
        "tokens": len(drawn[0]),
        "changed_tokens": int(changed),
    }


def _tokens(outputs: Outputs) -> torch.Tensor:
    """The likeliest token of each head for each of the first rows of the outputs."""
    drawn = [torch.zeros(0, dtype=torch.int64)]
    for tensor in outputs:
        if tensor.is_floating_point() and tensor.dim() and tensor.numel():
            rows = tensor.reshape(-1, tensor.shape[-1])[:_MOST].float()
            weights = torch.Generator().manual_seed(0)
            heads = torch.randn(rows.shape[1], _HEADS * _VOCABULARY, generator=weights)
            drawn.append((rows @ heads).view(-1, _VOCABULARY).argmax(-1))
    return torch.cat(drawn)


def _in_pieces(compiled: Function, module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    """Cut the graph in the middle and compile each half by itself, as serving engines cut graphs
    around attention.
    """
    nodes = [node for node in module.graph.nodes if node.op not in ("placeholder", "output")]
    first = set(nodes[: len(nodes) // 2])
    halves = split_module(module, None, lambda node: 0 if node in first else 1)
    for name, half in list(halves.named_children()):
        _LazyGraphModule.force_recompile(
            half
        )  # Dynamo does not look into a forward that is not generated yet
        setattr(halves, name, compiled(half, fullgraph=True))
    return halves


def _row_by_row(module: Any, args: tuple[Any, ...]) -> Outputs:
    first, *rest = args
    count = min(first.shape[0], _MOST)
    rows = [tensors(module(first[i : i + 1], *rest)) for i in range(count)]
    return [torch.cat(column) for column in zip(*rows, strict=True)]


def _rows_are_independent(module: Any, args: tuple[Any, ...], reference: Outputs) -> bool:
    """True if in float64 each row of the first input, run alone, gives its row of every output."""
    if not isinstance(args[0], torch.Tensor) or args[0].dim() < 2 or args[0].shape[0] < _FEWEST:
        return False
    if any(t.dim() == 0 or t.shape[0] != args[0].shape[0] for t in reference):
        return False
    try:
        rows = _row_by_row(module, args)
    except (RuntimeError, ValueError):
        return False
    expected = [t[:_MOST] for t in reference]
    return [t.shape for t in rows] == [t.shape for t in expected] and distance(
        rows, expected
    ) < _SAME
