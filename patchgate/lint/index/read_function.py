"""One function's syntax tree -> its record, a fingerprint of its body, and the calls in it.

Decides when two bodies are the same: docstring, comments, layout and the building Python do not count.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator

from patchgate.lint.index.records import CallSite, Function, Parameter
from patchgate.lint.index.spelling import spelled

_FORMS = {
    "staticmethod": "static",
    "classmethod": "class",
    "property": "property",
    "cached_property": "cached-property",
    "cache_property_on_self": "property",
}
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
        parameters=_parameters(node.args),
        form=form,
        is_async=isinstance(node, ast.AsyncFunctionDef),
        returns=spelled(node.returns) if node.returns else None,
        body=fingerprint(node),
    )


def fingerprint(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Six hex digits of what the body does."""
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


def calls_of(node: ast.AST, module: str, function: str) -> Iterator[tuple[str, CallSite]]:
    """(last name of the callee, call) for each call in `node`."""
    return ((name, call) for name, call, _ in calls_in(node, module, function))


def calls_in(node: ast.AST, module: str, function: str) -> Iterator[tuple[str, CallSite, int]]:
    """(last name of the callee, call, line) for each call in `node`."""
    for each in nodes_of(node):
        if isinstance(each, ast.Call):
            called = each.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
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
                    ),
                    each.lineno,
                )


def read_parameters(text: str) -> tuple[Parameter, ...]:
    """The parameters that stand between the parentheses of a `def`."""
    node = ast.parse(f"def f({text}): ...").body[0]
    assert isinstance(node, ast.FunctionDef)
    return _parameters(node.args)


def _parameters(arguments: ast.arguments) -> tuple[Parameter, ...]:
    found = []
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    for at, (each, default) in enumerate(zip(plain, defaults, strict=True)):
        kind = "positional-only" if at < len(arguments.posonlyargs) else "positional"
        found.append(Parameter(name=each.arg, kind=kind, default=ast.unparse(default) if default else None))
    if arguments.vararg:
        found.append(Parameter(name=arguments.vararg.arg, kind="var-positional"))
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(Parameter(name=each.arg, kind="keyword", default=ast.unparse(default) if default else None))
    if arguments.kwarg:
        found.append(Parameter(name=arguments.kwarg.arg, kind="var-keyword"))
    return tuple(found)
