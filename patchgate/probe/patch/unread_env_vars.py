"""Finds the environment variables that have no effect: nothing reads them, or it was read before
they were set.

It reads the sources of the installed torch and Triton, of the patch's package and of what else is
loaded.
"""

from __future__ import annotations

import ast
import difflib
import mmap
import re
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import torch

from patchgate.probe.patch.load import place_of

# What a variable of torch's or Triton's starts with.
_PREFIXES = ("TORCH", "PYTORCH", "TRITON", "INDUCTOR", "AOT")
# How like a known name one must be that has no such prefix, to be taken for a misspelling of it;
# and one that has.
_OTHERWISE_ALIKE, _ALIKE = 0.85, 0.6
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_QUOTED = re.compile(rb"[\"']([A-Z][A-Z0-9]*_[A-Z0-9_]+)[\"']")
_ENVIRONMENT = re.compile(rb"environ|getenv|env_")
# Names of methods and functions that only write a variable.
_WRITERS = {"setdefault", "putenv", "setenv", "unsetenv", "delenv", "pop"}


def why_without_effect(name: str, loaded: Collection[str] | None, patch: str) -> str | None:
    """Why setting the variable has no effect; None where it may have one.

    `loaded` names the modules that were loaded when the patch set it; None where it is only
    claimed.
    """
    readers = _readers(name)
    if not readers:
        return None if _in_libraries(name) or _read_elsewhere(name, patch) else _unknown(name)
    if loaded is None or any(readers.values()):
        return None
    names = {
        getattr(module, "__file__", None): dotted for dotted, module in list(sys.modules.items())
    }
    early = [names[str(path)] for path in readers if names.get(str(path)) in loaded]
    if len(early) == len(readers):
        return f"read only when {', '.join(sorted(early)[:3])} is imported, which was before"
    return None


def _unknown(name: str) -> str | None:
    """The message on a name that nothing reads; None if it resembles none of torch's or
    Triton's.
    """
    is_torchs = name.startswith(_PREFIXES)
    near = difflib.get_close_matches(
        name, _known_names(), n=1, cutoff=_ALIKE if is_torchs else _OTHERWISE_ALIKE
    )
    if not is_torchs and not near:
        return None
    nearest = f"; the nearest that is read is {near[0]}" if near else ""
    return f"nothing in torch {torch.__version__}, Triton or the project reads it{nearest}"


@cache
def _sources() -> list[tuple[Path, bytes]]:
    """The Python files of torch and Triton."""
    return [
        (path, path.read_bytes()) for folder in _folders() for path in sorted(folder.rglob("*.py"))
    ]


def _known_names() -> set[str]:
    """Names in capitals that a file which reads the environment quotes."""
    texts = (source for _, source in _sources() if _ENVIRONMENT.search(source))
    return {found.decode() for text in texts for found in _QUOTED.findall(text)}


def _folders() -> Iterator[Path]:
    yield Path(torch.__file__).parent
    for path in sys.path:
        if Path(path, "triton", "__init__.py").is_file():
            yield Path(path, "triton")
            return


def _readers(name: str) -> dict[Path, bool]:
    """Python file of torch's or Triton's that has the string `name` -> whether it may be read after
    its import.
    """
    readers = {}
    for path, source in _sources():
        tree = ast.parse(source) if name.encode() in source else None
        if tree is not None and _strings(tree, name):
            readers[path] = any(
                _is_read_later(place, _module_at(path)) for place in _strings(tree, name)
            )
    return readers


def _strings(tree: ast.AST, text: str) -> list[tuple[ast.AST, ...]]:
    """Each place of the string: the nodes around it, the innermost first."""
    places: list[tuple[ast.AST, ...]] = []
    todo: list[tuple[ast.AST, ...]] = [(tree,)]
    while todo:
        around = todo.pop()
        if isinstance(around[0], ast.Constant) and around[0].value == text:
            places.append(around[1:])
        todo += [(child, *around) for child in ast.iter_child_nodes(around[0])]
    return places


def _module_at(path: Path) -> ModuleType | None:
    return next(
        (
            module
            for module in list(sys.modules.values())
            if getattr(module, "__file__", None) == str(path)
        ),
        None,
    )


def _is_read_later(around: tuple[ast.AST, ...], module: ModuleType | None) -> bool:
    """True if code may read the variable once its module is imported.

    In a function, in a descriptor that reads it at each access, or through a name or a table that
    holds it.
    """
    if any(isinstance(node, _FUNCTIONS) for node in around):
        return True
    calls = [node for node in around if isinstance(node, ast.Call)]
    if any(_is_descriptor(module, call.func) for call in calls):
        return True
    statement = next(node for node in around if isinstance(node, (ast.stmt, ast.Module)))
    reading = (ast.Call, ast.Compare, ast.Subscript)
    inside = around[: around.index(statement)]
    return isinstance(statement, (ast.Assign, ast.AnnAssign)) and not any(
        isinstance(node, reading) for node in inside
    )


def _is_descriptor(module: ModuleType | None, function: ast.expr) -> bool:
    made = getattr(module, function.id, None) if isinstance(function, ast.Name) else None
    return isinstance(made, type) and hasattr(made, "__get__")


def _in_libraries(name: str) -> bool:
    for path in (path for folder in _folders() for path in folder.rglob("*.so*")):
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            if text.find(name.encode()) >= 0:
                return True
    return False


def _read_elsewhere(name: str, patch: str) -> bool:
    """True if the patch, its package, or another package that is loaded reads the variable."""
    dotted, root = place_of(patch, {})
    own = (
        [Path(patch)]
        if dotted is None
        else list(Path(root, dotted.partition(".")[0]).rglob("*.py"))
    )
    if any(_reads(path, name) for path in own):
        return True
    tops = {dotted.partition(".")[0] for dotted in sys.modules} - {"torch", "triton", "patchgate"}
    tops -= set(sys.stdlib_module_names) | ({dotted.partition(".")[0]} if dotted else set())
    files = (getattr(sys.modules.get(top), "__file__", None) for top in tops)
    folders = [Path(file).parent for file in files if file and file.endswith("__init__.py")]
    return any(
        name.encode() in path.read_bytes() for folder in folders for path in folder.rglob("*.py")
    )


def _reads(path: Path, name: str) -> bool:
    source = path.read_bytes()
    if name.encode() not in source:
        return False
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return True
    return any(not _is_written(around) for around in _strings(tree, name))


def _is_written(around: tuple[ast.AST, ...]) -> bool:
    """True if the place of the string is one that sets or removes the variable."""
    nearest = around[0]
    if isinstance(nearest, ast.Subscript):
        return not isinstance(nearest.ctx, ast.Load)
    if isinstance(nearest, ast.Call):
        function = nearest.func
        called = (
            function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        )
        return called in _WRITERS and isinstance(around[1], ast.Expr)
    updates = (
        node
        for node in around
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    )
    return isinstance(nearest, ast.Dict) and any(call.func.attr == "update" for call in updates)  # type: ignore[attr-defined]
