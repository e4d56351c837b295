"""Whether an environment variable that a patch sets can still have an effect.

Decides by the sources of the torch and Triton that are installed: who names
the variable, and whether that code has already run.
"""

from __future__ import annotations

import ast
import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

_PREFIXES = ("TORCH", "PYTORCH", "TRITON")


def without_effect(written: list[dict[str, Any]], patch: str) -> list[dict[str, Any]]:
    """The written variables of torch's that nothing reads, or that were read before the patch could set them."""
    found = []
    for effect in written:
        name = effect["name"]
        if effect["kind"] == "environment" and name.startswith(_PREFIXES):
            reason = _why_dead(name, after_torch=_imports_torch_before(patch, effect["line"]))
            if reason:
                found.append(effect | {"what": f"{name}: {reason}"})
    return found


def _imports_torch_before(patch: str, line: int | None) -> bool:
    tree = ast.parse(Path(patch).read_bytes())
    return any(
        isinstance(node, (ast.Import, ast.ImportFrom))
        and node.lineno < (line or 0)
        and any(name.split(".")[0] == "torch" for name in _modules(node))
        for node in tree.body
    )


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]


def _why_dead(name: str, *, after_torch: bool) -> str | None:
    readers = list(_python_files(name))
    if not readers:
        return None if _in_libraries(name) else f"nothing in torch {torch.__version__} or Triton reads it"
    if not after_torch or not all(_only_at_import(path, name) for path in readers):
        return None
    loaded = {getattr(module, "__file__", None): module_name for module_name, module in list(sys.modules.items())}
    early = [loaded[str(path)] for path in readers if str(path) in loaded]
    if len(early) == len(readers):
        return f"read only when {', '.join(sorted(early)[:3])} is imported, which was before"
    return None


def _folders() -> Iterator[Path]:
    yield Path(torch.__file__).parent
    triton = sys.modules.get("triton")
    if triton is not None and triton.__file__:
        yield Path(triton.__file__).parent


def _python_files(name: str) -> Iterator[Path]:
    wanted = name.encode()
    for folder in _folders():
        for path in folder.rglob("*.py"):
            if wanted in path.read_bytes() and _constants(path, name):
                yield path


def _constants(path: Path, name: str) -> list[bool]:
    """For each string of the file that is `name`: whether it stands inside a function."""

    def walk(node: ast.AST, inside: bool) -> Iterator[bool]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Constant) and isinstance(child.value, str) and child.value == name:
                yield inside
            function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from walk(child, inside or function)

    return list(walk(ast.parse(path.read_bytes()), inside=False))


def _only_at_import(path: Path, name: str) -> bool:
    return not any(_constants(path, name))


def _in_libraries(name: str) -> bool:
    for folder in _folders():
        for path in folder.rglob("*.so*"):
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
                if text.find(name.encode()) >= 0:
                    return True
    return False
