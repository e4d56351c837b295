"""Applies hunks of torch's own sources to the torch in memory; the installed files stay as they
are.

A hunk may change functions only: nothing else of a running torch can be changed exactly.
"""

from __future__ import annotations
import __future__

import ast
import importlib
import linecache
import sys
from types import CellType, FunctionType, ModuleType
from typing import Any

from patchgate.probe.patch.coverage import first_line
from patchgate.probe.process.reply import DoesNotApply

#: (first line in the old file, from 1; the lines that must be there; those that replace them; line
#: in the diff)
Hunk = tuple[int, list[str], list[str], int]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def apply_hunks(files: dict[str, list[Hunk]], diff: str) -> None:
    """Change the modules of these files (`torch/_inductor/ir.py`); `diff` is the path that an error
    names.

    All or nothing: every hunk is placed before a module is changed. Raises DoesNotApply.
    """
    plans = []
    for path, hunks in files.items():
        module = importlib.import_module(
            path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        )
        with open(str(module.__file__), encoding="utf-8") as file:
            before = file.read()
        after = _changed(before.splitlines(), hunks, path, diff)
        plans.append(
            (module, path, after, _functions_changed(before, after, path, f"{diff}:{hunks[0][3]}"))
        )
    for module, path, after, changed in plans:
        for name, node in changed.items():
            _replace(module, path, after, name, node)


def _changed(lines: list[str], hunks: list[Hunk], path: str, diff: str) -> str:
    shift = 0
    for start, old, new, line in hunks:
        wanted = max(start - 1, 0) + shift
        places = [at for at in range(len(lines) - len(old) + 1) if lines[at : at + len(old)] == old]
        if not places:
            problem = f"the hunk at {path}:{start} does not apply: its lines are not in this torch"
            raise DoesNotApply(problem, f"{diff}:{line}")
        at = min(places, key=lambda place: abs(place - wanted))
        lines = lines[:at] + new + lines[at + len(old) :]
        shift = at - max(start - 1, 0) + len(new) - len(old)
    return "\n".join(lines) + "\n"


def _functions(tree: ast.Module) -> dict[str, ast.stmt]:
    """`StorageBox.realize` -> its definition, for every function of the module and of its
    classes.
    """
    definitions: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, _FUNCTIONS):
            definitions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            definitions |= {
                f"{node.name}.{inner.name}": inner
                for inner in node.body
                if isinstance(inner, _FUNCTIONS)
            }
    return definitions


def _without_functions(tree: ast.Module) -> str:
    owners: list[ast.Module | ast.ClassDef] = [
        tree,
        *(node for node in tree.body if isinstance(node, ast.ClassDef)),
    ]
    for owner in owners:
        owner.body = [node for node in owner.body if not isinstance(node, _FUNCTIONS)]
    return ast.dump(tree)


def _functions_changed(before: str, after: str, path: str, place: str) -> dict[str, ast.stmt]:
    try:
        old, new = ast.parse(before), ast.parse(after)
    except SyntaxError as error:
        raise DoesNotApply(
            f"{path}:{error.lineno} is no Python any more: {error.msg}", place
        ) from None
    # Texts are compared, not trees: torch's larger modules have ten thousand lines.
    was, now = (
        {name: _text(text.splitlines(), node) for name, node in _functions(tree).items()}
        for text, tree in ((before, old), (after, new))
    )
    changed = {name: node for name, node in _functions(new).items() if was.get(name) != now[name]}
    if was.keys() - now.keys() or _without_functions(old) != _without_functions(new):
        problem = (
            f"{path}: a hunk changes more than functions, which a running torch cannot take over"
        )
        raise DoesNotApply(problem, place)
    return changed


def _text(lines: list[str], node: ast.stmt) -> list[str]:
    return lines[first_line(node) - 1 : node.end_lineno]


def _replace(module: ModuleType, path: str, source: str, name: str, node: ast.stmt) -> None:
    """Compile the function from the changed source, under its own name and lines, and bind it."""
    owner_name, _, short = name.rpartition(".")
    body: list[ast.stmt] = [node]
    if owner_name:
        body = [
            ast.ClassDef(name=owner_name, bases=[], keywords=[], body=[node], decorator_list=[])
        ]
        if sys.version_info >= (3, 12):
            body[0].type_params = []  # type: ignore[attr-defined]
    filename = f"<diff of {path}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    flags = __future__.annotations.compiler_flag if "annotations" in vars(module) else 0
    made: dict[str, Any] = {}
    unit = ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))
    exec(compile(unit, filename, "exec", flags=flags, dont_inherit=True), vars(module), made)
    if not owner_name:
        _rebind(vars(module).get(short), made[short])
        setattr(module, short, made[short])
        return
    owner = getattr(module, owner_name)
    new = vars(made[owner_name])[short]
    setattr(owner, short, _in_class(new, owner) if isinstance(new, FunctionType) else new)


def _rebind(old: Any, new: Any) -> None:
    """Give the new function to every module that has imported the old one, as with changed
    sources.
    """
    if not callable(old):
        return
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        for name in [name for name, value in list(names.items()) if value is old]:
            setattr(module, name, new)


def _in_class(function: FunctionType, owner: type) -> FunctionType:
    """The method with `super()` meaning `owner`, not the class that it was compiled in."""
    if function.__code__.co_freevars != ("__class__",):
        return function
    closure = (CellType(owner),)
    bound = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, closure
    )
    bound.__kwdefaults__, bound.__qualname__ = function.__kwdefaults__, function.__qualname__
    return bound
