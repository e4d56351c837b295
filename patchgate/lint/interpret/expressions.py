"""Evaluate the expressions of a patch, and apply what tests such as `isinstance` and `hasattr` show
about names.

Calls are in `calls.py`. A value made of constants and the torch version is computed once for each
spelling of the release.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from patchgate.lint.interpret.bindings import attribute, bind, put, read_owner
from patchgate.lint.interpret.calls import member_of_own, note_traps
from patchgate.lint.interpret.project_files import own_value
from patchgate.lint.interpret.references import Span
from patchgate.lint.interpret.state import State, read
from patchgate.lint.interpret.values import (
    PRESENCE,
    SPELLINGS,
    UNKNOWN,
    VERSION,
    Container,
    External,
    Instance,
    Known,
    LocalFunction,
    LocalObject,
    OwnName,
    Symbol,
    Table,
    Value,
    because_of,
    chain,
    constant,
    element_of,
    truth_of,
    unknown,
)
from patchgate.lint.interpret.version_gates import as_known, fold, traps_in, traps_of_specifiers
from patchgate.model.facts import ORDER

_OPERATORS = dict(zip((ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq), ORDER, strict=True))
_IDENTITIES: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.Is: lambda left, right: left is right,
    ast.IsNot: lambda left, right: left is not right,
}

_NONE = constant(None)
# The key of a table's entry that is meant for some releases only.
_VERSION_KEY = re.compile(r"\s*(?:torch)?\s*[<>=!~]*\s*v?\d+\.\d")
# Stands for a name of torch that is compared with None.
_IS_THERE = constant(True, PRESENCE)


@read.register(ast.Constant)
def read_constant(node: ast.Constant, state: State) -> Value:
    return constant(node.value)


@read.register(ast.Name)
def read_name(node: ast.Name, state: State) -> Value:
    if node.id in state.scope.narrowed:
        return state.scope.narrowed[node.id]
    value = state.scope.lookup(node.id)
    if value is None:
        return External(dotted=node.id)
    state.use(value)
    return own_value(value, state) if isinstance(value, OwnName) else value


@read.register(ast.Attribute)
def read_attribute(node: ast.Attribute, state: State) -> Value:
    owner = read_owner(node, state)
    if owner is UNKNOWN and not state.scope.narrowed:
        return UNKNOWN
    scope = state.scope
    key = chain(node) if scope.narrowed or scope.guarded else ""
    if isinstance(owner, LocalObject):
        guarded = key in scope.guarded
        known = scope.narrowed.get(key)
        return known or member_of_own(
            owner, node.attr, Span.of_attribute(node), state, guarded=guarded
        )
    value = attribute(
        owner, node.attr, Span.of_attribute(node), state, guarded=key in state.scope.guarded
    )
    return state.scope.narrowed.get(key, value) if key else value


@read.register(ast.Lambda)
def read_lambda(node: ast.Lambda, state: State) -> Value:
    function = LocalFunction(node=node, scope=state.scope)
    state.define(function)
    return function


@read.register(ast.NamedExpr)
def read_assignment_expression(node: ast.NamedExpr, state: State) -> Value:
    value = read(node.value, state)
    state.scope.assign(node.target.id, value)
    return value


@read.register(ast.Compare)
def read_comparison(node: ast.Compare, state: State) -> Value:
    operands = [read(operand, state) for operand in (node.left, *node.comparators)]
    because: frozenset[str] = frozenset()
    total: tuple[bool, ...] = (True,) * SPELLINGS
    for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
        if (
            isinstance(left, Symbol)
            and isinstance(operator, (ast.Is, ast.IsNot))
            and right == _NONE
        ):
            left = _IS_THERE
        if not isinstance(left, Known) or not isinstance(right, Known):
            return unknown(*operands)
        symbol = _OPERATORS.get(type(operator))
        result = fold(ORDER[symbol] if symbol else _IDENTITIES[type(operator)], left, right)
        if result is None:
            return unknown(left, right)
        because |= result.because
        if symbol and result.because >= VERSION:
            traps = traps_in(symbol, left, right, result.values, state.release.version)
            note_traps(node, traps, state)
        elif isinstance(operator, (ast.In, ast.NotIn)):
            note_traps(node, traps_of_specifiers(right, left), state)
        total = tuple(
            before and bool(now) for before, now in zip(total, result.values, strict=True)
        )
    return Known(values=total, because=because)


@read.register(ast.BoolOp)
def read_and_or(node: ast.BoolOp, state: State) -> Value:
    """Evaluate `and` or `or`: each operand is read with the facts that the earlier ones imply."""
    stops = isinstance(node.op, ast.Or)
    saved = state.scope.snapshot()
    known: list[Known] = []
    values: list[Value] = []
    for operand in node.values:
        value = read(operand, state)
        values.append(value)
        if isinstance(value, Known):
            known.append(value)
            if value.truth is stops:
                state = state.at(state.excluded_by(value))
        narrow(operand, not stops, state)
    state.scope.restore(saved)
    deciding = [value for value in known if value.truth is stops]
    if len(known) == len(node.values):
        combine = any if stops else all
        rows = zip(*(value.values for value in known), strict=True)
        return Known(
            values=tuple(combine(map(bool, row)) for row in rows),
            because=_because(deciding or known),
        )
    if deciding:
        return Known(values=deciding[0].values, because=_because(deciding))
    # No known operand decides, so the unknown ones do; with `or`, known version checks count too.
    because = (
        VERSION if stops and any(each.because >= VERSION for each in known) else frozenset[str]()
    )
    return unknown(
        *(value for value in values if not isinstance(value, Known) or value.truth is None),
        because=because,
    )


def _because(operands: list[Known]) -> frozenset[str]:
    return frozenset().union(*(operand.because for operand in operands))


@read.register(ast.UnaryOp)
def read_unary(node: ast.UnaryOp, state: State) -> Value:
    value = read(node.operand, state)
    if isinstance(node.op, ast.Not) and isinstance(value, Known):
        return Known(values=tuple(not each for each in value.values), because=value.because)
    if isinstance(node.op, ast.USub) and isinstance(value, Known):
        return fold(lambda number: -number, value) or UNKNOWN
    return unknown(value)


@read.register(ast.IfExp)
def read_conditional(node: ast.IfExp, state: State) -> Value:
    test = read(node.test, state)
    truth = truth_of(test)
    saved = state.scope.snapshot()
    results = []
    for branch, way in ((node.body, True), (node.orelse, False)):
        excluded = truth is not None and truth is not way
        here = state.at(state.excluded_by(test)) if excluded else state
        if truth is None and because_of(test):
            here = state.at(state.undecided())
        narrow(node.test, way, here)
        results.append(read(branch, here))
        state.scope.restore(saved)
    if truth is None:
        return results[0] if results[0] == results[1] else unknown(test, *results)
    return results[0 if truth else 1]


@read.register(ast.Tuple)
@read.register(ast.List)
def read_sequence(node: ast.Tuple | ast.List, state: State) -> Value:
    items = [read(item, state) for item in node.elts[:1]]
    items += [read(item, _keyed(items[0], state)) for item in node.elts[1:]]
    known = [item for item in items if isinstance(item, Known)]
    if len(known) < len(items):
        return unknown(*items)
    make = tuple if isinstance(node, ast.Tuple) else list
    values = tuple(make(item.values[at] for item in known) for at in range(SPELLINGS))
    return Known(values=values, because=_because(known))


def _keyed(key: Value, state: State) -> State:
    """The state for the value of a table's entry: undecided if the entry's key is a version."""
    text = key.values[0] if isinstance(key, Known) else None
    return (
        state.at(state.undecided()) if isinstance(text, str) and _VERSION_KEY.match(text) else state
    )


@read.register(ast.Subscript)
def read_subscript(node: ast.Subscript, state: State) -> Value:
    owner = read(node.value, state)
    if isinstance(node.slice, ast.Slice):
        parts = [node.slice.lower, node.slice.upper, node.slice.step]
        bounds = [_NONE if part is None else read(part, state) for part in parts]
        known = [bound for bound in bounds if isinstance(bound, Known)]
        if isinstance(owner, Known) and len(known) == len(bounds):
            return fold(lambda value, a, b, c: value[slice(a, b, c)], owner, *known) or UNKNOWN
        return owner if isinstance(owner, Container) else unknown(owner, *bounds)
    index = read(node.slice, state)
    if isinstance(owner, Known) and isinstance(index, Known):
        return fold(lambda value, at: value[at], owner, index) or unknown(owner)
    return element_of(owner) if isinstance(owner, Container) else unknown(owner)


@read.register(ast.ListComp)
@read.register(ast.SetComp)
@read.register(ast.GeneratorExp)
def read_comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp, state: State) -> Value:
    if len(node.generators) == 1 and not node.generators[0].ifs:
        items = read(node.generators[0].iter, state)
        if isinstance(items, Known):
            return _element_by_element(node, items, state)
    inner = _after_generators(node.generators, state)
    element = read(node.elt, inner)
    return Container(element=element) if isinstance(element, Instance) else unknown(element)


def _element_by_element(
    node: ast.ListComp | ast.SetComp | ast.GeneratorExp, items: Known, state: State
) -> Value:
    """The value of a comprehension over known items: `int(part) for part in v.split(".")`."""
    rows = [list(value) if isinstance(value, (list, tuple)) else [] for value in items.values]
    elements: list[Known] = []
    inner = replace(state, scope=state.scope.inner())
    for parts in zip(*rows, strict=False):
        bind(node.generators[0].target, Known(values=parts, because=items.because), inner)
        element = read(node.elt, inner)
        if not isinstance(element, Known):
            return unknown(items, element)
        elements.append(element)
    values = tuple([each.values[at] for each in elements] for at in range(SPELLINGS))
    return Known(values=values, because=items.because | _because(elements))


@read.register(ast.Dict)
def read_dict(node: ast.Dict, state: State) -> Value:
    table = Table()
    functions: dict[object, object] = {}
    for key, item in zip(node.keys, node.values, strict=True):
        known = read(key, state)
        value = read(item, _keyed(known, state))
        if key is None and isinstance(value, Table):
            table.keys.update(value.keys)
        table.because |= because_of(value)
        if key is not None:
            put(table, key, known, state)
            function = as_known(value)
            if (
                isinstance(key, ast.Constant)
                and isinstance(function, Known)
                and callable(function.values[0])
            ):
                functions[key.value] = function.values[0]
    # A dictionary from the text of an operator to its function, as in version helpers.
    return constant(functions) if functions and len(functions) == len(node.keys) else table


@read.register(ast.DictComp)
def read_dict_comprehension(node: ast.DictComp, state: State) -> Value:
    inner = _after_generators(node.generators, state)
    read(node.key, inner)
    read(node.value, inner)
    return UNKNOWN


def _after_generators(generators: list[ast.comprehension], state: State) -> State:
    """The state inside a comprehension, with its targets bound."""
    inner = replace(state, scope=state.scope.inner())
    for generator in generators:
        bind(generator.target, element_of(read(generator.iter, inner)), inner)
        for test in generator.ifs:
            read(test, inner)
            narrow(test, True, inner)
    return inner


# Functions whose true result says nothing about the type of their first argument.
_HARMLESS = frozenset({"len", "bool", "any", "all", "callable", "getattr", "print"})


def narrow(test: ast.expr, way: bool, state: State) -> None:
    """Add to the scope everything that follows if `test` has the outcome `way`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        narrow(test.operand, not way, state)
    elif isinstance(test, ast.BoolOp):
        if isinstance(test.op, ast.And) is way:
            for operand in test.values:
                narrow(operand, way, state)
    elif isinstance(test, ast.NamedExpr):
        narrow(test.value, way, state)
    elif (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Name)
        and len(test.args) >= 2
        and way
    ):
        _narrow_by_call(test.func.id, test.args[0], test.args[1], state)
    elif isinstance(test, ast.Compare) and way and isinstance(test.ops[0], (ast.Is, ast.Eq)):
        left = test.left
        if (
            isinstance(left, ast.Call)
            and isinstance(left.func, ast.Name)
            and left.func.id == "type"
            and left.args
        ):
            key = chain(left.args[0])
            if key:
                state.scope.narrow(key, _instances(test.comparators[0], state))


