"""Shows that running a patch does nothing: each statement that runs only imports, defines, compares or reads a version.

What is not known to be harmless counts as an effect. The file is run up to the first such statement, which does not
run: nothing that a patch could use against the judge has run when the answer is there.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NoReturn

# Builtins that neither change anything nor call what they are given.
_CALLABLE = (
    AssertionError, AttributeError, Exception, ImportError, NotImplementedError, RuntimeError, TypeError, ValueError,
    all, any, bool, callable, dict, enumerate, float, frozenset, getattr, hasattr, int, isinstance, issubclass, len,
    list, max, min, object, print, range, repr, reversed, set, sorted, str, sum, tuple, zip,
)  # fmt: skip
_BUILTINS = {"__name__", *(each.__name__ for each in _CALLABLE)}
# Modules whose names may be read and whose functions may be called.
_HARMLESS = ("packaging", "typing", "typing_extensions", "re", "enum", "abc", "looseversion", "torch.torch_version")
_HARMLESS_CALLS = (
    "collections.defaultdict",
    "collections.namedtuple",
    "dataclasses.dataclass",
    "dataclasses.field",
    "functools.cache",
    "functools.lru_cache",
    "functools.wraps",
    "logging.getLogger",
)
# What may be read of torch: its version, and whether the compiler has a name. The rest of torch, `os` and `sys` are
# not the same in the processes that compile.
_READABLE = ("torch.__version__", "torch.version", "torch._inductor", "torch._dynamo", "torch._functorch", "torch.fx")
_DIFFERS = ("torch._dynamo.device_interface",)
# Methods of strings, versions, specifiers, mappings, matches and loggers.
_METHODS = {name for name in dir(str) if not name.startswith("_")}
_METHODS |= {
    "contains",
    "debug",
    "get",
    "group",
    "groups",
    "info",
    "items",
    "keys",
    "match",
    "search",
    "values",
    "warning",
}
_STATEMENTS = (
    ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.While,
    ast.Try, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.Raise, ast.Assert, ast.Pass,
    ast.Break, ast.Continue,
)  # fmt: skip
# Packages that nothing of torch is changed by importing.
_ANYWHERE = {*sys.stdlib_module_names, "packaging"}
_OTHER_CODE = (ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda)


def tracer(statements: Statements, stop: Callable[[str], NoReturn]) -> Callable[..., Any]:
    """For `sys.settrace`: calls `stop` before the first statement in doubt runs."""

    def trace_line(frame: types.FrameType, event: str, argument: Any) -> Any:
        doubt = statements.doubts.get(frame.f_lineno)
        if doubt:
            stop(doubt)
        return trace_line

    def trace_call(frame: types.FrameType, event: str, argument: Any) -> Any:
        return trace_line if frame.f_code.co_filename == statements.path else None

    return trace_call


class Statements:
    """The statements of a file, and why one of them may have an effect."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, encoding="utf-8") as file:
            self._tree = ast.parse(file.read())

    @cached_property
    def doubts(self) -> dict[int, str]:
        """Line -> why it may have an effect, as `line 12: ...`; only lines that may."""
        names, found = _Names(self._tree), dict[int, str]()
        for statement in ast.walk(self._tree):
            if isinstance(statement, (ast.stmt, ast.excepthandler)):
                what = next(names.doubts(statement), "")
                for line in _header_lines(statement) if what else ():
                    found.setdefault(line, f"line {statement.lineno}: {what}")
        return found


def _header_lines(statement: ast.stmt | ast.excepthandler) -> set[int]:
    """The lines of a statement without those of the statements in it."""
    inner = [node.lineno for node in ast.walk(statement) if node is not statement and isinstance(node, ast.stmt)]
    last = statement.end_lineno or statement.lineno
    first = min([statement.lineno, *(node.lineno for node in getattr(statement, "decorator_list", ()))])
    return set(range(first, max(statement.lineno + 1, min([*inner, last + 1]))))


