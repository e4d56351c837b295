"""Builds the records of one release from its sources, and adds a release to the index.

Every file of the index depends on the records alone: adding a release twice, or in another order,
gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from patchgate.lint.index.format import write
from patchgate.lint.index.read_module import parsed, read_module, read_stub
from patchgate.lint.index.records import ALONE, APART, SCOPE, Module, ReleaseRecords
from patchgate.lint.index.release import Index, opened
from patchgate.lint.index.resolve import Found, resolve

if TYPE_CHECKING:
    from patchgate.lint.index.wheel import Fetched


# (project, specifier, predicate for members) -> the matching members of the project's wheel.
Fetch = Callable[[str, str, Callable[[str], bool]], "Fetched"]


def in_scope(path: str) -> bool:
    """True if the index covers the file at this path below site-packages."""
    name = module_name(path)
    return (path.endswith(".py") or is_stub(path)) and (
        name in ALONE or any(name == root or name.startswith(f"{root}.") for root in SCOPE)
    )


def is_stub(path: str) -> bool:
    """True for a file that lists the names of an extension in C, which has no Python source."""
    return path.startswith("torch/_C/") and path.endswith(".pyi")


def module_name(path: str) -> str:
    without = path.removesuffix(".pyi").removesuffix(".py")
    return without.removesuffix("/__init__").replace("/", ".")


def build(files: Iterable[tuple[str, str]], version: str, *, triton: str = "") -> ReleaseRecords:
    """Make the records of a release from pairs (path below site-packages, text). Files that this
    Python cannot parse are left out.
    """
    built = ReleaseRecords(version=version, triton=triton)
    for path, text in sorted(files):
        name, tree = module_name(path), parsed(text)
        if tree is not None and is_stub(path):
            built.modules[name] = read_stub(name, tree)
        elif tree is not None:
            built.modules[name], calls = read_module(
                name, tree, package=path.endswith("__init__.py")
            )
            built.calls[name] = [] if f"{name}.".startswith(APART) else calls
    _drop_unknown_names(built)
    return built


def _drop_unknown_names(built: ReleaseRecords) -> None:
    """Drop the calls and the held functions whose names are not in the index."""
    known: set[str] = set()
    read: set[str] = set()
    for module in built.modules.values():
        known.update(module.functions, (name.rpartition(".")[2] for name in module.classes))
        for owner in module.classes.values():
            known.update(owner.functions)
            read.update(
                owner.attributes,
                (each.name for each in owner.functions.values() if "property" in each.form),
            )
    functions = {
        f"{module.name}.{name}" for module in built.modules.values() for name in module.functions
    }
    for name, module in built.modules.items():
        held = tuple((registry, origin) for registry, origin in module.held if origin in functions)
        built.modules[name] = replace(module, held=held)
    for name, calls in built.calls.items():
        # A place that only reads a name proves no use of a function if an attribute has that name.
        built.calls[name] = [
            (callee, site)
            for callee, site in calls
            if callee in known and (site.receiver != "=" or callee not in read)
        ]


def add(index: Index, version: str, fetch: Fetch) -> list[str]:
    """Index `version` and the triton that it requires; return one line about each download."""
    torch = fetch("torch", f"=={version}", in_scope)
    version = Version(torch.version).public  # 2.8 means 2.8.0
    fetched = [torch]
    if torch.triton_requirement:
        fetched.append(fetch("triton", torch.triton_requirement, in_scope))
    files = [file for each in fetched for file in each.files]
    triton = "".join(each.version for each in fetched[1:])
    others = [index.release(each).records() for each in index.sets.releases if each != version]
    everything = [*others, build(files, version, triton=triton)]
    write(index.folder, sorted(everything, key=lambda each: Version(each.version)))
    opened.cache_clear()
    return [
        f"{project} {each}" for project, each in zip(("torch", "triton"), fetched, strict=False)
    ]


class SourceRelease:
    """A tree of sources that answers `resolve` like a release of the index."""

    def __init__(self, version: str, root: Path) -> None:
        self.version, self._root = version, root
        self.module = cache(self._module)  # parsing a module takes up to a second

    @cached_property
    def _files(self) -> dict[str, Path]:
        """Module -> file."""
        files = (file for top in ("torch", "triton") for file in (self._root / top).rglob("*.py"))
        return {
            module_name(path): file
            for file in files
            if in_scope(path := file.relative_to(self._root).as_posix())
        }

    def modules(self) -> frozenset[str]:
        return frozenset(self._files) | {"torch", "triton"}

    def _module(self, name: str) -> Module | None:
        file = self._files.get(name)
        tree = (
            parsed(file.read_text(encoding="utf-8", errors="replace")) if file is not None else None
        )
        if tree is None or file is None:
            return Module(name=name) if name in self.modules() else None
        return read_module(name, tree, package=file.stem == "__init__")[0]

    def resolve(self, dotted: str) -> Found | None:
        return resolve(self, dotted)
