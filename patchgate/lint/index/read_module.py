"""One module's syntax tree -> its record, and the calls made in it.

What counts as a definition, an attribute, an import by value and an option is decided here.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from patchgate.lint.index.definitions import DEFINITIONS, flat, is_overload
from patchgate.lint.index.read_function import calls_in, last_name, nodes_of, read_function, spelled, values_in
from patchgate.lint.index.records import CallSite, Class, Function, Module

Calls = list[tuple[str, CallSite]]
# Calls inside functions are many; of these only such that fill a table by their own name.
_FILLS = re.compile(r"register|fallback|layout_constraint|decomp|py_impl")


def read_module(name: str, tree: ast.Module, *, package: bool) -> tuple[Module, Calls]:
    reader = _Reader(name, package, options=name.endswith("config") or _installs_options(tree))
    for node, certain in flat(tree.body):
        reader.statement(node, certain)
    for each in _lazy_imports(tree):
        for local, origin in reader.bound(each):
            reader.lazy.setdefault(local, origin)
    held = {(keeper, reader.origin(local)) for keeper, local in handed_over(tree)}
    called = {callee for callee, _ in reader.calls}
    handed_on = CallSite(module=name, function="", positional=0, receiver="=")
    reader.calls += ((each, handed_on) for each in sorted(values_in(tree) - called))
    return reader.record(held=tuple(sorted(held)), makes_names=_makes_names(tree)), reader.calls


class _Reader:
    def __init__(self, name: str, package: bool, *, options: bool) -> None:
        self.name, self.package, self.options = name, package, options
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

    def bound(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
        """(local name, dotted origin) for each name that an import statement binds."""
        if isinstance(node, ast.Import):
            for each in node.names:
                first = each.name.split(".")[0]
                yield (each.asname, each.name) if each.asname else (first, first)
            return
        origin = node.module or ""
        if node.level:
            parents = self.name.split(".")
            kept = parents[: len(parents) - node.level + self.package]
            origin = ".".join([*kept, *filter(None, [node.module])])
        for each in node.names:
            # A star has no name of its own; a module may have several.
            yield each.asname or (f"{origin}.*" if each.name == "*" else each.name), f"{origin}.{each.name}"

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
        """A base class as a dotted name; a call that makes one, as its own name with `()`."""
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
    """(name, annotation, value) for each plain name that one statement binds."""
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


def _on_self(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, str | None]]:
    """(name, annotation) for each `self.name = ...` in a method, whatever it calls its first parameter."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    if not arguments or any(ast.unparse(each) == "staticmethod" for each in function.decorator_list):
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
    """True if the module makes itself one of options: `install_config_module(sys.modules[__name__])`."""
    calls = (node.value.func for node in tree.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
    return any(ast.unparse(each).endswith("install_config_module") for each in calls)


def _makes_names(tree: ast.Module) -> bool:
    """True if the module gives itself names that no source spells out, by `globals()[...]` or `setattr`."""
    itself = {"sys.modules[__name__]"}
    for node in nodes_of(tree):
        if isinstance(node, ast.Assign):
            if isinstance(node.value, ast.Subscript) and ast.unparse(node.value) in itself:
                itself.update(ast.unparse(each) for each in node.targets)
            inside = [each.value for each in node.targets if isinstance(each, (ast.Subscript, ast.Attribute))]
            if any(ast.unparse(each) in ("globals()", "sys.modules[__name__]") for each in inside):
                return True
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", "") == "setattr"
            and any(ast.unparse(each) in itself for each in node.args[:1])
        ):
            return True
    return False


def _lazy_imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    eager = {id(node) for node, _ in flat(tree.body)}
    for node in nodes_of(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and id(node) not in eager:
            yield node


def handed_over(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(who keeps it, local name) for each name that is handed over; not yet known to be a function's."""
    inside: set[int] = set()
    for node in nodes_of(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            parts = [node.body] if isinstance(node, ast.Lambda) else node.body
            inside.update(id(each) for part in parts for each in nodes_of(part))
    top = {id(node) for node in tree.body}
    for node in nodes_of(tree):
        if isinstance(node, ast.Call):
            keeper = last_name(node.func)
            if keeper and (id(node) not in inside or _FILLS.search(keeper)):
                given = [*node.args, *(each.value for each in node.keywords)]
                yield from ((keeper, each.id) for each in given if isinstance(each, ast.Name))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and id(node) in top:
            keepers = (last_name(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list)
            yield from ((keeper, node.name) for keeper in keepers if _FILLS.search(keeper))
        elif isinstance(node, ast.Assign) and id(node) in top:
            yield from _tabled(node)


def _tabled(node: ast.Assign) -> Iterator[tuple[str, str]]:
    """`TABLE = {key: f}`, `TABLE[key] = f`."""
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
