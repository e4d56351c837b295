"""Which modules of torch are loaded when a line of a file runs, as the file is imported beside nothing but torch."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator
from functools import lru_cache

from patchgate.lint.index.release import Release
from patchgate.lint.interpret.references import Presence, Reference, Usage

# What loads no module of torch.
_APART = frozenset({"packaging", "numpy", "sympy", "typing_extensions", *sys.stdlib_module_names})
# What loads a module that only its argument names.
_LOADERS = frozenset({"importlib", "pkgutil", "runpy", "__import__", "eval", "exec"})
_NEVER = 1 << 30
# Where the index has every import that runs with a package, but for these, which are imported by computed names.
_KNOWN = ("torch", "torch._inductor", "torch._dynamo")
_COMPUTED = ("torch._dynamo.polyfills.", "torch._inductor.custom_graph_pass", "torch._inductor.test_operators")


@lru_cache(maxsize=64)
def loads_from(tree: ast.Module) -> int:
    """The first line that imports another package or calls what is not Python's own: these may load anything."""
    apart = set(dir(builtins)) - _LOADERS
    for node in _run_at_import(tree):
        if isinstance(node, ast.Import):
            names = {alias.name.partition(".")[0] for alias in node.names}
            if names - _APART - {"torch"}:
                return node.lineno
            apart |= {alias.asname or alias.name.partition(".")[0] for alias in node.names} - {"torch"}
        elif isinstance(node, ast.ImportFrom):
            package = (node.module or "").partition(".")[0]
            if node.level or package not in _APART | {"torch"}:
                return node.lineno
            apart |= {alias.asname or alias.name for alias in node.names} if package != "torch" else set()
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).partition(".")[0]
            if called not in apart or called in _LOADERS:
                return node.lineno
        elif isinstance(node, (ast.Try, ast.With)):  # what is wrong inside may be meant to be
            return node.lineno
    return _NEVER


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What runs as the module is imported, in the order of its lines: everything but bodies of functions."""
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in (*child.decorator_list, child.args):
                yield from _run_at_import(part)
                yield part
        elif not isinstance(child, ast.Lambda):
            yield from _run_at_import(child)


def unloaded_references(usage: Usage, release: Release) -> Iterator[Reference]:
    """Submodules that the file reads as attributes of their package, and that nothing has imported by then.

    Only what runs for certain as the file is imported: a function may run when everything is loaded.
    """
    imported: set[str] = set()
    for reference in usage.references:
        if reference.presence is Presence.MISSING or reference.dotted not in release.modules():
            continue
        if ".".join(reference.dotted.split(".")[:2]) not in _KNOWN or reference.dotted.startswith(_COMPUTED):
            return
        package = release.module(reference.owner)
        if reference.kind == "module" or (package is not None and package.has_getattr):
            imported.add(reference.dotted)
        elif (
            reference.kind == "name"
            and reference.path == (0,)
            and reference.reachable
            and reference.span.line <= usage.loads_from
            and reference.dotted not in release.loaded_with(frozenset(imported))
        ):
            yield reference
            imported.add(reference.dotted)  # said once
