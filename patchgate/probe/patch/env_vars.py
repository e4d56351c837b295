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
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


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
    """Why the variable has no effect; None where it may have one. `after_torch`: torch was imported before."""
    readers = _readers(name)
    if not readers:
        return None if _in_libraries(name) else f"nothing in torch {torch.__version__} or Triton reads it"
    if not after_torch or any(readers.values()):
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


def _readers(name: str) -> dict[Path, bool]:
    """Python file that has the string `name` -> whether a function has it, which runs after the file's import."""
    readers = {}
    for path in (path for folder in _folders() for path in folder.rglob("*.py")):
        source = path.read_bytes()
        tree = ast.parse(source) if name.encode() in source else None
        if tree is not None and _has_string(tree, name):
            functions = (node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))
            readers[path] = any(_has_string(function, name) for function in functions)
    return readers


def _has_string(tree: ast.AST, text: str) -> bool:
    return any(isinstance(node, ast.Constant) and node.value == text for node in ast.walk(tree))


def _in_libraries(name: str) -> bool:
    for path in (path for folder in _folders() for path in folder.rglob("*.so*")):
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            if text.find(name.encode()) >= 0:
                return True
    return False
