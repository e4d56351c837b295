"""Keeps what every kernel of a compiled graph wrote, by the operation that it stands for.

Decides which buffers are intermediates: those that the generated module hands
to a kernel. Refuses to judge; only the first that differs is named.
"""

from __future__ import annotations

import ast
import dataclasses
from typing import Any
from unittest import mock

import torch
from torch._inductor.graph import GraphLowering

from patchgate.probe.compile.capture import Build, no_caches, standing_in
from patchgate.probe.numerics.numeric_metrics import share_differing
from patchgate.probe.numerics.outputs import made
from patchgate.probe.simulate.fake_device import Profile

_KEEP = "_patchgate_keep"
_kept: dict[str, torch.Tensor] = {}


def trace(build: Build, *, dtype: torch.dtype, dynamic: bool, profile: Profile, seeds: list[int], path: str) -> None:
    """Write to `path` the intermediates of the first seed, in the order of the graph's operations."""
    torch.set_num_threads(1)
    origins: dict[str, str] = {}
    codegen = GraphLowering.codegen

    def keeping(self: GraphLowering) -> Any:
        code, *rest = codegen(self)
        origins.update(_origins(self))
        return (dataclasses.replace(code, value=_instrumented(code.value)), *rest)

    with torch.no_grad(), no_caches(), standing_in(profile | {"threads": 1}):
        module, args = made(build, dtype, seeds[0], profile)
        with mock.patch.object(GraphLowering, "codegen", keeping):
            torch.compile(module, dynamic=dynamic)(*args)
    torch.save({origins[name]: tensor for name, tensor in _kept.items() if name in origins}, path)


def first_parted(unpatched: str, patched: str) -> dict[str, Any]:
    """The first operation, in the graph's order, that both sides store and whose bits differ; "" for none."""
    ours, theirs = (torch.load(path, weights_only=True) for path in (unpatched, patched))
    both = sorted(ours.keys() & theirs.keys())
    parted = [name for name in both if share_differing([ours[name]], [theirs[name]]) > 0]
    only = sorted(theirs.keys() - ours.keys())
    told = _shown(parted[0]) if parted else ""
    if told and only:
        told += f"; only the patched side stores {', '.join(map(_shown, only[:3]))}"
    return {"parted": told}


def _shown(name: str) -> str:
    return name.partition(" ")[2]


def keep(**buffers: Any) -> None:
    """Called by the generated code, after each kernel: a buffer is new when it is seen first."""
    for name, buffer in buffers.items():
        if isinstance(buffer, torch.Tensor) and name not in _kept:
            _kept[name] = buffer.detach().clone().cpu()


def _origins(graph: GraphLowering) -> dict[str, str]:
    """Buffer -> its operation, led by the operation's place in the graph so that names sort."""
    places = {node.name: place for place, node in enumerate(graph.graph.nodes)}
    found = {}
    for name, buffer in graph.name_to_buffer.items():
        node = buffer.get_origin_node() if hasattr(buffer, "get_origin_node") else None
        if node is not None and node.name in places:
            found[name] = f"{places[node.name]:06d} {node.name}{_line_of(node)}"
    return found


def _line_of(node: torch.fx.Node) -> str:
    """The user's line that an operation comes from, where torch has kept it."""
    lines = (node.meta.get("stack_trace") or "").strip().splitlines()
    return f" (`{lines[-1].strip()}`)" if lines else ""


def _instrumented(source: str) -> str:
    """The generated module, with a call of `keep` after every kernel in its `call`."""
    tree = ast.parse(source)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name == "call":
            for node in ast.walk(function):
                body = getattr(node, "body", None)
                if isinstance(body, list):
                    node.body = [kept for statement in body for kept in _followed(statement)]  # type: ignore[attr-defined]
    return f"from {__name__} import keep as {_KEEP}\n" + ast.unparse(tree) + "\n"


def _followed(statement: ast.stmt) -> list[ast.stmt]:
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return [statement]
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id.startswith("buf")}
    if not names:
        return [statement]
    return [statement, *ast.parse(f"{_KEEP}({', '.join(f'{name}={name}' for name in sorted(names))})").body]
