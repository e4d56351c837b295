"""Finds the name under which a project imports a file, the folder that it is imported from, and
what runs it again.

Reads file names and imports, and runs nothing.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

# What stands in the folder of a project; a package reaches no higher.
_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg", ".git")


def place_in_package(path: str, paths: Sequence[str] = ()) -> tuple[str | None, str]:
    """(dotted name of the file's module, folder from which it is imported); no name where it is in
    no package.

    A folder of `paths` around the file says what its name is. Else every folder around it with an
    `__init__.py` belongs to it, and so do namespaces: folders without one that the file itself
    imports from, or that its relative imports need. A confined process no longer sees what stands
    around a file: it keeps what it found before.
    """
    return _place(os.path.abspath(path), tuple(paths))


@functools.cache
def _place(path: str, paths: tuple[str, ...]) -> tuple[str | None, str]:
    folder = os.path.dirname(path)
    below = [root for root in map(os.path.abspath, paths) if path.startswith(f"{root}{os.sep}")]
    if below and all(map(str.isidentifier, _dotted(path, max(below, key=len)).split("."))):
        root = max(below, key=len)
        return _dotted(path, root), root
    root = folder
    while os.path.isfile(os.path.join(root, "__init__.py")):
        root = os.path.dirname(root)
    root = _namespace_root(path, root) or root
    dotted = _dotted(path, root)
    is_module = root != folder and all(map(str.isidentifier, dotted.split(".")))
    return (dotted, root) if is_module else (None, folder)


def _dotted(path: str, root: str) -> str:
    names = os.path.splitext(os.path.relpath(path, root))[0].split(os.sep)
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def _namespace_root(path: str, root: str) -> str | None:
    """The folder from which a file is imported whose top folder, below `root`, is in a namespace;
    None for no such.
    """
    names, level = _imports(path)
    around = [root]
    while not any(os.path.exists(os.path.join(around[-1], mark)) for mark in _PROJECT):
        if around[-1] == os.path.dirname(around[-1]):
            break
        around.append(os.path.dirname(around[-1]))
    for inner, outer in itertools.pairwise(around):
        name = os.path.basename(inner)
        if (
            name in names
            and not os.path.exists(os.path.join(root, name))
            and not _is_installed(name)
        ):
            return outer
    folder = os.path.dirname(path)
    if not level or root != folder:
        return None
    for _ in range(level):
        folder = os.path.dirname(folder)
    has_project = around[-1] != os.path.dirname(around[-1])
    source = next(
        (each for each in around if os.path.basename(each) == "src"),
        around[-1] if has_project else folder,
    )
    return source if source != root else None


def _is_installed(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None


def _imports(path: str) -> tuple[set[str], int]:
    """First names of what a file imports, and how far up its relative imports reach."""
    nodes = _nodes(path)
    origins = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in origins if node.module and not node.level}
    return {name.split(".")[0] for name in names}, max((node.level for node in origins), default=0)


def _nodes(path: str | Path, word: str = "") -> list[ast.AST]:
    """The syntax of a file that has `word` somewhere."""
    return list(ast.walk(_parsed(path, word)))


def _parsed(path: str | Path, word: str = "") -> ast.Module:
    """A file; empty where it is no Python, cannot be read, or has `word` nowhere."""
    with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError):
        text = Path(path).read_bytes()
        return ast.parse(text if word.encode() in text else "")
    return ast.parse("")


def missing_imports(path: str, root: str) -> list[str]:
    """The modules that are not installed, of those that the file, and what it imports of its
    project, import.

    `root` is the folder from which the project is imported.
    """
    missing: dict[str, None] = {}
    files = [Path(path)]
    for file in files:
        package = (
            file.relative_to(root).with_suffix("").parts[:-1] if file.is_relative_to(root) else ()
        )
        for name in _needed(_parsed(file).body, package):
            parts = name.split(".")
            below = [Path(root, *parts[: end + 1]) for end in range(len(parts))]
            own = [
                each
                for place in below
                for each in (place.with_suffix(".py"), place / "__init__.py")
            ]
            files += [each for each in own if each.is_file() and each not in files]
            if not (
                below[0].is_dir() or below[0].with_suffix(".py").is_file() or is_found(parts[0])
            ):
                missing[parts[0]] = None
    return list(missing)


def is_found(name: str) -> bool:
    """True if a module of that first name can be imported, and is no stand-in."""
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        return importlib.util.find_spec(name) is not None
    return False


def _needed(body: Sequence[ast.stmt], package: Sequence[str]) -> Iterator[str]:
    """The names that statements of a module import, but for those behind a condition or in a
    `try`.
    """
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            origin = [*above, *filter(None, [node.module])]
            yield from (".".join([*origin, alias.name]) for alias in node.names)


def what_runs_again(path: str, dotted: str | None, root: str) -> str:
    """`file:line` that runs a file once more, of its package and the scripts beside that; empty for
    none.

    A line that reloads the module, or one that imports it by another name than `dotted`: Python
    then has it twice.
    """
    package = Path(root, dotted.partition(".")[0]) if dotted else None
    files = [*Path(root).glob("*.py"), *(package.rglob("*.py") if package is not None else ())]
    name = (dotted or Path(path).stem).rpartition(".")[2]
    for file in sorted(files):
        for node in _nodes(file, name):
            if _reloads(node, name) or any(
                _is_second(each, dotted) for each in _absolute_names(node)
            ):
                return f"{file.relative_to(root)}:{getattr(node, 'lineno', 1)}"
    return ""


def what_calls_again(path: str, dotted: str | None, root: str, calls: Sequence[str]) -> str:
    """`file:line` of a function of the project, outside of the file, that calls one of these; empty
    for none.
    """
    names = {call.partition("(")[0].rpartition(".")[2].rpartition(":")[2] for call in calls}
    package = Path(root, dotted.partition(".")[0]) if dotted else Path(root)
    for file in sorted(package.rglob("*.py") if dotted else package.glob("*.py")):
        for function in (
            node for name in names for node in _nodes(file, name) if str(file) != path
        ):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for node in ast.walk(function):
                    if (
                        isinstance(node, ast.Call)
                        and ast.unparse(node.func).rpartition(".")[2] in names
                    ):
                        return f"{file.relative_to(root)}:{node.lineno}"
    return ""


def _reloads(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] != "reload":
        return False
    return any(ast.unparse(argument).rpartition(".")[2] == name for argument in node.args[:1])


def _absolute_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_second(name: str, dotted: str | None) -> bool:
    """True if a name is the end of the module's own: what is imported from a folder inside the
    package.
    """
    top = name.partition(".")[0]
    if not dotted or not dotted.endswith(f".{name}") or top in sys.stdlib_module_names:
        return False
    return not _is_installed(top)
