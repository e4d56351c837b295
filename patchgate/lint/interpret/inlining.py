"""Small functions of a patch and of its project's other files, read for the value that they return."""

from __future__ import annotations

import ast
from dataclasses import replace

from patchgate.lint.index.release import Release
from patchgate.lint.interpret.bindings import promised_by
from patchgate.lint.interpret.project_files import OwnFiles
from patchgate.lint.interpret.project_values import apart, may_tell, own_value
from patchgate.lint.interpret.references import Reachability, Usage
from patchgate.lint.interpret.state import State, execute_block, read
from patchgate.lint.interpret.values import (
    UNKNOWN,
    VERSION,
    External,
    Instance,
    Known,
    LocalFunction,
    OwnFunction,
    OwnModule,
    OwnName,
    Scope,
    Symbol,
    Unknown,
    Value,
    unknown,
)

# Calls of small functions in each other that are followed.
_MAX_INLINED = 3
# Arguments that are equal are the same: 1 and True are not.
_PLAIN = (str, int, float, type(None))
_Arguments = tuple[tuple[str | None, Value, tuple[type, ...]], ...]


def value_of_own_call(
    callee: OwnFunction, arguments: list[Value], keywords: dict[str | None, Value], state: State
) -> tuple[Value, Value]:
    """What a call of a function of another file returns, and what its annotation promises.

    It is asked of the release, so that another release with the same answer shares the reading of the caller.
    """
    given = [(None, each) for each in arguments], [*keywords.items()]
    key = tuple((name, each, _types(each)) for part in given for name, each in part)
    plain = all(types is not None for _, _, types in key)
    if plain and state.own is not None and not state.own.unfinished:
        _, value, promised = state.release.ask(_own_call, state.own, callee.own, len(arguments), key, state.inlined)
        return value, promised
    if state.own is not None:
        state.own.followed.add(callee.own)
    outside = replace(state, scope=callee.function.scope)
    promised = promised_by(getattr(callee.function.node, "returns", None), outside)
    return inline(callee.function, arguments, keywords, state), promised


def _types(value: Value) -> tuple[type, ...] | None:
    """The types of a plain value; None where it cannot be compared by what it is."""
    if isinstance(value, Known):
        return tuple(map(type, value.values)) if all(isinstance(each, _PLAIN) for each in value.values) else None
    return () if isinstance(value, (Unknown, Symbol, Instance, External, OwnName, OwnModule)) else None


def _own_call(
    release: Release, files: OwnFiles, name: OwnName, positional: int, given: _Arguments, inlined: int
) -> tuple[ast.AST | None, Value, Value]:
    state = State(release=release, own=files, inlined=inlined)
    with apart(files, release):
        callee = own_value(name, state)
        if not isinstance(callee, OwnFunction):
            return None, callee, UNKNOWN
        arguments = [value for _, value, _ in given[:positional]]
        value = inline(callee.function, arguments, {key: each for key, each, _ in given[positional:]}, state)
        outside = replace(state, scope=callee.function.scope)
        return callee.function.node, value, promised_by(getattr(callee.function.node, "returns", None), outside)


def inline(function: LocalFunction, arguments: list[Value], keywords: dict[str | None, Value], state: State) -> Value:
    """What a small function of the patch returns, when only the torch version decides it."""
    node = function.node
    if state.inlined >= _MAX_INLINED or isinstance(node, (ast.Lambda, ast.AsyncFunctionDef)):
        return UNKNOWN
    if not may_tell(node) or len(arguments) > len(node.args.args):
        return UNKNOWN
    inner = state.having(
        scope=Scope(parent=function.scope),
        usage=Usage(),
        returned=[],
        reachability=Reachability.REACHABLE,
        attempt=None,
        inlined=state.inlined + 1,
    )
    _assign_arguments(node.args, arguments, keywords, inner, inner.having(scope=function.scope))
    execute_block(node.body, inner)
    results = inner.returned
    if results and all(result == results[0] for result in results):
        return results[0]
    return unknown(*results, because=VERSION if inner.usage.gates else frozenset())


def _assign_arguments(
    parameters: ast.arguments,
    arguments: list[Value],
    keywords: dict[str | None, Value],
    inner: State,
    outside: State,
) -> None:
    """What the parameters of a function stand for in one call: what is passed, else their defaults."""
    positional = [*parameters.posonlyargs, *parameters.args]
    last = positional[len(positional) - len(parameters.defaults) :]
    defaults = [*zip(last, parameters.defaults, strict=True)]
    defaults += [
        (each, value) for each, value in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True) if value
    ]
    for each in (*positional, *parameters.kwonlyargs):
        inner.scope.assign(each.arg, keywords.get(each.arg, UNKNOWN))
    for each, default in defaults:
        if each.arg not in keywords:
            inner.scope.assign(each.arg, read(default, outside))
    for each, value in zip(positional, arguments, strict=False):
        inner.scope.assign(each.arg, value)
