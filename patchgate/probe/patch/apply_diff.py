"""Applies hunks of torch's own sources to the torch in memory; the installed files are unchanged.

A hunk may change functions only, because nothing else of a running torch can be changed exactly.
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

#: (first line in the old file, from 1; the expected lines; their replacement; line in the diff)
Hunk = tuple[int, list[str], list[str], int]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def apply_hunks(files: dict[str, list[Hunk]], diff: str) -> None:
    """Change the modules of these files (`torch/_inductor/ir.py`); an error names `diff`.

    All or nothing: every hunk is placed before a module is changed. Raises DoesNotApply.
    """
    plans = []
    for path, hunks in files.items():
        dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        module = importlib.import_module(dotted)
        with open(str(module.__file__), encoding="utf-8") as file:
            before = file.read()
        after = _changed(before.splitlines(), hunks, path, diff)
        changed = _functions_changed(before, after, path, f"{diff}:{hunks[0][3]}")
        plans.append((module, path, after, changed))
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
    """Remove every function of the module and of its classes from the tree. Return the functions by
    name, such as `StorageBox.realize`.
    """
    definitions: dict[str, ast.stmt] = {}
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    owners: list[tuple[str, Any]] = [("", tree), *((f"{each.name}.", each) for each in classes)]
    for prefix, owner in owners:
        functions = [node for node in owner.body if isinstance(node, _FUNCTIONS)]
        definitions |= {f"{prefix}{node.name}": node for node in functions}
        owner.body = [node for node in owner.body if node not in functions]
    return definitions


def _functions_changed(before: str, after: str, path: str, place: str) -> dict[str, ast.stmt]:
    try:
        old_tree, new_tree = ast.parse(before), ast.parse(after)
    except SyntaxError as error:
        problem = f"{path}:{error.lineno} is no Python any more: {error.msg}"
        raise DoesNotApply(problem, place) from None
    old, new = _functions(old_tree), _functions(new_tree)
    if old.keys() - new.keys() or ast.dump(old_tree) != ast.dump(new_tree):
        problem = (
            f"{path}: a hunk changes more than functions, which a running torch cannot take over"
        )
        raise DoesNotApply(problem, place)
    # Texts are compared and not trees, because large modules of torch have ten thousand lines.
    was, now = before.splitlines(), after.splitlines()
    return {
        name: node
        for name, node in new.items()
        if name not in old or _text(was, old[name]) != _text(now, node)
    }


def _text(lines: list[str], node: ast.stmt) -> list[str]:
    return lines[first_line(node) - 1 : node.end_lineno]


def _replace(module: ModuleType, path: str, source: str, name: str, node: ast.stmt) -> None:
    """Compile the function from the changed source, under its own name and lines, and bind it."""
    owner_name, _, short = name.rpartition(".")
    body: list[ast.stmt] = [node]
    if owner_name:
        body = ast.parse(f"class {owner_name}: pass").body
        body[0].body = [node]  # type: ignore[attr-defined]
    filename = f"<diff of {path}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    flags = __future__.annotations.compiler_flag if "annotations" in vars(module) else 0
    made: dict[str, Any] = {}
    unit = ast.Module(body=body, type_ignores=[])
    exec(compile(unit, filename, "exec", flags=flags, dont_inherit=True), vars(module), made)
    if not owner_name:
        _rebind(vars(module).get(short), made[short])
        setattr(module, short, made[short])
        return
    owner = getattr(module, owner_name)
    new = vars(made[owner_name])[short]
    setattr(owner, short, _in_class(new, owner) if isinstance(new, FunctionType) else new)


def _rebind(old: Any, new: Any) -> None:
    """Give the new function to every module that has imported the old one, as changed sources
    would.
    """
    for module in list(sys.modules.values()) if callable(old) else ():
        names = getattr(module, "__dict__", {})
        for name in [name for name, value in list(names.items()) if value is old]:
            setattr(module, name, new)


def _in_class(function: FunctionType, owner: type) -> FunctionType:
    """The method, rebound so that `super()` refers to `owner`, not to the class compiled here."""
    if function.__code__.co_freevars != ("__class__",):
        return function
    closure = (CellType(owner),)
    bound = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, closure
    )
    bound.__kwdefaults__, bound.__qualname__ = function.__kwdefaults__, function.__qualname__
    return bound