def _narrow_by_call(function: str, subject: ast.expr, argument: ast.expr, state: State) -> None:
    key = chain(subject.target if isinstance(subject, ast.NamedExpr) else subject)
    if not key:
        return
    if function == "isinstance":
        state.scope.narrow(key, _instances(argument, state))
    elif function == "hasattr" and isinstance(argument, ast.Constant):
        state.scope.guarded |= {f"{key}.{argument.value!s}"}
    elif function not in _HARMLESS and isinstance(read(subject, state.silent), Instance):
        # A TypeGuard, or another test that may say more about the object than lint knows.
        state.scope.narrow(key, UNKNOWN)


def _instances(node: ast.expr, state: State) -> Value:
    """An object of the classes in the second argument of `isinstance`."""
    nodes, classes = [node], []
    while nodes:
        first = nodes.pop(0)
        if isinstance(first, (ast.Tuple, ast.List)):
            nodes = [*first.elts, *nodes]
        elif isinstance(first, ast.BinOp):
            nodes = [first.left, first.right, *nodes]
        else:
            value = read(first, state)
            if not isinstance(value, Symbol) or value.kind != "class":
                return UNKNOWN
            classes.append(value.dotted)
    return Instance(classes=tuple(dict.fromkeys(classes))) if classes else UNKNOWN
