"""Sources of one release -> records: which modules belong to the index, and what is read from each.

Decides the scope. Reads text and never imports it; refuses to know how records are kept.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchgate.lint.index.read_module import read_module
from patchgate.lint.index.records import CallSite, Module

SCOPE = (
    "torch._inductor",
    "torch._dynamo",
    "torch._functorch",
    "torch._subclasses",
    "torch._higher_order_ops",
    "torch.fx",
    "torch.utils",
    "torch.cuda",
    "torch.compiler",
    "torch._ops",
    "torch.library",
    "triton.runtime",
    "triton.compiler",
    "triton.backends",
)
# Of these only the package's own __init__, not what lies below it.
ALONE = ("triton",)


@dataclass(kw_only=True)
class Sources:
    """One release as read: its records, and for each module the calls in it as (name, call)."""

    version: str
    triton: str = ""
    modules: dict[str, Module] = field(default_factory=dict)
    calls: dict[str, list[tuple[str, CallSite]]] = field(default_factory=dict)


def in_scope(path: str) -> bool:
    """Whether the index covers the file at this path below site-packages."""
    name = module_name(path)
    return path.endswith(".py") and (
        name in ALONE or any(name == root or name.startswith(f"{root}.") for root in SCOPE)
    )


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def build(root: Path, version: str, *, triton: str = "") -> Sources:
    """The index of the tree of sources below `root`, a site-packages."""
    return build_files(_files(root), version, triton=triton)


def build_files(files: Iterable[tuple[str, str]], version: str, *, triton: str = "") -> Sources:
    """The index of (path below site-packages, text) pairs; files that Python cannot read are left out."""
    built = Sources(version=version, triton=triton)
    for path, text in sorted(files):
        name = module_name(path)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(text)
        except SyntaxError:  # a template, or newer than this Python
            continue
        built.modules[name], built.calls[name] = read_module(name, tree, package=path.endswith("__init__.py"))
    _keep_known_names(built)
    return built


def _keep_known_names(built: Sources) -> None:
    """Only calls of functions and classes, and only functions held, that the index knows are worth their place."""
    known: set[str] = set()
    for module in built.modules.values():
        known.update(module.functions, (name.rpartition(".")[2] for name in module.classes))
        for owner in module.classes.values():
            known.update(owner.functions)
    functions = {f"{module.name}.{name}" for module in built.modules.values() for name in module.functions}
    for name, module in built.modules.items():
        held = tuple((keeper, origin) for keeper, origin in module.held if origin in functions)
        built.modules[name] = replace(module, held=held)
    for name, calls in built.calls.items():
        built.calls[name] = [(callee, site) for callee, site in calls if callee in known]


def _files(root: Path) -> Iterator[tuple[str, str]]:
    for top in ("torch", "triton"):
        for file in (root / top).rglob("*.py"):
            path = file.relative_to(root).as_posix()
            if in_scope(path):
                yield path, file.read_text(encoding="utf-8", errors="replace")
