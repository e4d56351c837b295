"""Reads the syntax tree of a module into its record: functions with fingerprints of their bodies,
classes, imports and calls.

The code here also chooses among several definitions of a name, and normalizes annotations.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import re
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache, partial

from patchgate.lint.index.records import CallSite, Class, Function, Module, Parameter
from patchgate.model.syntax_tree import nodes_of

Calls = list[tuple[str, CallSite]]
# A call inside a function counts as filling a registry or table only if the name of the callee
# matches this pattern, because functions contain too many other calls.
_FILLS = re.compile(r"register|fallback|layout_constraint|decomp|py_impl")


def read_module(name: str, tree: ast.Module, *, package: bool) -> tuple[Module, Calls]:
    reader = _Reader(name, package, options=name.endswith("config") or _installs_options(tree))
    for node, certain in flat(tree.body):
        reader.statement(node, certain)
    eager = {id(node) for node, _ in flat(tree.body)}
    for each in nodes_of(tree):
        if isinstance(each, (ast.Import, ast.ImportFrom)) and id(each) not in eager:
            for local, origin in reader.bound(each):
                reader.lazy.setdefault(local, origin)
    held = {(keeper, reader.origin(local)) for keeper, local in handed_over(tree)}
    called = {callee for callee, _ in reader.calls}
    handed_on = CallSite(module=name, function="", positional=0, receiver="=")
    reader.calls += ((each, handed_on) for each in sorted(values_in(tree) - called))
    return reader.record(held=tuple(sorted(held)), makes_names=_makes_names(tree)), reader.calls


def read_stub(name: str, tree: ast.Module) -> Module:
    """Read the names in the stub of a C extension. Their signatures are not read, because stubs
    often have wrong ones.
    """
    named = (each.name for each in tree.body if isinstance(each, (*DEFINITIONS, ast.ClassDef)))
    assigned = (target for each in tree.body for target, _, _ in _assigned(each))
    return Module(name=name, attributes=dict.fromkeys((*named, *assigned)))


def imported_names(
    node: ast.Import | ast.ImportFrom, module: str = "", *, package: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield (local name, dotted origin) for each name that an import statement binds."""
    if isinstance(node, ast.Import):
        for each in node.names:
            first = each.name.split(".")[0]
            yield (each.asname, each.name) if each.asname else (first, first)
        return
    origin = node.module or ""
    if node.level:
        parents = module.split(".")
        kept = parents[: len(parents) - node.level + package]
        origin = ".".join([*kept, *filter(None, [node.module])])
    for each in node.names:
        # A star import binds no name of its own, and a module may have several star imports.
        local = f"{origin}.*" if each.name == "*" else each.name
        yield each.asname or local, f"{origin}.{each.name}"


