"""Splits a file that installs several gated patches.

A part is a top-level `if`, or a top-level call of one of the file's functions with an `if` in it. A
part must assign to something imported. The lines outside all parts belong to every part.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from contextlib import suppress

from patchgate.inputs.manifest import read_call
from patchgate.inputs.patch_source import nodes_in, parse
from patchgate.model.records import record
from patchgate.model.serialization import Invalid

#: Decorators of a context manager.
SCOPES = ("contextmanager", "contextlib.contextmanager")
_TORCH = ("torch", "triton")
# Prefixes of the names of functions that undo another function.
_UNDOING = ("un", "restore", "revert", "remove", "undo", "reset", "disable")

# A file that uses one of these names may bind more names than its text shows.
_BINDING_ANY = ("*", "globals", "vars", "locals", "exec", "eval", "__getattr__")
_OWN_MODULE = "modules[__name__]"


@record
class Part:
    """One gated patch of a file, including the functions of the file that it calls and that assign
    to something imported.
    """

    name: str  #: the last name of the first thing that it replaces
    first: int  #: the first line of the statement
    last: int  #: its last line
    own: frozenset[int]  #: the lines of the statement and of the functions


def find_parts(text: str) -> list[Part]:
    """The parts of a patch, in order. Raises Unreadable."""
    tree = parse(text)
    imported = set(_imported(tree))
    functions = _functions(tree)
    found: list[Part] = []
    for node in tree.body:
        installing = [each for each in _installs(node, functions) if any(_writes(each, imported))]
        if installing and not _is_main(node):
            name = next(_writes(installing[0], imported))
            name = f"{name}-{node.lineno}" if name in {part.name for part in found} else name
            own = frozenset(line for each in (node, *installing) for line in _lines(each))
            found.append(Part(name=name, first=node.lineno, last=max(_lines(node)), own=own))
    return found


def source_of_part(text: str, part: Part, parts: list[Part]) -> str:
    """The file with this part alone. The lines of other parts become empty, so that every line
    keeps its number.
    """
    gone = {line for other in parts for line in other.own} - part.own
    kept = ["" if number in gone else line for number, line in enumerate(text.splitlines(), 1)]
    return "\n".join(kept) + "\n"


def chosen_installer(text: str) -> dict[str, int]:
    """Name -> line of the functions that may install the patch; empty if its import installs it.

    Functions that undo another function are left out. Raises Unreadable.
    """
    tree = parse(text)
    _, installing = _installing(tree)
    torch = _torch_names(tree)
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or _is_main(
            node
        ):
            continue
        called = {_root(each.func) for each in nodes_in(node, ast.Call)}
        if any(_writes(node, torch)) or called & installing:
            return {}
    found = uncalled_installers(text)
    installers = {
        name: line for name, line in found.items() if not name.lstrip("_").startswith(_UNDOING)
    }
    return installers or found or _scopes(tree)


def is_scope(text: str, name: str) -> bool:
    """True if the function, or the class, that a call names is a context manager."""
    return name.partition("(")[0] in _context_managers(parse(text))


def _context_managers(tree: ast.Module) -> dict[str, ast.FunctionDef | ast.ClassDef]:
    found: dict[str, ast.FunctionDef | ast.ClassDef] = {
        name: node
        for name, node in _functions(tree).items()
        if any(ast.unparse(each) in SCOPES for each in node.decorator_list)
    }
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and {"__enter__", "__exit__"} <= _methods(node).keys():
            found[node.name] = node
    return found


def _scopes(tree: ast.Module) -> dict[str, int]:
    """Call -> line of the context managers that change torch. The call is copied from a `with` in
    the file. A class without a `with` is listed by its name, if it needs no arguments.
    """
    torch, found = _torch_names(tree), dict[str, int]()
    managers = {
        name: node for name, node in _context_managers(tree).items() if any(_writes(node, torch))
    }
    for block in nodes_in(tree, ast.With):
        for item in block.items:
            call = item.context_expr
            name = _root(call.func) if isinstance(call, ast.Call) else None
            if name in managers:
                with suppress(Invalid):
                    found.setdefault(read_call(ast.unparse(call)), managers.pop(name).lineno)
    for name, node in managers.items():
        made = _methods(node).get("__init__") if isinstance(node, ast.ClassDef) else None
        if isinstance(node, ast.ClassDef) and (made is None or _needs(made) <= 1):
            found[name] = node.lineno
    return found


def uncalled_installers(text: str) -> dict[str, int]:
    """Name -> line of the functions that assign to something of torch, directly or by a call, if
    the file does not use their names.

    Functions with required arguments are left out.
    """
    tree = parse(text)
    functions, installing = _installing(tree)
    used = {each.id for each in nodes_in(tree, ast.Name)}
    # A decorator that the file defines gets the function, and may call it or pass it on.
    for name, node in functions.items():
        decorators = (
            each.func if isinstance(each, ast.Call) else each for each in node.decorator_list
        )
        used |= {name for each in decorators if _root(each) in functions}
    return {
        name: functions[name].lineno
        for name in functions
        if name in installing - used and not _needs(functions[name])
    }


def missing_function(text: str, name: str) -> list[str] | None:
    """Return the file's functions if it certainly does not define `name`; None if it may define it.

    Code that makes names from texts, or imports `*`, may define any name. Raises Unreadable.
    """
    tree = parse(text)
    bound = set(_imported(tree)) | {
        each.id if isinstance(each, ast.Name) else each.name
        for each in ast.walk(tree)
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        or (isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Del))
    }
    if bound & {name, *_BINDING_ANY} or _OWN_MODULE in text:
        return None
    return list(_functions(tree))


def _installing(tree: ast.Module) -> tuple[dict[str, ast.FunctionDef], set[str]]:
    """The functions of a file, and the names of the functions that assign to something of torch,
    directly or by a call.
    """
    torch, functions = _torch_names(tree), _functions(tree)
    named = {
        name: {each.id for each in nodes_in(node, ast.Name)} for name, node in functions.items()
    }
    installing = {name for name, node in functions.items() if any(_writes(node, torch))}
    while grown := {name for name, names in named.items() if names & installing} - installing:
        installing |= grown
    return functions, installing


def _torch_names(tree: ast.Module) -> set[str]:
    """The names that imports from torch bind, and names to which an attribute of such a name is
    assigned: `table = torch.a.table`.
    """
    names = set(_imported(tree, _TORCH))
    for node in nodes_in(tree, ast.Assign):
        if isinstance(node.value, ast.Attribute) and _root(node.value) in names:
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def _methods(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}


def _functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _needs(function: ast.FunctionDef) -> int:
    """The number of required arguments, including `self`."""
    arguments = function.args
    positional = len(arguments.posonlyargs + arguments.args) - len(arguments.defaults)
    return positional + arguments.kw_defaults.count(None)


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _installs(node: ast.stmt, functions: dict[str, ast.FunctionDef]) -> Iterator[ast.stmt]:
    """The statements by which `node` may install something under a condition. For an `if`: itself
    and the file's functions that it calls. For a call: the called functions with an `if` in them.
    """
    called = [
        functions[each.func.id]
        for each in nodes_in(node, ast.Call)
        if isinstance(each.func, ast.Name) and each.func.id in functions
    ]
    if isinstance(node, ast.If):
        yield node
        yield from called
    elif isinstance(node, ast.Expr):
        yield from (function for function in called if any(nodes_in(function, ast.If)))


def _writes(node: ast.AST, imported: set[str]) -> Iterator[str]:
    """The last names of assigned attributes of imported objects; "entry" for an item."""
    for each in ast.walk(node):
        if isinstance(each, (ast.Attribute, ast.Subscript)) and isinstance(each.ctx, ast.Store):
            if _root(each) in imported:
                yield each.attr if isinstance(each, ast.Attribute) else "entry"
        elif (
            isinstance(each, ast.Call)
            and ast.unparse(each.func) == "setattr"
            and len(each.args) == 3
        ):
            owner, name = each.args[:2]
            if _root(owner) in imported:
                yield str(name.value) if isinstance(name, ast.Constant) else "attribute"


def _root(node: ast.expr) -> str | None:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _imported(tree: ast.Module, projects: Collection[str] = ()) -> Iterator[str]:
    """The names that imports bind; with `projects`, only the names from these packages."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None)
            for alias in node.names:
                if not projects or (module or alias.name).split(".")[0] in projects:
                    yield alias.asname or alias.name.split(".")[0]


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
