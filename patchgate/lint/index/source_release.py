"""One release from its sources alone, without an index: what `index drift --sources` compares."""

from __future__ import annotations

from functools import cache, cached_property
from pathlib import Path

from patchgate.lint.index.build import files_in_scope, module_name
from patchgate.lint.index.definitions import parsed
from patchgate.lint.index.read_module import read_module
from patchgate.lint.index.records import Module
from patchgate.lint.index.resolve import Found, resolve


class SourceRelease:
    """Answers `resolve` as a release of the index does."""

    def __init__(self, version: str, root: Path) -> None:
        self.version, self._root = version, root
        self.module = cache(self._module)  # to parse one takes up to a second

    @cached_property
    def _files(self) -> dict[str, Path]:
        return {module_name(path): file for path, file in files_in_scope(self._root).items()}

    def modules(self) -> frozenset[str]:
        return frozenset(self._files) | {"torch", "triton"}

    def _module(self, name: str) -> Module | None:
        file = self._files.get(name)
        tree = parsed(file.read_text(encoding="utf-8", errors="replace")) if file is not None else None
        if tree is None or file is None:
            return Module(name=name) if name in self.modules() else None
        return read_module(name, tree, package=file.stem == "__init__")[0]

    def resolve(self, dotted: str) -> Found | None:
        return resolve(self, dotted)
