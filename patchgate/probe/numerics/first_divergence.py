"""The first operation of a compiled graph whose stored result differs between the sides.

Each side writes the results that its kernels store, by operation. The results are the buffers that
the generated module passes to kernels.
"""

from __future__ import annotations

import ast
import dataclasses
from typing import Any
from unittest import mock

import torch
from torch._inductor.graph import GraphLowering

from patchgate.probe.compile.observe import environment, load_build
from patchgate.probe.numerics.numeric_metrics import load_files, share_differing
from patchgate.probe.numerics.outputs import build_seeded, reproducible, save_outputs
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.protocol import Completed, Run, Stage

_KEEP = "_keep_buffer"
_stored: dict[str, torch.Tensor] = {}  # buffer -> what was stored in it first


def trace(request: Run, stage: Stage) -> Completed:
    """Write the intermediates of the first seed, in the order of the graph's operations."""
    apply_patch(request, stage)
    stage("run")
    origins: dict[str, str] = {}
    codegen = GraphLowering.codegen

    def instrumented_codegen(self: GraphLowering) -> Any:
        code, *rest = codegen(self)
        origins.update(_origins(self))
        return (dataclasses.replace(code, value=_instrument(code.value)), *rest)

    with reproducible(request["profile"]):
        module, args = build_seeded(load_build(request), request, request["seeds"][0])
        with mock.patch.object(GraphLowering, "codegen", instrumented_codegen):
            torch.compile(module, dynamic=request["dynamic"])(*args)
    known = {origins[name]: tensor for name, tensor in _stored.items() if name in origins}
    save_outputs(known, request["outputs"])
    return {"environment": environment()}


def diverging_operation(unpatched: str, patched: str) -> dict[str, Any]:
    """The first operation, in the graph's order, whose result both sides store with different bits;
    "" if there is none.
    """
    ours, theirs = load_files(unpatched, patched)
    both = sorted(ours.keys() & theirs.keys())
    differing = [name for name in both if share_differing([ours[name]], [theirs[name]]) > 0]
    if not differing:
        return {"diverges_at": ""}
    new = sorted(theirs.keys() - ours.keys())[:3]
    stores = f"; only the patched side stores {', '.join(map(_without_place, new))}" if new else ""
    return {"diverges_at": _without_place(differing[0]) + stores}


def _without_place(name: str) -> str:
    return name.partition(" ")[2]


def keep(**buffers: Any) -> None:
    """Store each buffer when it is first passed. Generated code calls this after each kernel."""
    for name, buffer in buffers.items():
        if isinstance(buffer, torch.Tensor) and name not in _stored:
            _stored[name] = buffer.detach().clone().cpu()


def _origins(graph: GraphLowering) -> dict[str, str]:
    """Buffer -> its operation. The operation's place in the graph stands in front, so that names
    sort in the graph's order.
    """
    places = {node.name: place for place, node in enumerate(graph.graph.nodes)}
    origins = {}
    for name, buffer in graph.name_to_buffer.items():
        node = buffer.get_origin_node() if hasattr(buffer, "get_origin_node") else None
        if node is not None and node.name in places:
            origins[name] = f"{places[node.name]:06d} {node.name}{_source_line(node)}"
    return origins


def _source_line(node: torch.fx.Node) -> str:
    """The user's line that an operation comes from, if torch has recorded it."""
    lines = (node.meta.get("stack_trace") or "").strip().splitlines()
    return f" (`{lines[-1].strip()}`)" if lines else ""


def _instrument(source: str) -> str:
    """The generated module, with a call of `keep` after every kernel in its `call`."""
    tree = ast.parse(source)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name == "call":
            for node in ast.walk(function):
                body = getattr(node, "body", None)
                if isinstance(body, list):
                    node.body = [line for statement in body for line in _with_keep(statement)]  # type: ignore[attr-defined]
    return f"from {__name__} import keep as {_KEEP}\n" + ast.unparse(tree) + "\n"


def _with_keep(statement: ast.stmt) -> list[ast.stmt]:
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return [statement]
    names = {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and node.id.startswith("buf")
    }
    if not names:
        return [statement]
    return [
        statement,
        *ast.parse(f"{_KEEP}({', '.join(f'{name}={name}' for name in sorted(names))})").body,
    ]
