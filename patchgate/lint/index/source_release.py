"""One release from its sources alone, without an index: what `index drift --sources` compares.

To parse a module of torch takes up to a second, so where a name is defined plainly only the lines of its class or
function are read.
"""

from __future__ import annotations

import ast
import re
from functools import cache, cached_property
from pathlib import Path

from patchgate.lint.index.build import files_in_scope, module_name
from patchgate.lint.index.definitions import Node, defined, inside, parsed
from patchgate.lint.index.read_function import read_function
from patchgate.lint.index.read_module import read_module
from patchgate.lint.index.records import Module
from patchgate.lint.index.resolve import Found, module_of, resolve


class SourceRelease:
    """Answers `resolve` as a release of the index does."""

    def __init__(self, version: str, root: Path) -> None:
        self.version, self._root = version, root
        self.module, self._statement = cache(self._module), cache(self._read_statement)

    @cached_property
    def _files(self) -> dict[str, Path]:
        return {module_name(path): file for path, file in files_in_scope(self._root).items()}

    def modules(self) -> frozenset[str]:
        return frozenset(self._files) | {"torch", "triton"}

    def _module(self, name: str) -> Module | None:
        file = self._files.get(name)
        tree = parsed(self._text(name)) if file is not None else None
        if tree is None or file is None:
            return Module(name=name) if name in self.modules() else None
        return read_module(name, tree, package=file.stem == "__init__")[0]

    def resolve(self, dotted: str) -> Found | None:
        return self._plainly(dotted) or resolve(self, dotted)

    def _plainly(self, dotted: str) -> Found | None:
        """A function, or a method of a class or of its base in the same module, by the lines of those statements."""
        module = module_of(dotted, self._files)
        first, _, rest = dotted[len(module) + 1 :].partition(".")
        node = self._statement(module, first) if module else None
        if isinstance(node, ast.ClassDef):
            found = inside(node, rest) if rest else None
            if found is None and rest and "." not in rest:
                bases = [each.id for each in node.bases if isinstance(each, ast.Name)]
                return self._plainly(f"{module}.{bases[0]}.{rest}") if len(bases) == len(node.bases) == 1 else None
            node = found
        elif rest:
            return None
        if node is None or isinstance(node, ast.ClassDef):
            return None
        return Found(kind="function", origin=dotted, symbol=read_function(node, in_class=bool(rest)))

    def _read_statement(self, module: str, name: str) -> Node | None:
        """The one definition of that name at the left margin of a module."""
        block = statement_of(self._text(module), name)
        return defined(block, name) if block else None

    def _text(self, module: str) -> str:
        return self._files[module].read_text(encoding="utf-8", errors="replace")


def statement_of(text: str, name: str) -> str:
    """The one `class` or `def` of that name at the left margin, decorators apart; nothing where it is not just one."""
    starts = [each.start() for each in re.finditer(rf"^(?:class|def|async def) {re.escape(name)}\b", text, re.M)]
    if len(starts) != 1 or re.search(rf"^[ \t]+(?:class|def|async def) {re.escape(name)}\b", text, re.M):
        return ""
    lines = text[starts[0] :].split("\n")
    stop = next((at for at, line in enumerate(lines[1:], 1) if line[:1] not in ("", " ", "\t", "#", ")")), len(lines))
    return "\n".join(lines[:stop])