class _Reader:
    def __init__(self, name: str, package: bool, *, options: bool) -> None:
        self.name, self.options = name, options
        self.bound = partial(imported_names, module=name, package=package)
        self.functions: dict[str, Function] = {}
        self.nodes: dict[str, ast.ClassDef] = {}
        self.attributes: dict[str, str | None] = {}
        self.imports: dict[str, str] = {}
        self.lazy: dict[str, str] = {}
        self.config: dict[str, str] = {}
        self.calls: Calls = []

    def statement(self, node: ast.stmt, certain: bool) -> None:
        if isinstance(node, DEFINITIONS):
            if is_overload(node):
                return
            if certain or node.name not in self.functions:
                self.functions[node.name] = read_function(node, in_class=False)
            self._add_calls(node, node.name)
        elif isinstance(node, ast.ClassDef):
            if certain or node.name not in self.nodes:
                self._class(node.name, node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for local, origin in self.bound(node):
                self.imports.setdefault(local, origin)
        else:
            for target, annotation, value in _assigned(node):
                self.attributes.setdefault(target, annotation)
                if self.options and value is not None and not target.startswith("__"):
                    self.config.setdefault(target, ast.unparse(value))
            if not isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
                self._add_calls(node, "")

    def _add_calls(self, node: ast.AST, function: str) -> None:
        self.calls += ((callee, call) for callee, call, _ in calls_in(node, self.name, function))

    def _class(self, name: str, node: ast.ClassDef) -> None:
        self.nodes[name] = node
        for each, _ in flat(node.body):
            if isinstance(each, ast.ClassDef):
                self._class(f"{name}.{each.name}", each)
            elif isinstance(each, DEFINITIONS):
                self._add_calls(each, f"{name}.{each.name}")
            elif self.options:
                for target, _annotation, value in _assigned(each):
                    if value is not None and not target.startswith("__"):
                        self.config.setdefault(f"{name}.{target}", ast.unparse(value))

    def origin(self, local: str) -> str:
        return self.imports.get(local) or self.lazy.get(local) or f"{self.name}.{local}"

    def record(self, *, held: tuple[tuple[str, str], ...], makes_names: bool) -> Module:
        return Module(
            name=self.name,
            functions=self.functions,
            classes={name: self._class_record(name, node) for name, node in self.nodes.items()},
            attributes=self.attributes,
            imports=self.imports,
            lazy_imports=self.lazy,
            config=self.config,
            held=held,
            has_getattr="__getattr__" in self.functions or makes_names,
        )

    def _class_record(self, name: str, node: ast.ClassDef) -> Class:
        functions: dict[str, Function] = {}
        attributes: dict[str, str | None] = {}
        for each, certain in flat(node.body):
            if isinstance(each, DEFINITIONS):
                if not is_overload(each) and (certain or each.name not in functions):
                    functions[each.name] = read_function(each, in_class=True)
            else:
                attributes.update((target, annotation) for target, annotation, _ in _assigned(each))
                if isinstance(each, (ast.Import, ast.ImportFrom)):
                    attributes.update((local, None) for local, _ in self.bound(each))
        for each, _ in flat(node.body):
            if isinstance(each, DEFINITIONS):
                for target, annotation in _on_self(each):
                    if target not in functions:
                        attributes[target] = attributes.get(target) or annotation
        bases = tuple(self._dotted(base) for base in node.bases)
        return Class(
            name=name,
            bases=bases,
            functions=functions,
            attributes=attributes,
            has_getattr=bool({"__getattr__", "__getattribute__"} & functions.keys()),
            abstract=any(text.endswith("ABC") for text in bases)
            or any("ABCMeta" in ast.unparse(each.value) for each in node.keywords),
        )

    def _dotted(self, base: ast.expr) -> str:
        """Return the dotted name of a base class; `f()` if the base is the result of a call."""
        if isinstance(base, ast.Call):
            return f"{self._dotted(base.func)}()"
        text = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        first, _, rest = text.partition(".")
        origin = f"{self.name}.{first}"
        if not (first in self.nodes or first in self.attributes or first in self.functions):
            origin = self.origin(first)
            if first not in self.imports and first not in self.lazy and hasattr(builtins, first):
                origin = f"builtins.{first}"
        return f"{origin}.{rest}" if rest else origin


def _assigned(node: ast.stmt) -> Iterator[tuple[str, str | None, ast.expr | None]]:
    """Yield (name, annotation, value) for each plain name that one statement binds."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, spelled(node.annotation), node.value
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            for each in ast.walk(target):
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                    yield each.id, None, node.value if each is target else None
    elif isinstance(node, ast.For):
        for each in ast.walk(node.target):
            if isinstance(each, ast.Name):
                yield each.id, None, None
    elif isinstance(node, ast.With):
        for item in node.items:
            if isinstance(item.optional_vars, ast.Name):
                yield item.optional_vars.id, None, None


def _on_self(function: FunctionDefinition) -> Iterator[tuple[str, str | None]]:
    """Yield (name, annotation) for each `self.name = ...` in a method. Its first parameter may have
    a name other than `self`.
    """
    arguments = [*function.args.posonlyargs, *function.args.args]
    if not arguments or any(
        ast.unparse(each) == "staticmethod" for each in function.decorator_list
    ):
        return
    first = arguments[0].arg
    nodes = nodes_of(function)
    notes = {
        id(node.target): spelled(node.annotation)
        for node in nodes
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute)
    }
    for node in nodes:
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
            continue
        if isinstance(node.value, ast.Name) and node.value.id == first:
            yield node.attr, notes.get(id(node))


def _installs_options(tree: ast.Module) -> bool:
    """True if the module turns itself into a config module:
    `install_config_module(sys.modules[__name__])`.
    """
    calls = (
        node.value.func
        for node in tree.body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    )
    return any(ast.unparse(each).endswith("install_config_module") for each in calls)


def _makes_names(tree: ast.Module) -> bool:
    """True if the module sets its own names at run time, by `globals()[...]` or `setattr`."""
    itself = {"sys.modules[__name__]"}
    for node in nodes_of(tree):
        if isinstance(node, ast.Assign):
            if isinstance(node.value, ast.Subscript) and ast.unparse(node.value) in itself:
                itself.update(ast.unparse(each) for each in node.targets)
            inside = [
                each.value
                for each in node.targets
                if isinstance(each, (ast.Subscript, ast.Attribute))
            ]
            if any(ast.unparse(each) in ("globals()", "sys.modules[__name__]") for each in inside):
                return True
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", "") == "setattr"
            and any(ast.unparse(each) in itself for each in node.args[:1])
        ):
            return True
    return False


def handed_over(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield (registry or table, local name) for each name that the module passes to a call or puts
    into a table. The name need not belong to a function.
    """
    inside: set[int] = set()
    for node in nodes_of(tree):
        if isinstance(node, (*DEFINITIONS, ast.Lambda)):
            parts = [node.body] if isinstance(node, ast.Lambda) else node.body
            inside.update(id(each) for part in parts for each in nodes_of(part))
    top = {id(node) for node in tree.body}
    for node in nodes_of(tree):
        if isinstance(node, ast.Call):
            keeper = last_name(node.func)
            if keeper and (id(node) not in inside or _FILLS.search(keeper)):
                given = values_given(node)
                yield from ((keeper, each.id) for each in given if isinstance(each, ast.Name))
        elif isinstance(node, DEFINITIONS) and id(node) in top:
            keepers = (
                last_name(each.func if isinstance(each, ast.Call) else each)
                for each in node.decorator_list
            )
            yield from ((keeper, node.name) for keeper in keepers if _FILLS.search(keeper))
        elif isinstance(node, ast.Assign) and id(node) in top:
            yield from _tabled(node)


def _tabled(node: ast.Assign) -> Iterator[tuple[str, str]]:
    """Yield (table, local name) for `TABLE = {key: f}`, `TABLE = [f]` and `TABLE[key] = f`."""
    value, target = node.value, node.targets[0]
    keeper = last_name(target.value if isinstance(target, ast.Subscript) else target)
    parts: list[ast.expr | None] = []
    if isinstance(value, ast.Dict):
        parts = [*value.values]
    elif isinstance(value, (ast.List, ast.Tuple, ast.Set)):
        parts = [*value.elts]
    elif isinstance(target, ast.Subscript):
        parts = [value]
    if keeper:
        yield from ((keeper, each.id) for each in parts if isinstance(each, ast.Name))


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FunctionDefinition = ast.FunctionDef | ast.AsyncFunctionDef


def function_text(text: str, name: str) -> str | None:
    """The source of `f` or `Class.f` without decorators; None if the module defines no such
    function.
    """
    node = defined(text, name)
    if node is None or isinstance(node, ast.ClassDef):
        return None
    return "\n".join(text.split("\n")[node.lineno - 1 : node.end_lineno])


def call_line(text: str, callee: str, site: CallSite) -> int | None:
    """Return the line number of the call of `callee` that equals `site`, or None. The search covers
    `site.function`, or the whole module if `site.function` is empty.
    """
    node = defined(text, site.function) if site.function else parsed(text)
    for name, call, line in calls_in(node, site.module, site.function) if node is not None else ():
        if name == callee and call == site:
            return line
    return None


def defined(text: str, name: str) -> FunctionDefinition | ast.ClassDef | None:
    """Return the definition of `f` or `Class.f` that is in effect; None if there is none."""
    tree = parsed(text)
    return inside(tree, name) if tree is not None else None


def inside(owner: ast.Module | ast.ClassDef, name: str) -> FunctionDefinition | ast.ClassDef | None:
    """Like `defined`, but for a parsed module or class."""
    body, found = owner.body, None
    for part in name.split("."):
        found = None
        for node, certain in flat(body):
            if not isinstance(node, (*DEFINITIONS, ast.ClassDef)) or node.name != part:
                continue
            if (certain or found is None) and (
                isinstance(node, ast.ClassDef) or not is_overload(node)
            ):
                found = node
        body = found.body if found is not None else []
    return found


def parsed(text: str) -> ast.Module | None:
    """The syntax tree; None if this Python cannot parse the text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def flat(body: list[ast.stmt], certain: bool = True) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield the statements of a body and of its blocks, each with True if it always runs.

    Code below `if TYPE_CHECKING` is left out: its imports count like imports inside functions.
    """
    for node in body:
        yield node, certain
        if isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
            if not (
                isinstance(node, ast.If)
                and ast.unparse(node.test).rpartition(".")[2].lstrip("_") == "TYPE_CHECKING"
            ):
                yield from flat(node.body, False)
            yield from flat(getattr(node, "orelse", []), False)
            for handler in getattr(node, "handlers", []):
                yield from flat(handler.body, False)
            yield from flat(getattr(node, "finalbody", []), False)


def is_overload(node: FunctionDefinition) -> bool:
    """True for a typing overload, and for the setter or deleter of a property. These do not define
    the name.
    """
    names = [ast.unparse(each).rpartition(".")[2] for each in node.decorator_list]
    return any(name in ("overload", "setter", "deleter") for name in names)


_FORMS = {
    "staticmethod": "static",
    "classmethod": "class",
    "property": "property",
    "cached_property": "cached-property",
    "cache_property_on_self": "property",
}
_BUILTIN = {name.title(): name for name in ("list", "dict", "tuple", "set", "type")} | {
    "FrozenSet": "frozenset"
}
_TYPING = ("typing", "typing_extensions", "collections.abc")
# Fields of syntax nodes that differ between Python versions and do not change what a body does.
_SILENT = frozenset(["ctx", "type_comment", "type_params", "kind"])


def read_function(node: FunctionDefinition, *, in_class: bool) -> Function:
    form = "method" if in_class else "function"
    if in_class and node.name in ("__new__", "__init_subclass__", "__class_getitem__"):
        form = "static" if node.name == "__new__" else "class"
    for decorator in node.decorator_list:
        form = _FORMS.get(ast.unparse(decorator).rpartition(".")[2], form) if in_class else form
    return Function(
        name=node.name,
        parameters=parameters_of(node.args),
        form=form,
        is_async=isinstance(node, ast.AsyncFunctionDef),
        returns=spelled(node.returns) if node.returns else None,
        body=fingerprint(node),
    )


def fingerprint(node: FunctionDefinition) -> str:
    """Return six hex digits of a hash of the body, without docstring, comments and layout."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    parts: list[str] = []
    _spell(body, parts.append)
    return hashlib.sha256("".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:6]


def _spell(value: object, write: Callable[[str], None]) -> None:
    if isinstance(value, ast.AST):
        write(type(value).__name__)
        write("(")
        for name in value._fields:
            inner = getattr(value, name, None)
            if (inner is None and name != "value") or inner == [] or name in _SILENT:
                continue
            write(name)
            write("=")
            _spell(inner, write)
        write(")")
    elif isinstance(value, list):
        write("[")
        for each in value:
            _spell(each, write)
            write(",")
        write("]")
    else:
        write(repr(value))


def values_given(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call: first the positional ones, then the keyword arguments."""
    return [*call.args, *(each.value for each in call.keywords)]


def last_name(node: ast.AST) -> str:
    """The last name of an expression, `c` for `c` and `a.b.c`; empty for other expressions."""
    return (
        node.attr
        if isinstance(node, ast.Attribute)
        else node.id
        if isinstance(node, ast.Name)
        else ""
    )


def _receiver(called: ast.expr) -> str:
    """Return the receiver of a call in the form of `CallSite`. `Class.f`, `cls.f` and `type(x).f`
    count as called on a class.
    """
    if not isinstance(called, ast.Attribute):
        return ""
    owner = called.value
    if isinstance(owner, ast.Call):
        return ":" if ast.unparse(owner.func) == "type" else "."
    name = last_name(owner)
    return ":" if name == "cls" or (name.lstrip("_")[:1].isupper() and not name.isupper()) else "."


def values_in(node: ast.AST) -> set[str]:
    """The last part of each name that is used as a value and not called (such as an argument, an
    element or an assigned value), and each such string that is an identifier.
    """
    found: set[str] = set()
    for each in nodes_of(node):
        parts: list[ast.expr | None] = []
        if isinstance(each, ast.Call):
            parts = [*values_given(each)]
        elif isinstance(each, (ast.Tuple, ast.List, ast.Set)):
            parts = [*each.elts]
        elif isinstance(each, ast.Dict):
            parts = [*each.values]
        elif isinstance(each, (ast.Assign, ast.AnnAssign, ast.Return)):
            parts = [each.value]
        elif isinstance(each, (*DEFINITIONS, ast.ClassDef)):
            parts = [*each.decorator_list]
        for part in parts:
            if part is not None and last_name(part):
                found.add(last_name(part))
            elif (
                isinstance(part, ast.Constant)
                and isinstance(part.value, str)
                and part.value.isidentifier()
            ):
                found.add(part.value)
    return found


def calls_in(node: ast.AST, module: str, function: str) -> Iterator[tuple[str, CallSite, int]]:
    """Yield (last name of the callee, call, line) for each call in `node`."""
    for each in nodes_of(node):
        if isinstance(each, ast.Call):
            name = last_name(each.func)
            if name:
                yield (
                    name,
                    CallSite(
                        module=module,
                        function=function,
                        positional=sum(
                            not isinstance(argument, ast.Starred) for argument in each.args
                        ),
                        keywords=tuple(keyword.arg for keyword in each.keywords if keyword.arg),
                        star=any(isinstance(argument, ast.Starred) for argument in each.args)
                        or any(keyword.arg is None for keyword in each.keywords),
                        receiver=_receiver(each.func),
                    ),
                    each.lineno,
                )


def parameters_of(arguments: ast.arguments) -> tuple[Parameter, ...]:
    plain = [*arguments.posonlyargs, *arguments.args]
    kinds = ["positional-only"] * len(arguments.posonlyargs) + ["positional"] * len(arguments.args)
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    found = [*zip(plain, kinds, defaults, strict=True)]
    if arguments.vararg:
        found.append((arguments.vararg, "var-positional", None))
    found += [
        (each, "keyword", value)
        for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg:
        found.append((arguments.kwarg, "var-keyword", None))
    return tuple(
        Parameter(
            name=each.arg, kind=kind, default=ast.unparse(default) if default is not None else None
        )
        for each, kind, default in found
    )


def spelled(node: ast.expr) -> str:
    """An annotation in modern spelling: `Optional[List["X"]]` is `list[X] | None`."""
    return _spelled(ast.unparse(node))


@lru_cache(maxsize=8192)
def _spelled(text: str) -> str:
    try:
        tree = ast.parse(text, mode="eval")
        return ast.unparse(ast.fix_missing_locations(_Modern().visit(tree)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text


class _Modern(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """Replace a forward reference by the expression inside its quotes."""
        if not isinstance(node.value, str):
            return node
        quoted: ast.expr = self.visit(ast.parse(node.value, mode="eval").body)
        return quoted

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return (
            self.visit_Name(ast.Name(id=node.attr)) if ast.unparse(node.value) in _TYPING else node
        )

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(id=_BUILTIN.get(node.id, node.id))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        owner = self.visit(node.value)
        name = owner.id if isinstance(owner, ast.Name) else ""
        if name in ("Literal", "Annotated"):
            return node
        inner = self.visit(node.slice)
        if name not in ("Optional", "Union"):
            return ast.Subscript(value=owner, slice=inner)
        some = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        return _either([*some, ast.Constant(value=None)] if name == "Optional" else some)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        return (
            _either([self.visit(node.left), self.visit(node.right)])
            if isinstance(node.op, ast.BitOr)
            else node
        )


def _either(parts: list[ast.expr]) -> ast.expr:
    """Join alternatives into `A | B | None`, with None last, as people write it."""
    flat: list[ast.expr] = []
    for each in parts:
        flat += _alternatives(each)
    nones = [each for each in flat if isinstance(each, ast.Constant) and each.value is None]
    rest = [each for each in flat if each not in nones] + nones[:1]
    found = rest[0]
    for each in rest[1:]:
        found = ast.BinOp(left=found, op=ast.BitOr(), right=each)
    return found


def _alternatives(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_alternatives(node.left), *_alternatives(node.right)]
    return [node]
