"""The modules of torch that are loaded when a line of a file runs, if only torch was imported
before the file.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator
from functools import lru_cache

from patchgate.lint.index.release import Release
from patchgate.lint.interpret.references import Presence, Reference, Usage

# Importing these packages loads no module of torch.
_APART = frozenset({"packaging", "numpy", "sympy", "typing_extensions", *sys.stdlib_module_names})
# Names by which a file may load a module that only an argument names.
_LOADERS = frozenset({"importlib", "pkgutil", "runpy", "__import__", "eval", "exec"})
_NEVER = 1 << 30
# The index knows all modules that these packages load, except those with computed names (COMPUTED);
# tests/torch compares both with torch. Modules inside the packages also load modules by calls.
PACKAGES = (
    "torch",
    "torch._dynamo",
    *(f"torch._inductor{each}" for each in ("", ".codegen", ".fx_passes", ".runtime")),
)
COMPUTED = (
    "torch._dynamo.polyfills.",
    "torch._inductor.custom_graph_pass",
    "torch._inductor.test_operators",
)


@lru_cache(maxsize=1)
def loads_from(tree: ast.Module) -> int:
    """The first line that imports another package or calls a function that is not Python's own.
    From there on, any module may be loaded.
    """
    apart = set(dir(builtins)) - _LOADERS
    for node in _run_at_import(tree):
        if isinstance(node, ast.Import):
            names = {alias.name.partition(".")[0] for alias in node.names}
            if names - _APART - {"torch"}:
                return node.lineno
            apart |= {alias.asname or alias.name.partition(".")[0] for alias in node.names} - {
                "torch"
            }
        elif isinstance(node, ast.ImportFrom):
            package = (node.module or "").partition(".")[0]
            if node.level or package not in _APART | {"torch"}:
                return node.lineno
            apart |= (
                {alias.asname or alias.name for alias in node.names}
                if package != "torch"
                else set()
            )
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).partition(".")[0]
            if called not in apart or called in _LOADERS:
                return node.lineno
        elif isinstance(node, (ast.Try, ast.With)):  # an error inside may be intended
            return node.lineno
    return _NEVER


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported, in order: everything but the bodies of
    functions.
    """
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in (*child.decorator_list, child.args):
                yield from _run_at_import(part)
                yield part
        elif not isinstance(child, ast.Lambda):
            yield from _run_at_import(child)


def unloaded_references(usage: Usage, release: Release) -> Iterator[Reference]:
    """The first submodule that the file reads as an attribute of its package before anything has
    imported it.

    Only code that certainly runs at import counts: when a function runs, everything may be loaded.
    """
    imported: set[str] = set()
    for reference in usage.references:
        if reference.presence is Presence.MISSING or reference.dotted not in release.modules():
            continue
        package = release.module(reference.owner)
        # A package may import the module on access. `torch` does so, and is not in the index.
        by_reading = reference.owner not in release.index.modules or (
            package is not None and package.has_getattr
        )
        if reference.kind == "module" or by_reading:
            if reference.dotted not in PACKAGES:
                return
            imported.add(reference.dotted)
        elif reference.dotted not in release.loaded_with(frozenset(imported)):
            if _runs_at_import(reference, usage) and reference.dotted.startswith(PACKAGES[1:]):
                yield reference
            return


def _runs_at_import(reference: Reference, usage: Usage) -> bool:
    is_certain = (
        reference.path == (0,) and reference.reachable and not reference.dotted.startswith(COMPUTED)
    )
    return reference.kind == "name" and is_certain and reference.span.line <= usage.loads_from
