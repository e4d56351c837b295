"""Reads off a file's text which of its statements only import, define, compare or read a version.

Whatever is not known to be harmless is in doubt: what could call, change or keep something of torch, and what need not
come out the same in every process.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import types
from collections import Counter
from collections.abc import Iterator
from typing import Any

# Builtins that neither change anything nor call what they are given.
_CALLABLE = (
    AssertionError, AttributeError, Exception, ImportError, NotImplementedError, RuntimeError, TypeError, ValueError,
    all, any, bool, callable, dict, enumerate, float, frozenset, getattr, hasattr, int, isinstance, issubclass, len,
    list, max, min, object, print, range, repr, reversed, set, sorted, str, sum, tuple, zip,
)  # fmt: skip
_BUILTINS = {"__name__", *(each.__name__ for each in _CALLABLE)}
# Functions that may be called, and modules of which what is listed in `__all__` may be read. Not what such a module has
# imported itself: `re.enum.sys` is `sys`.
_CALLS = {
    *(f"packaging.version.{name}" for name in ("Version", "parse", "InvalidVersion", "LegacyVersion")),
    *(f"packaging.specifiers.{name}" for name in ("Specifier", "SpecifierSet")),
    *(f"re.{name}" for name in ("compile", "escape", "findall", "fullmatch", "match", "search", "split", "sub")),
    *(f"typing.{name}" for name in ("TypeVar", "cast", "final", "overload", "runtime_checkable")),
    *("abc.abstractmethod", "collections.defaultdict", "collections.namedtuple", "dataclasses.dataclass"),
    *("dataclasses.field", "enum.auto", "enum.unique", "functools.cache", "functools.lru_cache", "logging.getLogger"),
    *("looseversion.LooseVersion", "torch.torch_version.TorchVersion", "typing_extensions.override"),
}
_LISTED = ("abc", "enum", "re", "typing", "typing_extensions")
# It evaluates text.
_EVALUATING = ("typing.get_type_hints", "typing_extensions.get_type_hints")
_MODULES = {"packaging", "packaging.version", "packaging.specifiers", "torch.torch_version", *_LISTED}
# It writes to what it is given; as a decorator, that is a function of the file.
_WRAPS = "functools.wraps"
# Builtins that call nothing of what they are given, and keep nothing of it.
_ASKING = {"bool", "callable", "getattr", "hasattr", "isinstance", "issubclass", "len", "print", "repr", "str"}
# Those of which the answer is no part of what they were asked about.
_ANSWERING = _ASKING - {"getattr"}
# Arguments that are functions, and names of a class or module that Python reads by itself.
_CALLED_BACK = {"key", "default_factory"}
_NAMED = {"__name__", "__qualname__", "__doc__", "__file__", "__version__"}
_TITLES = {"__all__", "__version__", "__author__", "__slots__", "__doc__", "__license__"}
# What may be read of torch: its version, and whether the compiler has a name. The rest of torch, `os` and `sys` are
# not the same in the processes that compile.
_READABLE = ("torch.__version__", "torch.version", "torch._inductor", "torch._dynamo", "torch._functorch", "torch.fx")
_DIFFERS = ("torch._dynamo.device_interface",)
# Methods of strings, versions, specifiers, mappings, matches and loggers.
_METHODS = {name for name in dir(str) if not name.startswith("_")}
_METHODS |= {"contains", "get", "group", "groups", "items", "keys", "match", "search", "values"}
_METHODS |= {"debug", "info", "warning"}
_STATEMENTS = (
    ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.While,
    ast.Try, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.Raise, ast.Assert, ast.Pass,
    ast.Break, ast.Continue,
)  # fmt: skip
# Modules that `import torch` loads.
_LOADED_BY_TORCH = {"torch.version"}
# Packages that nothing of torch is changed by importing.
_ANYWHERE = {*sys.stdlib_module_names, "packaging"}
_OTHER_CODE = (ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda)
# Attributes that lead from any object to modules, frames or the object of an exception; so do all with two underscores.
_LEADING_OUT = {f"{kind}_frame" for kind in ("tb", "gi", "cr", "ag")}
_LEADING_OUT |= {"tb_next", "f_back", "f_globals", "f_locals", "f_builtins", "obj"}
# What Python calls some time later, of a module and of a class.
_CALLED_LATER = ("__getattr__", "__dir__"), ("__del__",)
_NEW_OBJECTS = (
    ast.Constant, ast.JoinedStr, ast.List, ast.Set, ast.Dict, ast.Tuple, ast.ListComp, ast.SetComp, ast.DictComp,
)  # fmt: skip


class Names:
    """What the names of one file stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self._imported: dict[str, str] = {}  # name -> dotted name
        self._defined: set[str] = set()
        self._several: set[str] = set()  # imported from several places, or assigned as well
        self._changeable = _names_of_new_objects(tree)
        self._in_classes = {
            id(inner) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for inner in node.body
        }
        bound: Counter[str] = Counter()
        for node in ast.walk(tree):
            for name, dotted in _imported_names(node):
                if self._imported.setdefault(name, dotted) != dotted:
                    self._several.add(name)
                    bound[name] += 1
            bound.update(_bound_names(node))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self._defined.add(node.name)
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and not isinstance(node.value, ast.Constant):
                self._several |= {
                    name for each in ast.walk(node) for name in _bound_names(each)
                } & self._imported.keys()
        self._bound = {*bound, *self._imported}
        self._ambiguous = {name for name, times in bound.items() if times + (name in self._imported) > 1}
        # Lines from which on a module of torch is loaded because the file itself imports it.
        self._loaded = _lines_of_imports(tree)
        self._tainted = set[str]()
        while more := self._assigned_from_torch(tree) - self._tainted:
            self._tainted |= more

    def _assigned_from_torch(self, tree: ast.Module) -> set[str]:
        """Names that hold something of torch, or something that holds it."""
        found = set[str]()
        for node in ast.walk(tree):
            if isinstance(node, (ast.For, ast.comprehension)):
                value, targets = node.iter, [node.target]
            elif isinstance(node, ast.Assign):
                value, targets = node.value, node.targets
            elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and node.value is not None:
                value, targets = node.value, [node.target]
            else:
                continue
            if self._is_of_torch(value):
                found |= {name for each in targets for part in ast.walk(each) for name in _bound_names(part)}
        return found

    def _is_of_torch(self, node: ast.AST) -> bool:
        """Whether the value may be, or hold, something of torch: not a version, and not the answer to a question."""
        if isinstance(node, (ast.Compare, ast.JoinedStr)):
            return False
        if isinstance(node, (ast.Name, ast.Attribute)) and (dotted := self._dotted(node)):
            return _is_within(dotted, _READABLE[2:])
        if isinstance(node, ast.Name):
            return node.id in self._tainted
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _ANSWERING:
            return False
        return any(self._is_of_torch(child) for child in ast.iter_child_nodes(node))

    def doubts(self, statement: ast.stmt | ast.excepthandler) -> Iterator[str]:
        """What of a statement, without the statements in it, may have an effect."""
        if not isinstance(statement, (*_STATEMENTS, ast.excepthandler)):
            yield f"a statement that may change something ({type(statement).__name__.lower()})"
        if isinstance(statement, ast.ImportFrom) and (statement.level or statement.names[0].name == "*"):
            yield "imports from the project, or every name of a module"
        yield from _imported_anew(statement)
        yield from self._of_class(statement)
        for decorator in getattr(statement, "decorator_list", ()):
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            wraps = isinstance(decorator, ast.Call) and self._dotted(called) == _WRAPS and len(decorator.args) == 1
            if not ((wraps and not decorator.keywords) or self._may_be_called(called)):
                yield f"the decorator {ast.unparse(called)}"
        if isinstance(statement, ast.AugAssign) and ast.unparse(statement.target) not in self._changeable:
            yield f"changes {ast.unparse(statement.target)}"
        if isinstance(statement, ast.Return) and statement.value is not None and self._is_of_torch(statement.value):
            yield "hands on something of torch"
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and self._is_of_torch(statement.args):
            yield "hands on something of torch"
        yield from self._in_expressions(statement)

    def _of_class(self, statement: ast.stmt | ast.excepthandler) -> Iterator[str]:
        """What makes Python call something by itself."""
        if isinstance(statement, ast.ClassDef):
            yield from (f"a class that is made from {ast.unparse(base)}" for base in statement.bases)
            yield from (f"a class that is made with {word.arg}" for word in statement.keywords)
        is_member = id(statement) in self._in_classes
        if isinstance(statement, ast.FunctionDef) and statement.name in _CALLED_LATER[is_member]:
            yield f"defines {statement.name}"
        if is_member and isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield "a class that imports"
        value = statement.value if isinstance(statement, (ast.Assign, ast.AnnAssign)) else None
        if is_member and value is not None and self._is_of_torch(value):
            yield "a class that holds something of torch"
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = list(_without_statements(statement))
            names = {name for node in inner for name in (*_bound_names(node), *(n for n, _ in _imported_names(node)))}
            special = sorted(name for name in names - _TITLES if name.startswith("__") and name.endswith("__"))
            yield from (f"binds {name}" for name in special)

    def _in_expressions(self, node: ast.AST) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.stmt, ast.excepthandler)):
                continue
            is_decorator = child in getattr(node, "decorator_list", ())
            if is_decorator and isinstance(child, ast.Call) and self._dotted(child.func) == _WRAPS:
                yield from self._in_expressions(ast.List(elts=list(child.args), ctx=ast.Load()))
                continue
            if isinstance(child, (ast.Attribute, ast.Subscript)) and not isinstance(child.ctx, ast.Load):
                yield f"sets {ast.unparse(child)}"
            elif isinstance(child, _OTHER_CODE):
                yield f"runs other code ({type(child).__name__.lower()})"
            elif isinstance(child, ast.Call):
                yield from self._of_call(child)
            elif isinstance(child, ast.Attribute) and self._dotted(child):
                if not self._is_readable(child):
                    yield f"reads {ast.unparse(child)}"
                continue
            elif isinstance(child, ast.Attribute) and _leads_out(child.attr) and not self._is_of_torch(child):
                yield f"reads {ast.unparse(child)}"
            elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load) and not self._is_known(child):
                yield f"reads {child.id}"
            if isinstance(child, ast.Call) and isinstance(child.func, (ast.Name, ast.Attribute)):
                parts = [*child.args, *(word.value for word in child.keywords)]
                if isinstance(child.func, ast.Attribute) and not self._dotted(child.func):
                    parts.append(child.func.value)
                yield from self._in_expressions(ast.List(elts=parts, ctx=ast.Load()))
            else:
                yield from self._in_expressions(child)

    def _of_call(self, call: ast.Call) -> Iterator[str]:
        text = ast.unparse(call.func)
        if not self._may_be_called(call.func):
            yield f"calls {text}"
        for word in call.keywords:
            known = isinstance(word.value, ast.Name) and word.value.id in self._defined | _BUILTINS - self._bound
            if (word.arg in _CALLED_BACK and not known) or word.arg is None:
                yield f"lets {text} call something"
        values = [*call.args, *(word.value for word in call.keywords)]
        if text not in _ASKING and any(self._is_of_torch(value) for value in values):
            yield f"hands something of torch to {text}"
        leads = any(isinstance(value, ast.Constant) and _leads_out(str(value.value)) for value in values[1:2])
        if text == "getattr" and leads and not self._is_of_torch(call):
            yield f"reads {ast.unparse(call)}"
        if text in ("getattr", "hasattr") and not self._asks_for_no_module(call):
            yield f"asks with {text} for what other imports may have loaded"

    def _asks_for_no_module(self, call: ast.Call) -> bool:
        """Whether a name that is asked for has nothing to do with which modules of torch are loaded."""
        owner, name = [*call.args, None, None][:2]
        dotted = self._dotted(owner) if owner is not None else ""
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            return False
        return not isinstance(sys.modules.get(dotted), types.ModuleType) or not _is_module(f"{dotted}.{name.value}")

    def _is_known(self, node: ast.Name) -> bool:
        """Whether reading the name alone can do no harm, and gives the same in every process."""
        if node.id in self._imported:
            return self._is_readable(node)
        return node.id in self._bound or node.id in _BUILTINS

    def _dotted(self, node: ast.expr) -> str:
        """The dotted name of what an import brought in; empty for anything else."""
        if isinstance(node, ast.Attribute):
            owner = self._dotted(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return self._imported.get(node.id, "") if isinstance(node, ast.Name) else ""

    def _is_readable(self, node: ast.Name | ast.Attribute) -> bool:
        dotted, root = self._dotted(node), node
        while isinstance(root, ast.Attribute):
            root = root.value  # type: ignore[assignment]
        if isinstance(root, ast.Name) and root.id in self._several:
            return False
        if _is_within(dotted, _READABLE):
            return not _is_within(dotted, _DIFFERS) and self._stays_in_torch(dotted, node.lineno)
        owner, _, name = dotted.rpartition(".")
        listed = owner in _LISTED and name in getattr(sys.modules.get(owner), "__all__", ())
        return dotted not in _EVALUATING and (listed or dotted in _CALLS or dotted in _MODULES or dotted == "torch")

    def _stays_in_torch(self, dotted: str, line: int) -> bool:
        """Whether each part of the name is torch's own, in a module that the file itself has imported by then."""
        parts = dotted.split(".")
        value: Any = sys.modules.get(parts[0])
        for end in range(2, len(parts) + 1):
            name = ".".join(parts[:end])
            value = getattr(value, parts[end - 1], None)
            if isinstance(value, types.ModuleType):
                if value.__name__ != name or (name not in _LOADED_BY_TORCH and self._loaded.get(name, line) >= line):
                    return False
            elif value is not None and _home_of(value) not in ("torch", "triton", "builtins"):
                return False
        return True

    def _may_be_called(self, function: ast.expr) -> bool:
        dotted = self._dotted(function)
        if isinstance(function, ast.Name):
            name = function.id
            if name in self._ambiguous:
                return False
            # The lines of a function of the file itself are looked at where they run.
            return name in self._defined or (not dotted and name in _BUILTINS) or dotted in _CALLS
        if not isinstance(function, ast.Attribute):
            return False
        if dotted and dotted in _CALLS:
            return self._is_readable(function)
        owner = self._dotted(function.value)
        if not owner and self._is_of_torch(function.value):
            return False
        return function.attr in _METHODS and (not owner or _is_within(owner, _READABLE[:2]))


def _imported_names(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Each name that an import binds, and what it stands for."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            dotted = alias.name if alias.asname or module else name
            yield name, f"{module}.{dotted}".lstrip(".")


def _bound_names(node: ast.AST) -> Iterator[str]:
    """The names that a node binds, but for an import."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name


def _names_of_new_objects(tree: ast.Module) -> set[str]:
    """Names that stand for nothing but what the file itself has made, so that to change it changes nothing else."""
    made, other = set[str](), set[str]()
    for node in ast.walk(tree):
        is_made = isinstance(node, ast.Assign) and isinstance(node.value, _NEW_OBJECTS)
        names = {each.id for each in getattr(node, "targets", ()) if isinstance(each, ast.Name)} if is_made else set()
        made |= names
        if isinstance(node, ast.AugAssign):
            continue
        bound = [node] if not isinstance(node, ast.Name) else []
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.For, ast.comprehension, ast.NamedExpr)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            bound += [part for each in targets for part in ast.walk(each)]
        other |= {name for each in bound for name in (*_bound_names(each), *dict(_imported_names(each)))} - names
    return made - other


def _leads_out(name: str) -> bool:
    return name in _LEADING_OUT or (name.startswith("__") and name.endswith("__") and name not in _NAMED)


def _without_statements(statement: ast.AST) -> Iterator[ast.AST]:
    yield statement
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, (ast.stmt, ast.excepthandler)):
            yield from _without_statements(child)


def _lines_of_imports(tree: ast.Module) -> dict[str, int]:
    """Module -> the line of the first import of it that runs whenever the file does, or is caught where it fails."""
    found: dict[str, int] = {}
    blocks = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.Try))]
    for node in (node for block in blocks for node in block):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            for end in range(name.count(".") + 1):
                part = ".".join(name.split(".")[: end + 1])
                found[part] = min(found.get(part, node.lineno), node.lineno)
    return found


def _home_of(value: object) -> str:
    """The package of a function, class or other object."""
    module = getattr(value, "__module__", None) if isinstance(value, (type, types.FunctionType)) else None
    return str(module or type(value).__module__).partition(".")[0]


def _is_module(name: str) -> bool:
    owner = sys.modules.get(name.rpartition(".")[0])
    return name in sys.modules or (hasattr(owner, "__path__") and importlib.util.find_spec(name) is not None)


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
    loaded = hasattr(sys.modules.get(parent), "__path__")
    return importlib.util.find_spec(name if not parent or loaded else top) is not None


def _is_within(dotted: str, places: tuple[str, ...]) -> bool:
    return any(dotted == place or dotted.startswith(f"{place}.") for place in places)
