"""Statements with more than one way through: `if`, loops, `with`, `try`, `match`.

Which way runs in this release, and what is known afterwards. A way that does not run is walked too, as not reachable.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from patchgate.lint.index.read_function import last_name
from patchgate.lint.interpret.bindings import bind
from patchgate.lint.interpret.narrowing import narrow
from patchgate.lint.interpret.references import Gate, Reachability, Span
from patchgate.lint.interpret.state import Attempt, End, State, execute, execute_block, read
from patchgate.lint.interpret.values import (
    UNKNOWN,
    VERSION,
    Known,
    Snapshot,
    Value,
    because_of,
    element_of,
    truth_of,
)

_MISSING = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "NameError"})
_CATCHERS = _MISSING | {"TypeError", "Exception", "BaseException"}


@execute.register(ast.If)
def execute_if(node: ast.If, state: State) -> End | None:
    test = read(node.test, state)
    truth, because = truth_of(test), because_of(test)
    is_gate = because >= VERSION
    if is_gate and isinstance(test, Known):
        span, text = Span.of(node.test), ast.unparse(node.test)
        somewhere = any(map(bool, test.values))
        gate = Gate(
            span=span,
            text=text,
            holds=truth,
            holds_somewhere=somewhere,
            holds_everywhere=all(map(bool, test.values)),
            reachability=state.reachability,
        )
        state.usage.gates.append(gate)
    if any(last_name(each) == "TYPE_CHECKING" for each in ast.walk(node.test)):
        negated = isinstance(node.test, ast.UnaryOp)
        execute_block(node.body, state if negated else state.at(Reachability.GUARDED))
        return execute_block(node.orelse, state.at(Reachability.GUARDED) if negated else state)
    before = state.scope.snapshot()
    gates = (*state.gates, Span.of(node.test)) if is_gate else state.gates
    outcomes = []
    for branch, way in ((node.body, True), (node.orelse, False)):
        state.scope.restore(before)
        reachability = state.reachability
        if truth is not None and truth is not way:
            reachability = state.excluded_by(test)
        elif truth is None and because:
            reachability = state.undecided()
        here = state.having(
            reachability=reachability,
            gates=gates,
            path=(*state.path, node.lineno, way) if truth is None else state.path,
        )
        narrow(node.test, way, here)
        end = execute_block(branch, here)
        outcomes.append((end, state.scope.snapshot()))
    return _after_if(test, truth, outcomes, state, Span.of(node.test) if is_gate else None)


def _after_if(
    test: Value, truth: bool | None, outcomes: Sequence[tuple[End | None, Snapshot]], state: State, gate: Span | None
) -> End | None:
    if truth is not None:
        end, scope = outcomes[0 if truth else 1]
        state.scope.restore(scope)
        return end if end is None or end.open else End(state.excluded_by(test), gate if truth else None)
    going_on = [scope for end, scope in outcomes if end is None or end.open]
    if not going_on:
        state.scope.restore(outcomes[1][1])
        return End(Reachability.GUARDED)
    state.scope.restore(going_on[0])
    for other in going_on[1:]:
        state.scope.merge(other, because_of(test))
    ended = [end for end, _ in outcomes if end is not None]
    may_end = bool(ended) if because_of(test) else len(ended) == len(outcomes)
    return End(Reachability.UNDECIDED) if may_end else None


@execute.register(ast.While)
def execute_while(node: ast.While, state: State) -> End | None:
    _forget_stored(node, state)
    test = read(node.test, state)
    before = state.scope.snapshot()
    narrow(node.test, True, state)
    end = execute_block(node.body, state.at(state.excluded_by(test)) if truth_of(test) is False else state)
    state.scope.merge(before)
    execute_block(node.orelse, state)
    return _left(node, end)


@execute.register(ast.For)
@execute.register(ast.AsyncFor)
def execute_for(node: ast.For | ast.AsyncFor, state: State) -> End | None:
    element = element_of(read(node.iter, state))
    _forget_stored(node, state)
    before = state.scope.snapshot()
    bind(node.target, element, state)
    end = execute_block(node.body, state)
    state.scope.merge(before)
    execute_block(node.orelse, state)
    return _left(node, end)


def _left(loop: ast.AST, end: End | None) -> End | None:
    """The state after a loop in which a check of torch may raise; other loops may not run at all."""
    checked = end is not None and end.rest in (Reachability.UNDECIDED, Reachability.GATED)
    return end if checked and _leaves(loop) else None


@lru_cache(maxsize=4096)
def _leaves(loop: ast.AST) -> bool:
    """True if what ends a turn of the loop raises, and neither goes on nor breaks."""
    nodes = [*ast.walk(loop)]
    stays = (ast.Continue, ast.Break, ast.Return, ast.Yield)
    return any(isinstance(each, ast.Raise) for each in nodes) and not any(isinstance(each, stays) for each in nodes)


def _forget_stored(loop: ast.AST, state: State) -> None:
    """A name that a loop assigns may hold anything from its second turn on."""
    for name in _stored(loop):
        state.scope.assign(name, UNKNOWN)


@lru_cache(maxsize=4096)
def _stored(loop: ast.AST) -> tuple[str, ...]:
    """The names that a loop assigns; each release asks again."""
    names = (each.id for each in ast.walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
    return tuple(dict.fromkeys(names))


@execute.register(ast.With)
@execute.register(ast.AsyncWith)
def execute_with(node: ast.With | ast.AsyncWith, state: State) -> End | None:
    for item in node.items:
        read(item.context_expr, state)
        if item.optional_vars is not None:
            bind(item.optional_vars, UNKNOWN, state)
    if any("suppress" in ast.unparse(item.context_expr) for item in node.items):
        execute_block(node.body, replace(state, attempt=Attempt()))
        return None
    return execute_block(node.body, state)


@execute.register(ast.Try)
def execute_try(node: ast.Try, state: State) -> End | None:
    """Interpret a `try`: if nothing is missing in its body, handlers that need such an error do not run."""
    caught = frozenset[str]().union(*(_names(each.type) if each.type else {"Exception"} for each in node.handlers))
    catches = bool(caught & _CATCHERS)
    before = state.scope.snapshot()
    attempt = Attempt(any_call=bool(caught & _CATCHERS - _MISSING)) if catches else None
    end = _execute_attempt(node.body, replace(state, attempt=attempt or state.attempt))
    failed = attempt is not None and attempt.failed
    # What the body of a small function returned, and could be read, is what the function returns.
    returned = state.returned[-1] if state.returned else None
    answered = bool(state.inlined and not failed and end is not None and isinstance(returned, Known))
    ends = []
    for handler in node.handlers:
        after = state.scope.snapshot()
        needless = catches and not failed and handler.type is not None and _names(handler.type) <= _MISSING
        if failed:
            state.scope.restore(before)
        if handler.name:
            state.scope.assign(handler.name, UNKNOWN)
        handled = execute_block(handler.body, state.at(Reachability.GUARDED) if needless or answered else state)
        if not failed:
            state.scope.restore(after)
        if not (needless or answered):
            ends.append(handled)
    if not failed:
        end = execute_block(node.orelse, state) or end
        ends.append(end)
    return execute_block(node.finalbody, state) or _joined(ends)


def _joined(ends: Sequence[End | None]) -> End | None:
    """The state after branches that may all be taken: code runs if one of them continues."""
    if not ends or None in ends:
        return None
    return next((end for end in ends if end is not None and end.open), ends[0])


if sys.version_info >= (3, 11):
    execute.register(ast.TryStar)(execute_try)


def _execute_attempt(statements: Sequence[ast.stmt], state: State) -> End | None:
    """A try body: what follows a missing name in it does not run."""
    end = None
    for statement in statements:
        end = end or execute(statement, state)
        if state.attempt is not None and state.attempt.failed and state.reachable:
            state = state.at(Reachability.GUARDED)
    return end


@execute.register(ast.Match)
def execute_match(node: ast.Match, state: State) -> None:
    subject = read(node.subject, state)
    _forget_stored(node, state)
    before = state.scope.snapshot()
    here = state.at(state.undecided()) if because_of(subject) else state
    for case in node.cases:
        read(case.pattern, state)
        for part in ast.walk(case.pattern):
            name = getattr(part, "name", None) or getattr(part, "rest", None)
            if isinstance(name, str):
                state.scope.assign(name, UNKNOWN)
        read(case.guard, state)
        execute_block(case.body, here)
        state.scope.merge(before)


def _names(node: ast.expr) -> set[str]:
    """The last names of one exception class, or of a tuple of them."""
    return {last_name(each) for each in (node.elts if isinstance(node, ast.Tuple) else [node])}
