"""A torch release in memory, made of source texts: what the lint tests judge patches against."""

from __future__ import annotations

import ast
from functools import cached_property

from patchgate.lint.index.read_function import fingerprint
from patchgate.lint.index.records import CallSite, Class, Function, Module, Parameter
from patchgate.lint.index.release import Found


class ToyRelease:
    """Answers like a release of the index, for the modules given as {dotted name: source}."""

    def __init__(self, version: str, sources: dict[str, str]) -> None:
        self.version = version
        names = {".".join(name.split(".")[:at]) for name in sources for at in range(1, len(name.split(".")) + 1)}
        self.sources = {name: sources.get(name, "") for name in names}
        self.trees = {name: ast.parse(text) for name, text in self.sources.items()}
        self.registered: dict[str, set[str]] = {}
        self.known = {name: _module(name, tree) for name, tree in self.trees.items()}

    def module(self, name: str) -> Module | None:
        return self.known.get(name)

    def modules(self) -> frozenset[str]:
        return frozenset(self.known)

    def resolve(self, dotted: str, depth: int = 0) -> Found | None:
        if dotted in self.known and not depth:
            owner, _, name = dotted.rpartition(".")
            if owner not in self.known or name not in self.known[owner].functions:
                return Found(kind="module", origin=dotted, symbol=self.known[dotted])
        module = dotted
        while module and module not in self.known:
            module = module.rpartition(".")[0]
        if module == dotted:
            module = dotted.rpartition(".")[0]
        if not module or depth > 8:
            return None
        rest = dotted[len(module) + 1 :]
        here = self.known[module]
        for kind, table in (("function", here.functions), ("class", here.classes)):
            if rest in table:
                return Found(kind=kind, origin=dotted, symbol=table[rest])
        if rest in here.attributes:
            return Found(kind="attribute", origin=dotted, symbol=None)
        first, _, after = rest.partition(".")
        if first in here.imports:
            origin = here.imports[first] + (f".{after}" if after else "")
            if origin in self.known:
                return Found(kind="module", origin=origin, symbol=self.known[origin])
            return self.resolve(origin, depth + 1) or Found(kind="maybe", origin=origin, symbol=None)
        if after and (first in here.classes or (owner := rest.rpartition(".")[0]) in here.classes):
            owner = rest.rpartition(".")[0]
            return self.member(f"{module}.{owner}", rest.rpartition(".")[2])
        return None

    def member(self, class_dotted: str, name: str) -> Found | None:
        maybe = None
        todo = [class_dotted]
        while todo:
            found = self.resolve(todo.pop(0))
            if found is None or not isinstance(found.symbol, Class):
                maybe = Found(kind="maybe", origin=class_dotted, symbol=None)
                continue
            symbol = found.symbol
            if name in symbol.functions:
                return Found(kind="function", origin=f"{found.origin}.{name}", symbol=symbol.functions[name])
            if name in symbol.attributes:
                return Found(kind="attribute", origin=f"{found.origin}.{name}", symbol=None)
            if symbol.has_getattr:
                maybe = Found(kind="maybe", origin=found.origin, symbol=None)
            todo = [base for base in symbol.bases if base != "object"] + todo
        return maybe

    def holders(self, dotted: str) -> tuple[str, ...]:
        return tuple(
            f"{module.name}.{name}"
            for module in self.known.values()
            for name, origin in module.imports.items()
            if origin == dotted
        )

    def registries(self, dotted: str) -> tuple[str, ...]:
        return tuple(sorted(self.registered.get(dotted, ())))

    def subclasses(self, class_dotted: str) -> tuple[str, ...]:
        found = [
            f"{module.name}.{name}"
            for module in self.known.values()
            for name, symbol in module.classes.items()
            if class_dotted in symbol.bases
        ]
        return tuple(found) + tuple(deep for each in found for deep in self.subclasses(each))

    @cached_property
    def _calls(self) -> dict[str, list[CallSite]]:
        table: dict[str, list[CallSite]] = {}
        for module, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.Call):
                    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                    site = CallSite(
                        module=module,
                        function="",
                        positional=len(node.args),
                        keywords=tuple(each.arg for each in node.keywords if each.arg),
                        star=any(isinstance(each, ast.Starred) for each in node.args)
                        or any(each.arg is None for each in node.keywords),
                    )
                    table.setdefault(name, []).append(site)
        return table

    def calls(self, bare_name: str) -> tuple[CallSite, ...]:
        return tuple(self._calls.get(bare_name, ()))

    def place(self, site: CallSite, callee: str) -> str:
        return f"{site.module}.{site.function}".rstrip(".")

    def source(self, dotted: str) -> str | None:
        module = dotted
        while module not in self.known:
            module = module.rpartition(".")[0]
        path = dotted[len(module) + 1 :].split(".")
        body: list[ast.stmt] = self.trees[module].body
        node: ast.AST | None = None
        for name in path:
            node = next((each for each in body if getattr(each, "name", None) == name), None)
            body = getattr(node, "body", [])
        return ast.get_source_segment(self.sources[module], node) if node is not None else None


