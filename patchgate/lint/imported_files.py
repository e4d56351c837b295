"""Find the files of a project that run when one of its files is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from patchgate.inputs.patch_source import Unreadable, parse, read_source
from patchgate.lint.interpret.project_files import file_of


def imported_files(file: Path, tree: ast.Module) -> dict[Path, ast.Module]:
    """The other files of its project that `file` imports, directly or not.

    Files that the packages around `file` have already imported are left out, because their changes
    belong to these packages.
    """
    before = _around(file)
    if file in before:  # a package around it imports the file: leave out no files
        before = {}
    return {
        path: read
        for path, read in _closure(file, tree).items()
        if path != file and path not in before
    }


def files_run_by(file: Path, tree: ast.Module) -> set[Path]:
    """The other files of its project that an import of `file` runs, including the packages around
    it and the files that these import.
    """
    return {*_around(file), *_closure(file, tree)} - {file}


def _around(file: Path) -> dict[Path, ast.Module]:
    """The packages around a file, innermost first, and the files that they import."""
    found: dict[Path, ast.Module] = {}
    for folder in file.parents:
        package = folder / "__init__.py"
        if not package.is_file():
            break
        if package != file:
            read = _read(package)
            found |= {package: read} | _closure(package, read)
    return found


def _closure(file: Path, tree: ast.Module) -> dict[Path, ast.Module]:
    found: dict[Path, ast.Module] = {}
    waiting = [(file, tree)]
    while waiting:
        importer, read = waiting.pop()
        for path in _imports(importer, read):
            if path not in found:
                found[path] = _read(path)
                waiting.append((path, found[path]))
    return found


def _read(file: Path) -> ast.Module:
    try:
        return parse(read_source(file))
    except Unreadable:
        return ast.Module(body=[], type_ignores=[])


def _imports(file: Path, tree: ast.Module) -> Iterator[Path]:
    for node in statements_at_import(tree.body):
        if isinstance(node, ast.Import):
            names = [(each.name, 0) for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            below = [f"{module}.{each.name}".lstrip(".") for each in node.names]
            names = [(name, node.level) for name in (*below, module) if name]
        else:
            continue
        for name, level in names:
            found = file_of(name, level, file)
            if found is not None:
                yield found


def statements_at_import(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that an import may run, including those in a condition or a `try`."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from statements_at_import(node.orelse)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parts = (getattr(node, name, ()) for name in ("body", "orelse", "finalbody"))
            for part in (*parts, *(each.body for each in getattr(node, "handlers", ()))):
                yield from statements_at_import(part)
