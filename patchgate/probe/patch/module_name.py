"""Finds the name under which a project imports a file, the folder that it is imported from, and
the line that runs it again.

Reads file names and imports, and runs nothing.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

# Files that mark the folder of a project; a package reaches no higher.
_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg", ".git")


def top_level(dotted: str) -> str:
    """The first part of a dotted name."""
    return dotted.partition(".")[0]


def place_in_package(path: str, paths: Sequence[str] = ()) -> tuple[str | None, str]:
    """Return (dotted name of the file's module, folder from which it is imported). The name is None
    if the file is in no package.

    A folder of `paths` around the file decides its name. Otherwise the name contains every folder
    around the file with an `__init__.py`, and namespaces: folders without an `__init__.py` from
    which the file itself imports, or which its relative imports need. A confined process no longer
    sees the folders around a file, and keeps the earlier answer.
    """
    return _place(os.path.abspath(path), tuple(paths))


@functools.cache
def _place(path: str, paths: tuple[str, ...]) -> tuple[str | None, str]:
    folder = os.path.dirname(path)
    below = [root for root in map(os.path.abspath, paths) if path.startswith(f"{root}{os.sep}")]
    root = max(below, key=len, default="")
    if below and _is_name(_dotted(path, root)):
        return _dotted(path, root), root
    root = folder
    while os.path.isfile(os.path.join(root, "__init__.py")):
        root = os.path.dirname(root)
    root = _namespace_root(path, root) or root
    dotted = _dotted(path, root)
    return (dotted, root) if root != folder and _is_name(dotted) else (None, folder)


def _is_name(dotted: str) -> bool:
    return all(map(str.isidentifier, dotted.split(".")))


def _dotted(path: str, root: str) -> str:
    names = os.path.splitext(os.path.relpath(path, root))[0].split(os.sep)
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def _namespace_root(path: str, root: str) -> str | None:
    """The folder from which a file is imported, if `root` is a namespace package or inside one;
    else None.
    """
    names, level = _imports(path)
    # The folders around the file up to the project's, or to the top if there is no project.
    around = [Path(root)]
    while not any(around[-1].joinpath(mark).exists() for mark in _PROJECT):
        if around[-1] == around[-1].parent:
            break
        around.append(around[-1].parent)
    for inner, outer in itertools.pairwise(around):
        name = inner.name
        if name in names and not Path(root, name).exists() and not _is_installed(name):
            return str(outer)
    folder = Path(path).parent
    if not level or root != str(folder):
        return None
    has_project = around[-1] != around[-1].parent
    above = Path(os.path.abspath(folder.joinpath(*[".."] * level)))
    outermost = around[-1] if has_project else above
    source = str(next((each for each in around if each.name == "src"), outermost))
    return source if source != root else None


def _is_installed(name: str) -> bool:
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None


def _imports(path: str) -> tuple[set[str], int]:
    """First names of the imports of a file, and the number of levels of its relative imports."""
    nodes = [*ast.walk(_parsed(path))]
    levels = [node.level for node in nodes if isinstance(node, ast.ImportFrom)]
    names = (name for node in nodes for name in _absolute_names(node))
    return set(map(top_level, names)), max(levels, default=0)


def _parsed(path: str | Path, *words: str) -> ast.Module:
    """The syntax tree of a file; empty if it is not Python, cannot be read, or has none of the
    `words`.
    """
    with suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        text = Path(path).read_bytes() if Path(path).is_file() else b""
        if not words or any(word.encode() in text for word in words):
            return ast.parse(text)
    return ast.parse("")


def missing_imports(path: str, root: str) -> list[str]:
    """The modules of other projects that the file needs, and that are not installed."""
    first = dict.fromkeys(map(top_level, foreign_imports(path, root)))
    return [name for name in first if not _is_found(name)]


def foreign_imports(path: str, root: str, *, leading: bool = False, own: bool = False) -> list[str]:
    """The dotted names that the file, and the files of the project that it imports, import from
    other projects.

    With `own`, names from the project itself are included. With `leading`, only the imports before
    the first other statement of each file count. `root` is the folder from which the project is
    imported.
    """
    names: dict[str, None] = {}
    files = [Path(path)]
    for file in files:
        is_below = file.is_relative_to(root)
        package = file.relative_to(root).parts[:-1] if is_below else ()
        body = _parsed(file).body
        for name in _needed(itertools.takewhile(_is_import, body) if leading else body, package):
            parts = name.split(".")
            below = [Path(root, *parts[: end + 1]) for end in range(len(parts))]
            for place in below:
                found = (place.with_suffix(".py"), place / "__init__.py")
                files += [each for each in found if each.is_file() and each not in files]
            if own or not (below[0].is_dir() or below[0].with_suffix(".py").is_file()):
                names[name] = None
    return list(names)


def _is_import(node: ast.stmt) -> bool:
    """True for an import, and for a text such as the module's docstring."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or isinstance(node, (ast.Import, ast.ImportFrom))


def _is_found(name: str) -> bool:
    """True if a module of that first name can be imported, and is no stand-in."""
    with suppress(ImportError, ValueError, AttributeError):
        return importlib.util.find_spec(name) is not None
    return False


def _needed(body: Iterable[ast.stmt], package: Sequence[str]) -> Iterator[str]:
    """The names that statements of a module import unconditionally and outside of any `try`."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            origin = [*above, *filter(None, [node.module])]
            yield from (".".join([*origin, alias.name]) for alias in node.names)


def what_runs_again(path: str, dotted: str | None, root: str) -> str:
    """A `file:line` of the package, or of the scripts next to it, that runs a file once more; empty
    if there is none.

    Such a line reloads the module, or imports it by another name than `dotted`: Python then has
    the module twice.
    """
    files = [*Path(root).glob("*.py")]
    files += Path(root, top_level(dotted)).rglob("*.py") if dotted else ()
    name = (dotted or Path(path).stem).rpartition(".")[2]
    for file in sorted(files):
        for node in ast.walk(_parsed(file, name)):
            is_second = any(_is_second(each, dotted) for each in _absolute_names(node))
            if is_second or _reloads(node, name):
                return f"{file.relative_to(root)}:{getattr(node, 'lineno', 1)}"
    return ""


def what_calls_again(path: str, dotted: str | None, root: str, calls: Sequence[str]) -> str:
    """A `file:line` in another file of the project whose function makes one of the `calls`;
    empty if there is none.
    """
    names = {call.partition("(")[0].rpartition(".")[2].rpartition(":")[2] for call in calls}
    files = Path(root, top_level(dotted)).rglob("*.py") if dotted else Path(root).glob("*.py")
    for file in sorted(each for each in files if str(each) != path):
        for function in ast.walk(_parsed(file, *names)):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for node in ast.walk(function):
                    if isinstance(node, ast.Call) and _last_name(node.func) in names:
                        return f"{file.relative_to(root)}:{node.lineno}"
    return ""


def _reloads(node: ast.AST, name: str) -> bool:
    if not isinstance(node, ast.Call) or _last_name(node.func) != "reload":
        return False
    return any(_last_name(argument) == name for argument in node.args[:1])


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _absolute_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_second(name: str, dotted: str | None) -> bool:
    """True if `name` is the end of the module's name `dotted`: the import then starts at a folder
    inside the package.
    """
    if not dotted or not dotted.endswith(f".{name}"):
        return False
    return top_level(name) not in sys.stdlib_module_names and not _is_installed(top_level(name))