def _module(name: str, tree: ast.Module) -> Module:
    functions: dict[str, Function] = {}
    classes: dict[str, Class] = {}
    attributes: dict[str, str | None] = {}
    imports: dict[str, str] = {}
    config: dict[str, str] = {}
    for node in _flat(tree.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions[node.name] = _function(node, in_class=False)
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = _class(name, tree, node)
        elif isinstance(node, ast.ImportFrom):
            base = name.rsplit(".", node.level)[0] + "." if node.level else ""
            origin = (base + (node.module or "")).rstrip(".")
            imports.update({each.asname or each.name: f"{origin}.{each.name}" for each in node.names})
        elif isinstance(node, ast.Import):
            for each in node.names:
                imports[each.asname or each.name.split(".")[0]] = each.name if each.asname else each.name.split(".")[0]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    annotation = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else None
                    attributes[target.id] = annotation
                    if name.endswith("config") and node.value is not None:
                        config[target.id] = ast.unparse(node.value)
    return Module(
        name=name,
        functions=functions,
        classes=classes,
        attributes=attributes,
        imports=imports,
        lazy_imports={},
        config=config,
        has_getattr="__getattr__" in functions,
    )


def _flat(body: list[ast.stmt]) -> list[ast.stmt]:
    found = []
    for node in body:
        found.append(node)
        if isinstance(node, (ast.If, ast.Try)):
            found += _flat(node.body) + _flat(node.orelse)
    return found


def _class(module: str, tree: ast.Module, node: ast.ClassDef) -> Class:
    functions = {
        each.name: _function(each, in_class=True)
        for each in node.body
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    attributes: dict[str, str | None] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.AnnAssign):
            target, annotation = each.target, ast.unparse(each.annotation)
        elif isinstance(each, ast.Assign):
            target, annotation = each.targets[0], None
        else:
            continue
        if isinstance(target, ast.Name) and each in node.body:
            attributes[target.id] = annotation
        elif isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == "self":
            attributes.setdefault(target.attr, annotation)
    bases = []
    for base in node.bases:
        text = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        first, _, rest = text.partition(".")
        imports = _module_imports(tree, module)
        bases.append(".".join(filter(None, (imports.get(first, f"{module}.{first}"), rest))))
    return Class(
        name=node.name,
        bases=tuple(base for base in bases if not base.endswith((".object", ".ABC", ".Enum"))),
        functions=functions,
        attributes=attributes,
        has_getattr="__getattr__" in functions,
        abstract=False,
    )


def _module_imports(tree: ast.Module, module: str) -> dict[str, str]:
    found = {}
    for node in _flat(tree.body):
        if isinstance(node, ast.ImportFrom):
            base = module.rsplit(".", node.level)[0] + "." if node.level else ""
            found.update(
                {e.asname or e.name: f"{(base + (node.module or '')).rstrip('.')}.{e.name}" for e in node.names}
            )
        elif isinstance(node, ast.Import):
            found.update({e.asname or e.name.split(".")[0]: e.name.split(".")[0] for e in node.names})
    return found


_FORMS = {"staticmethod": "static", "classmethod": "class", "property": "property"}
_FORMS["cached_property"] = "cached-property"


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, *, in_class: bool) -> Function:
    form = "method" if in_class else "function"
    for decorator in node.decorator_list:
        form = _FORMS.get(ast.unparse(decorator).rpartition(".")[2], form)
    return Function(
        name=node.name,
        parameters=_parameters(node.args),
        form=form,
        is_async=isinstance(node, ast.AsyncFunctionDef),
        returns=ast.unparse(node.returns) if node.returns else None,
        body=fingerprint(node),
    )


def _parameters(arguments: ast.arguments) -> tuple[Parameter, ...]:
    found = []
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    for at, (each, default) in enumerate(zip(plain, defaults, strict=True)):
        kind = "positional-only" if at < len(arguments.posonlyargs) else "positional"
        found.append(Parameter(name=each.arg, kind=kind, default=ast.unparse(default) if default else None))
    if arguments.vararg:
        found.append(Parameter(name=arguments.vararg.arg, kind="var-positional", default=None))
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(Parameter(name=each.arg, kind="keyword", default=ast.unparse(default) if default else None))
    if arguments.kwarg:
        found.append(Parameter(name=arguments.kwarg.arg, kind="var-keyword", default=None))
    return tuple(found)
