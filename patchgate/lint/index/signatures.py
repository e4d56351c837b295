"""Whether a call fits a signature.

Decides it by Python's own binding rules on the index's records. Knows neither patches nor releases.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from patchgate.lint.index.records import Parameter

_POSITIONAL = ("positional-only", "positional")


def parameters_of(arguments: ast.arguments) -> tuple[Parameter, ...]:
    """The parameters of a function of the patch, in the index's words."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + [ast.unparse(each) for each in arguments.defaults]
    found = []
    for at, (each, default) in enumerate(zip(plain, defaults, strict=True)):
        kind = "positional-only" if at < len(arguments.posonlyargs) else "positional"
        found.append(Parameter(name=each.arg, kind=kind, default=default))
    if arguments.vararg is not None:
        found.append(Parameter(name=arguments.vararg.arg, kind="var-positional", default=None))
    for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        text = ast.unparse(value) if value is not None else None
        found.append(Parameter(name=each.arg, kind="keyword", default=text))
    if arguments.kwarg is not None:
        found.append(Parameter(name=arguments.kwarg.arg, kind="var-keyword", default=None))
    return tuple(found)


def misfit(
    parameters: Sequence[Parameter], positional: int, keywords: Sequence[str], *, starred: bool = False
) -> str | None:
    """Why a call does not bind, or None when it does. A starred call may pass anything more."""
    slots = [each for each in parameters if each.kind in _POSITIONAL]
    kinds = {each.kind for each in parameters}
    if positional > len(slots) and "var-positional" not in kinds:
        return f"takes {len(slots)} positional argument{'s' * (len(slots) != 1)}, {positional} given"
    taken = {each.name for each in slots[:positional]}
    by_name = {each.name for each in parameters if each.kind in ("positional", "keyword")}
    for keyword in keywords:
        if keyword in taken and keyword in by_name:
            return f"gets `{keyword}` twice"
        if keyword not in by_name and "var-keyword" not in kinds:
            return f"does not take `{keyword}`"
    if starred:
        return None
    for each in parameters:
        required = each.default is None and each.kind in (*_POSITIONAL, "keyword")
        if required and each.name not in taken and each.name not in keywords:
            return f"needs `{each.name}`"
    return None


def accepts(parameters: Sequence[Parameter], wanted: Parameter, position: int) -> bool:
    """Whether a parameter of the original can still be passed to the replacement."""
    kinds = {each.kind for each in parameters}
    if any(each.name == wanted.name and each.kind in ("positional", "keyword") for each in parameters):
        return True
    if wanted.kind == "keyword":
        return "var-keyword" in kinds
    slots = [each for each in parameters if each.kind in _POSITIONAL]
    return position < len(slots) or "var-positional" in kinds


def written(parameters: Sequence[Parameter]) -> str:
    """Parameters as one would type them: `*, graph_reuse=True`."""
    plain = [_one(each) for each in parameters if each.kind in _POSITIONAL]
    named = [_one(each) for each in parameters if each.kind == "keyword"]
    star = ["*"] if named else []
    return ", ".join([*plain, *star, *named])


def _one(parameter: Parameter) -> str:
    return parameter.name if parameter.default is None else f"{parameter.name}={parameter.default}"
