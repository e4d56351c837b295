"""The other files of a patch's project: which file an import means, and what stands at the top of it.

Found by path, as Python would with the project's root on its path; nothing is run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from patchgate.inputs.source import Unreadable, parse, read_source
from patchgate.lint.interpret.values import OwnName, Scope, Value
from patchgate.model.errors import UsageError

# A file without these words knows nothing of torch and its version.
_MATTERS = re.compile(r"torch|triton|[Vv]ersion")
# Folders above a file in which an absolute import may start.
_DEPTH = 8


@dataclass(frozen=True, kw_only=True)
class OwnImport:
    """`from module import name` at the top of a file; `level` counts the leading dots."""

    module: str
    level: int
    name: str


@dataclass(eq=False)
class OwnFiles:
    """Files of one project. `scopes` and `values` keep what their top levels came to, by file and release."""

    scopes: dict[tuple[Path, str], Scope] = field(default_factory=dict)
    values: dict[tuple[Path, str, str], Value] = field(default_factory=dict)
    #: The names that were followed since somebody emptied it.
    asked: set[OwnName] = field(default_factory=set)
    #: How many top levels are being read: what they came to is not to be relied on meanwhile.
    unfinished: int = 0

    def file_of(self, module: str, level: int, importer: Path) -> Path | None:
        """The file that `from ..module import` means in `importer`; None for what is not of the project."""
        if level:
            folder = importer.parent
            for _ in range(level - 1):
                folder = folder.parent
            return _module_below(folder, module)
        return _absolute(importer.parent, module)

    def below(self, file: Path, name: str) -> Path | None:
        """The submodule `name` of a package."""
        return _module_below(file.parent, name) if file.name == "__init__.py" else None

    def tree(self, file: Path) -> ast.Module | None:
        """The file's syntax tree; None where it knows nothing of torch, or is not to be read."""
        return _tree(file)

    def imported(self, file: Path, name: str) -> Iterator[OwnImport]:
        """The import at the top of a file that brings `name`, else its imports of all names of a module."""
        imports = _imports(file)
        yield from imports.get(name) or imports.get("*", [])


@lru_cache(maxsize=8192)
def _absolute(folder: Path, module: str) -> Path | None:
    first = module.partition(".")[0]
    for above in (folder, *folder.parents)[:_DEPTH]:
        # A folder on Python's path is no package itself.
        if not (above / "__init__.py").exists() and ((above / first).is_dir() or (above / f"{first}.py").is_file()):
            return _module_below(above, module)
    return None


@lru_cache(maxsize=8192)
def _module_below(folder: Path, module: str) -> Path | None:
    path = folder.joinpath(*module.split(".")) if module else folder
    for file in (path / "__init__.py", path.with_name(f"{path.name}.py")):
        if file.is_file():
            return file
    return None


@lru_cache(maxsize=1024)
def _text(file: Path) -> str:
    try:
        return read_source(file)
    except (Unreadable, UsageError):
        return ""


@lru_cache(maxsize=1024)
def _parsed(file: Path) -> ast.Module | None:
    try:
        return parse(_text(file))
    except Unreadable:
        return None


def _tree(file: Path) -> ast.Module | None:
    return _parsed(file) if _MATTERS.search(_text(file)) else None


@lru_cache(maxsize=1024)
def _imports(file: Path) -> dict[str, list[OwnImport]]:
    tree = _parsed(file) if "import" in _text(file) else None
    found: dict[str, list[OwnImport]] = {}
    for node in _at_top(tree.body if tree is not None else []):
        for alias in node.names:
            each = OwnImport(module=node.module or "", level=node.level, name=alias.name)
            found.setdefault(alias.asname or alias.name, []).append(each)
    return found


def _at_top(statements: list[ast.stmt]) -> Iterator[ast.ImportFrom]:
    """Imports of a module, those below `if` and `try` too."""
    for statement in statements:
        if isinstance(statement, ast.ImportFrom):
            yield statement
        elif isinstance(statement, (ast.If, ast.Try)):
            yield from _at_top(statement.body)
            yield from _at_top(statement.orelse)
            for handler in getattr(statement, "handlers", ()):
                yield from _at_top(handler.body)
