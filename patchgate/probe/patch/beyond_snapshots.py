"""Looks for effects of a patch that snapshots do not show: inside objects of torch, in
thread-locals, and in C++.

Objects are searched for the patch's own code. Changes in C++ leave no trace, so the
patch's calls of torch are listed.
"""

from __future__ import annotations

import ast
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any

from patchgate.probe.patch.module_name import top_level

# How deep an object is searched: the handler of a pattern in a list of passes lies six deep.
_DEPTH = 7
_TORCH = ("torch", "triton")
_LEAVES = (int, float, str, bytes, complex, type(None), ModuleType, BuiltinFunctionType)


def held_by_torch(package: str) -> dict[int, tuple[str, Any]]:
    """The functions, classes and instances of a package that torch holds: identity -> the shortest
    name that leads there, and the object.
    """
    held: dict[int, tuple[str, Any]] = {}
    seen = _of_the_standard_library()
    # Breadth first, so that each object is named by its shortest path.
    todo = deque(
        (value, f"{name}.{key}", 1)
        for name, owner in list(sys.modules.items())
        if top_level(name) in _TORCH and isinstance(owner, ModuleType)
        for key, value in list(vars(owner).items())
    )
    while todo:
        value, name, depth = todo.popleft()
        if isinstance(value, _LEAVES) or id(value) in seen:
            continue
        seen.add(id(value))
        kind = value if isinstance(value, (type, FunctionType)) else type(value)
        if top_level(str(kind.__module__)) == package:
            held[id(value)] = name, value
        elif depth < _DEPTH and kind is not value:
            todo += [(item, f"{name}{step}", depth + 1) for step, item in _parts(value)]
    return held


def _of_the_standard_library() -> set[int]:
    """Objects of the standard library's modules, by identity. They must not be searched: torch.fx
    holds all of `typing`, which knows the overloads of every package.
    """
    modules = list(sys.modules.items())
    owners = (module for name, module in modules if top_level(name) in sys.stdlib_module_names)
    return {id(value) for owner in owners for value in [*getattr(owner, "__dict__", {}).values()]}


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    """The parts of an object of torch or of a container, with the step that leads to each."""
    if isinstance(value, dict):
        return [("[]", item) for item in list(value.values())]
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return [("[]", item) for item in list(value)]
    if isinstance(value, threading.local):
        return [(f".{key}", item) for key, item in vars(value).items()]
    if top_level(type(value).__module__) in _TORCH:
        return [(f".{key}", item) for key, item in list(getattr(value, "__dict__", {}).items())]
    return ()


@contextmanager
def recording_calls(path: str | None) -> Iterator[list[str]]:
    """Record each function of torch that the patch calls for its effect. Without a path,
    record nothing.

    A call is for its effect if the patch drops the result, or uses it as a decorator or a context.
    """
    names: list[str] = []
    if path is None:
        yield names
        return
    lines, called = _effect_lines(path), dict[str, None]()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        caller: Any = {"call": frame.f_back, "c_call": frame}.get(event)
        if not caller or caller.f_code.co_filename != path or caller.f_lineno not in lines:
            return
        module, name = frame.f_globals.get("__name__"), frame.f_code.co_name
        if event == "c_call":
            module = getattr(argument, "__module__", None)
            name = getattr(argument, "__name__", "")
        if top_level(str(module)) in _TORCH:
            called[f"{module}.{name}"] = None

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield names
    finally:
        sys.setprofile(before)
        names += called


def _effect_lines(path: str) -> set[int]:
    with open(path, "rb") as file:
        tree = ast.parse(file.read())
    nodes: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            nodes.append(node.value)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            nodes += [item.context_expr for item in node.items]
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            nodes += node.decorator_list
    return {
        line for node in nodes for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
