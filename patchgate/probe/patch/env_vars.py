"""Finds the environment variables that a patch sets without any effect.

It reads the sources of the installed torch and Triton: which files name the variable, and whether they have run.
"""

from __future__ import annotations

import ast
import mmap
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from patchgate.probe.protocol import Effect

# Other variables are not torch's or Triton's to read.
_PREFIXES = ("TORCH", "PYTORCH", "TRITON")


def without_effect(written: list[Effect], patch: str) -> list[Effect]:
    """Of the effects, the variables of torch that nothing reads, or that were read before the patch could set them."""
    dead: list[Effect] = []
    for effect in written:
        name = effect["name"]
        if effect["kind"] == "environment" and name.startswith(_PREFIXES):
            reason = _why_dead(name, after_torch=_imports_torch_before(patch, effect["line"]))
            if reason:
                dead.append({**effect, "what": f"{name}: {reason}"})
    return dead


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
    if not after_torch or any(any(_is_in_function(path, name)) for path in readers):
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
            if wanted in path.read_bytes() and _is_in_function(path, name):
                yield path


def _is_in_function(path: Path, name: str) -> list[bool]:
    """For each string of the file that is `name`: whether it is inside a function, which runs after the import."""

    def walk(node: ast.AST, inside: bool) -> Iterator[bool]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Constant) and isinstance(child.value, str) and child.value == name:
                yield inside
            function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from walk(child, inside or function)

    return list(walk(ast.parse(path.read_bytes()), inside=False))


def _in_libraries(name: str) -> bool:
    for folder in _folders():
        for path in folder.rglob("*.so*"):
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
                if text.find(name.encode()) >= 0:
                    return True
    return False
