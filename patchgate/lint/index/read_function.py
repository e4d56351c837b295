"""One function's syntax tree -> its record, with a fingerprint of its body; calls; how annotations are spelled."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator
from functools import lru_cache

from patchgate.lint.index.records import CallSite, Function, Parameter

_FORMS = {
    "staticmethod": "static",
    "classmethod": "class",
    "property": "property",
    "cached_property": "cached-property",
    "cache_property_on_self": "property",
}
_BUILTIN = {name.title(): name for name in ("list", "dict", "tuple", "set", "type")} | {"FrozenSet": "frozenset"}
_TYPING = ("typing", "typing_extensions", "collections.abc")
# Differ between the Pythons that may build an index, and say nothing about what a body does.
_SILENT = frozenset(["ctx", "type_comment", "type_params", "kind"])


def read_function(node: ast.FunctionDef | ast.AsyncFunctionDef, *, in_class: bool) -> Function:
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


def fingerprint(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Six hex digits of what the body does: docstring, comments and layout do not count."""
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


def nodes_of(node: ast.AST) -> list[ast.AST]:
    """`node` and everything below it: `ast.walk` at three times its speed, which is most of an index's time."""
    found = [node]
    for each in found:
        for name in each._fields:
            inner = getattr(each, name, None)
            if isinstance(inner, list):
                found += [item for item in inner if isinstance(item, ast.AST)]
            elif isinstance(inner, ast.AST):
                found.append(inner)
    return found


def last_name(node: ast.AST) -> str:
    """`c` of `c` and of `a.b.c`; empty for any other expression."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _receiver(called: ast.expr) -> str:
    """As CallSite has it: `Class.f`, `cls.f` and `type(x).f` are called on a class."""
    if not isinstance(called, ast.Attribute):
        return ""
    owner = called.value
    if isinstance(owner, ast.Call):
        return ":" if ast.unparse(owner.func) == "type" else "."
    name = last_name(owner)
    return ":" if name == "cls" or (name.lstrip("_")[:1].isupper() and not name.isupper()) else "."


def values_in(node: ast.AST) -> set[str]:
    """Last names of what is handed on and not called: arguments, elements, what is assigned, text that is a name."""
    found: set[str] = set()
    for each in nodes_of(node):
        parts: list[ast.expr | None] = []
        if isinstance(each, ast.Call):
            parts = [*each.args, *(keyword.value for keyword in each.keywords)]
        elif isinstance(each, (ast.Tuple, ast.List, ast.Set)):
            parts = [*each.elts]
        elif isinstance(each, ast.Dict):
            parts = [*each.values]
        elif isinstance(each, (ast.Assign, ast.AnnAssign, ast.Return)):
            parts = [each.value]
        elif isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            parts = [*each.decorator_list]
        for part in parts:
            if part is not None and last_name(part):
                found.add(last_name(part))
            elif isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.isidentifier():
                found.add(part.value)
    return found


def calls_in(node: ast.AST, module: str, function: str) -> Iterator[tuple[str, CallSite, int]]:
    """(last name of the callee, call, line) for each call in `node`."""
    for each in nodes_of(node):
        if isinstance(each, ast.Call):
            name = last_name(each.func)
            if name:
                yield (
                    name,
                    CallSite(
                        module=module,
                        function=function,
                        positional=sum(not isinstance(argument, ast.Starred) for argument in each.args),
                        keywords=tuple(keyword.arg for keyword in each.keywords if keyword.arg),
                        star=any(isinstance(argument, ast.Starred) for argument in each.args)
                        or any(keyword.arg is None for keyword in each.keywords),
                        receiver=_receiver(each.func),
                    ),
                    each.lineno,
                )


def read_parameters(text: str) -> tuple[Parameter, ...]:
    """The parameters that stand between the parentheses of a `def`."""
    node = ast.parse(f"def f({text}): ...").body[0]
    assert isinstance(node, ast.FunctionDef)
    return parameters_of(node.args)


def parameters_of(arguments: ast.arguments) -> tuple[Parameter, ...]:
    plain = [*arguments.posonlyargs, *arguments.args]
    kinds = ["positional-only"] * len(arguments.posonlyargs) + ["positional"] * len(arguments.args)
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    found = [*zip(plain, kinds, defaults, strict=True)]
    if arguments.vararg:
        found.append((arguments.vararg, "var-positional", None))
    found += [(each, "keyword", value) for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.kwarg:
        found.append((arguments.kwarg, "var-keyword", None))
    return tuple(
        Parameter(name=each.arg, kind=kind, default=ast.unparse(default) if default is not None else None)
        for each, kind, default in found
    )


def spelled(node: ast.expr) -> str:
    """The annotation as today's Python writes it: `Optional[List["X"]]` is `list[X] | None`."""
    return _spelled(ast.unparse(node))


@lru_cache(maxsize=8192)
def _spelled(text: str) -> str:
    try:
        tree = ast.parse(text, mode="eval")
        return ast.unparse(ast.fix_missing_locations(_Modern().visit(tree)))
    except (SyntaxError, ValueError, RecursionError):
        return text


class _Modern(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """A forward reference becomes the expression that it quotes."""
        if not isinstance(node.value, str):
            return node
        quoted: ast.expr = self.visit(ast.parse(node.value, mode="eval").body)
        return quoted

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self.visit_Name(ast.Name(id=node.attr)) if ast.unparse(node.value) in _TYPING else node

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
        return _either([self.visit(node.left), self.visit(node.right)]) if isinstance(node.op, ast.BitOr) else node


def _either(parts: list[ast.expr]) -> ast.expr:
    """`A | B | None`, None last, as people write it."""
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