class _Names:
    """What the names of one file stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self._imported: dict[str, str] = {}  # name -> dotted name
        self._defined: set[str] = set()
        bound: Counter[str] = Counter()
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                for alias in node.names:
                    name = alias.asname or alias.name.split(".")[0]
                    dotted = alias.name if alias.asname or module else name
                    bound[name] += self._imported.get(name) != f"{module}.{dotted}".lstrip(".")
                    self._imported[name] = f"{module}.{dotted}".lstrip(".")
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                bound[node.name] += 1
                self._defined.add(node.name)
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                bound[node.id] += 1
            elif isinstance(node, ast.arg):
                bound[node.arg] += 1
        self._bound = bound
        self._ambiguous = {name for name, times in bound.items() if times > 1}

    def doubts(self, statement: ast.stmt | ast.excepthandler) -> Iterator[str]:
        """What of a statement, without the statements in it, may have an effect."""
        if not isinstance(statement, (*_STATEMENTS, ast.excepthandler)):
            yield f"a statement that may change something ({type(statement).__name__.lower()})"
        if isinstance(statement, ast.ImportFrom) and (statement.level or statement.names[0].name == "*"):
            yield "imports from the project, or every name of a module"
        yield from _imported_anew(statement)
        if isinstance(statement, ast.ClassDef):
            yield from (f"a class that is made from {ast.unparse(base)}" for base in statement.bases)
            yield from (f"a class that is made with {word.arg}" for word in statement.keywords)
        for decorator in getattr(statement, "decorator_list", ()):
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if not self._may_be_called(called):
                yield f"the decorator {ast.unparse(called)}"
        yield from self._in_expressions(statement)

    def _in_expressions(self, node: ast.AST) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.stmt, ast.excepthandler)):
                continue
            if isinstance(child, (ast.Attribute, ast.Subscript)) and not isinstance(child.ctx, ast.Load):
                yield f"sets {ast.unparse(child)}"
            elif isinstance(child, _OTHER_CODE):
                yield f"runs other code ({type(child).__name__.lower()})"
            elif isinstance(child, ast.Call) and not self._may_be_called(child.func):
                yield f"calls {ast.unparse(child.func)}"
            elif isinstance(child, ast.Attribute) and self._dotted(child):
                if not self._is_readable(child):
                    yield f"reads {ast.unparse(child)}"
                continue
            elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load) and not self._is_known(child.id):
                yield f"reads {child.id}"
            if isinstance(child, ast.Call) and isinstance(child.func, (ast.Name, ast.Attribute)):
                parts = [*child.args, *(word.value for word in child.keywords)]
                if isinstance(child.func, ast.Attribute) and not self._dotted(child.func):
                    parts.append(child.func.value)
                yield from self._in_expressions(ast.List(elts=parts, ctx=ast.Load()))
            else:
                yield from self._in_expressions(child)

    def _is_known(self, name: str) -> bool:
        """Whether reading the name alone can do no harm, and gives the same in every process."""
        if name in self._imported:
            return self._is_readable(ast.Name(id=name))
        return name in self._bound or name in _BUILTINS

    def _dotted(self, node: ast.expr) -> str:
        """The dotted name of what an import brought in; empty for anything else."""
        if isinstance(node, ast.Attribute):
            owner = self._dotted(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return self._imported.get(node.id, "") if isinstance(node, ast.Name) else ""

    def _is_readable(self, node: ast.expr) -> bool:
        dotted = self._dotted(node)
        return _is_within(dotted, (*_READABLE, *_HARMLESS, *_HARMLESS_CALLS)) and not _is_within(dotted, _DIFFERS)

    def _may_be_called(self, function: ast.expr) -> bool:
        dotted = self._dotted(function)
        if isinstance(function, ast.Name):
            name = function.id
            if name in self._ambiguous:
                return False
            # The lines of a function of the file itself are looked at where they run.
            return name in self._defined or (not dotted and name in _BUILTINS) or self._is_harmless_call(dotted)
        if not isinstance(function, ast.Attribute):
            return False
        if dotted and self._is_harmless_call(dotted):
            return True
        owner = self._dotted(function.value)
        return function.attr in _METHODS and (not owner or _is_within(owner, _READABLE[:2]))

    def _is_harmless_call(self, dotted: str) -> bool:
        return _is_within(dotted, (*_HARMLESS, *_HARMLESS_CALLS))


def _imported_anew(statement: ast.AST) -> Iterator[str]:
    """The modules that an import would run: they may register something."""
    if isinstance(statement, ast.Import):
        names = [alias.name for alias in statement.names]
    elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
        owner = sys.modules.get(statement.module)
        inner = [alias.name for alias in statement.names if owner is not None and not hasattr(owner, alias.name)]
        names = [statement.module, *(f"{statement.module}.{name}" for name in inner)]
    else:
        return
    yield from (f"it imports {name}" for name in names if name not in sys.modules and _would_run(name))


def _would_run(name: str) -> bool:
    """Whether importing a module that is not loaded runs something that may matter; nothing runs here."""
    parent, top = name.rpartition(".")[0], name.partition(".")[0]
    if top in _ANYWHERE:
        return False
    # Of a module in a package that is not loaded, the package's own file runs first.
    return importlib.util.find_spec(name if not parent or parent in sys.modules else top) is not None


def _is_within(dotted: str, places: tuple[str, ...]) -> bool:
    return any(dotted == place or dotted.startswith(f"{place}.") for place in places)
