"""The questions that lint asks a release, answered from golden/surface.

Decides how names are followed through imports and base classes, and where a function's text is looked for.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from pathlib import Path
from typing import Protocol

from patchgate.lint.index.files import IndexFiles
from patchgate.lint.index.records import CallSite, Module
from patchgate.lint.index.resolve import Found, member, resolve
from patchgate.lint.index.sources import Sources
from patchgate.model.paths import GOLDEN

__all__ = ["Found", "Index", "Release", "load", "opened", "releases"]

FOLDER = GOLDEN / "surface"


class Release(Protocol):
    version: str

    def module(self, name: str) -> Module | None: ...
    def modules(self) -> frozenset[str]: ...
    def resolve(self, dotted: str) -> Found | None: ...
    def member(self, class_dotted: str, name: str) -> Found | None: ...
    def holders(self, dotted: str) -> tuple[str, ...]: ...
    def registries(self, dotted: str) -> tuple[str, ...]: ...
    def subclasses(self, class_dotted: str) -> tuple[str, ...]: ...
    def calls(self, bare_name: str) -> tuple[CallSite, ...]: ...
    def source(self, dotted: str) -> str | None: ...
    def place(self, site: CallSite, callee: str) -> str: ...


def releases() -> tuple[str, ...]:
    """Every indexed release, oldest first."""
    return opened(FOLDER).spans.releases


def load(version: str, sources: Sources | None = None) -> Release:
    """One release, with the texts that `sources` has; raises KeyError for one that is not indexed."""
    return opened(FOLDER).release(version, sources)


@lru_cache(maxsize=4)
def opened(folder: Path) -> Index:
    return Index(folder)


class Index(IndexFiles):
    """The files of one folder and the releases that they tell of."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._releases = {version: IndexedRelease(self, version) for version in self.spans.releases}

    def release(self, version: str, sources: Sources | None = None) -> IndexedRelease:
        known = self._releases[version]
        return known if sources is None else IndexedRelease(self, version, sources)


class IndexedRelease:
    """One release of an index."""

    def __init__(self, index: IndexFiles, version: str, sources: Sources | None = None) -> None:
        self.index, self.version, self._sources = index, version, sources
        self._bit = index.spans.bits[version]
        self._modules: dict[str, Module | None] = {}
        self._resolved: dict[str, Found | None] = {}

    def module(self, name: str) -> Module | None:
        if name not in self._modules:
            self._modules[name] = self._read(name) if name in self.modules() else None
        return self._modules[name]

    def _read(self, name: str) -> Module | None:
        if not self.index.lives.get(name, 0) & self._bit:
            return Module(name=name)  # a package outside the scope, of modules inside it
        tables: dict[str, dict[str, str]] = {"from": {}, "lazy": {}}
        held = []
        for mask, kind, local, origin in self.index.imported(name):
            if mask & self._bit and kind == "held":
                held.append((local, origin))
            elif mask & self._bit:
                tables[kind][local] = origin
        return self.index.stored(name).module(self.version, tables["from"], tables["lazy"], tuple(sorted(held)))

    def modules(self) -> frozenset[str]:
        return self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        found = {name for name, life in self.index.lives.items() if life & self._bit}
        return frozenset(found | {name.partition(".")[0] for name in found})

    def resolve(self, dotted: str) -> Found | None:
        if dotted not in self._resolved:
            self._resolved[dotted] = resolve(self, dotted)
        return self._resolved[dotted]

    def member(self, class_dotted: str, name: str) -> Found | None:
        return member(self, class_dotted, name)

    def holders(self, dotted: str) -> tuple[str, ...]:
        """Names of other modules that are bound to the same object."""
        return self._bound(dotted, "from")

    def registries(self, dotted: str) -> tuple[str, ...]:
        """MODULE.KEEPER of what registers the function or has it in a table."""
        return self._bound(dotted, "held")

    def _bound(self, dotted: str, kind: str) -> tuple[str, ...]:
        wanted = self._origin(dotted)
        name = dotted.rpartition(".")[2]
        bound = (each for each in self.index.binders(name, kind) if each[0] & self._bit)
        return tuple(sorted({holder for _, holder, origin in bound if self._origin(origin) == wanted}))

    def subclasses(self, class_dotted: str) -> tuple[str, ...]:
        found: dict[str, None] = {}
        todo = [class_dotted]
        while todo:
            wanted = self._origin(todo.pop(0))
            for mask, name, base in self.index.derived.get(wanted.rpartition(".")[2], ()):
                if mask & self._bit and name not in found and self._origin(base) == wanted:
                    found[name] = None
                    todo.append(name)
        return tuple(found)

    def calls(self, bare_name: str) -> tuple[CallSite, ...]:
        return tuple(site for mask, site in self.index.called(bare_name) if mask & self._bit)

    def source(self, dotted: str) -> str | None:
        """How a function is written; None where no sources are at hand: the index has fingerprints only."""
        module = self._module_of(dotted)
        _, text = self._file(module)
        if not text:
            return None
        from patchgate.lint.index.bodies import function_text

        return function_text(text, dotted[len(module) + 1 :])

    def place(self, site: CallSite, callee: str) -> str:
        """Where a call stands: file and line where sources are at hand, else module and function."""
        path, text = self._file(site.module)
        if text:
            from patchgate.lint.index.bodies import call_line

            line = call_line(text, callee, site)
            if line is not None:
                return f"{path}:{line}"
        return f"{site.module}.{site.function}".rstrip(".")

    def _file(self, module: str) -> tuple[str, str | None]:
        """Path and text of a module."""
        package = any(name.startswith(f"{module}.") for name in self.index.lives)
        path = f"{module.replace('.', '/')}{'/__init__' if package else ''}.py"
        return path, self._sources.text(self.version, path) if self._sources is not None else None

    def _module_of(self, dotted: str) -> str:
        module = dotted.rpartition(".")[0]
        while module and module not in self.index.lives:
            module = module.rpartition(".")[0]
        return module

    def _origin(self, dotted: str) -> str:
        found = self.resolve(dotted)
        return found.origin if found is not None else dotted
