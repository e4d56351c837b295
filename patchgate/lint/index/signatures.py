"""The fit of a call to a signature, by Python's own binding rules."""

from __future__ import annotations

from collections.abc import Sequence

from patchgate.lint.index.records import Parameter

_POSITIONAL = ("positional-only", "positional")


def misfit(
    parameters: Sequence[Parameter],
    positional: int,
    keywords: Sequence[str],
    *,
    starred: bool = False,
) -> str | None:
    """Why a call does not bind, or None when it does. A starred call may pass anything more."""
    slots = [each for each in parameters if each.kind in _POSITIONAL]
    kinds = {each.kind for each in parameters}
    if positional > len(slots) and "var-positional" not in kinds:
        return (
            f"takes {len(slots)} positional argument{'s' * (len(slots) != 1)}, {positional} given"
        )
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
    """True if a parameter of the original can still be passed to the replacement."""
    kinds = {each.kind for each in parameters}
    if any(
        each.name == wanted.name and each.kind in ("positional", "keyword") for each in parameters
    ):
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
