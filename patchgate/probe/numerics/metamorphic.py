"""The same computation in other forms: other shapes' treatment, single rows, a graph in pieces, the workload's own.

Decides what each form is and when it is one: a form that eager in float64
does not confirm is left out. Refuses to compare.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

import torch
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.passes.split_module import split_module
from torch.utils import _pytree as pytree

from patchgate.probe.compile.capture import Build, no_caches, standing_in
from patchgate.probe.numerics.numeric_metrics import distance
from patchgate.probe.numerics.outputs import Outputs, as_float64, made, tensors
from patchgate.probe.simulate.fake_device import Profile

ROWS = 4
_SAME = 1e-12


def run_forms(
    build: Build, *, dtype: torch.dtype, dynamic: bool, profile: Profile, seeds: list[int], path: str
) -> None:
    """Write to `path` what each form gives, beside the plain one and eager's error against float64."""
    torch.set_num_threads(1)
    with torch.no_grad(), no_caches(), standing_in(profile | {"threads": 1}):
        module, args = made(build, dtype, seeds[0], profile)
        plain = tensors(torch.compile(module, dynamic=dynamic)(*args))
        torch._dynamo.reset()
        other = tensors(torch.compile(module, dynamic=not dynamic)(*args))
        torch._dynamo.reset()
        pieces = tensors(torch.compile(module, dynamic=dynamic, backend=_in_pieces)(*args))
        forms = {"static and dynamic shapes": (plain, other), "whole graph and pieces": (plain, pieces)}
        for name, form in getattr(sys.modules[build.__module__], "FORMS", {}).items():
            torch._dynamo.reset()
            changed, given = made(form, dtype, seeds[0], profile)
            forms[name] = (plain, tensors(torch.compile(changed, dynamic=dynamic)(*given)))
        exact, given = as_float64(copy.deepcopy(module)), pytree.tree_map(as_float64, args)
        reference = tensors(exact(*given))
        if _rows_are_independent(exact, given, reference):
            torch._dynamo.reset()
            forms["batch and single rows"] = ([t[:ROWS] for t in plain], _row_by_row(torch.compile(module), args))
    torch.save({"forms": forms, "eager": tensors(module(*args)), "plain": plain, "reference": reference}, path)


def _in_pieces(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    """Cut the graph in the middle and compile each half by itself, as serving engines do around attention."""
    nodes = [node for node in module.graph.nodes if node.op not in ("placeholder", "output")]
    first = set(nodes[: len(nodes) // 2])
    halves = split_module(module, None, lambda node: 0 if node in first else 1)
    for name, half in list(halves.named_children()):
        _LazyGraphModule.force_recompile(half)  # Dynamo does not look into a forward that is yet to be made
        setattr(halves, name, torch.compile(half, fullgraph=True))
    return halves


def _row_by_row(module: Any, args: tuple[Any, ...]) -> Outputs:
    first, *rest = args
    rows = [tensors(module(first[i : i + 1], *rest)) for i in range(ROWS)]
    return [torch.cat(column) for column in zip(*rows, strict=True)]


def _rows_are_independent(module: Any, args: tuple[Any, ...], reference: Outputs) -> bool:
    """Whether each row of the first input gives a row of every output: tried in float64, not believed."""
    if not isinstance(args[0], torch.Tensor) or args[0].dim() < 2 or args[0].shape[0] < ROWS:
        return False
    if any(t.dim() == 0 or t.shape[0] != args[0].shape[0] for t in reference):
        return False
    try:
        rows = _row_by_row(module, args)
    except (RuntimeError, ValueError):
        return False
    expected = [t[:ROWS] for t in reference]
    return [t.shape for t in rows] == [t.shape for t in expected] and distance(rows, expected) < _SAME
