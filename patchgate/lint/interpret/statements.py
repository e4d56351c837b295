"""Interpret a patch for one torch release, statement by statement. Version checks are evaluated,
not guessed.

A branch that does not run in this release is walked too, as unreachable code. Function bodies are
walked last, after all references to them. A body is as reachable as its most reachable reference.
"""

from __future__ import annotations

import ast
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from heapq import heappop, heappush
from itertools import count
from pathlib import Path

from patchgate.inputs.patch_source import nodes_in
from patchgate.lint.index.read_module import DEFINITIONS, FunctionDefinition, last_name
from patchgate.lint.index.release import Release
from patchgate.lint.interpret.bindings import (
    attribute,
    bind,
    import_module,
    note_reference,
    override,
    promised_by,
    take_out,
)
from patchgate.lint.interpret.calls import end_of_call, kept_by
from patchgate.lint.interpret.expressions import narrow
from patchgate.lint.interpret.loaded_modules import loads_from
from patchgate.lint.interpret.project_files import OF_VENDORS, brings_triton, file_of
from patchgate.lint.interpret.references import (
    FunctionNode,
    Gate,
    Import,
    Presence,
    Reachability,
    Span,
    Usage,
)
from patchgate.lint.interpret.state import (
    Attempt,
    End,
    PendingFunction,
    State,
    execute,
    execute_block,
    read,
)
from patchgate.lint.interpret.torch_names import covered, look_up
from patchgate.lint.interpret.values import (
    UNKNOWN,
    VERSION,
    External,
    Instance,
    Known,
    LocalClass,
    LocalFunction,
    LocalObject,
    OwnFiles,
    OwnModule,
    OwnName,
    Scope,
    Snapshot,
    Symbol,
    Table,
    Value,
    because_of,
    element_of,
    truth_of,
    unknown,
)

_GENERATORS = "torch._inductor.codegen."
# Indexed package -> a module by which a fork of the package is recognised.
_TORCH = {"torch": "torch._dynamo", "triton": "triton.language"}


def interpret(
    tree: ast.Module,
    release: Release,
    file: Path | None = None,
    own: OwnFiles | None = None,
    lines: Collection[int] | None = None,
) -> Usage:
    """Return what a file does in one release.

    With `own`, names that the file imports from other files of its project are followed. With
    `lines`, only functions that contain one of these lines are walked.
    """
    state = State(release=release, own=own, scope=Scope(file=file))
    postponed = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and node.names[0].name == "annotations"
        for node in tree.body
    )
    state = replace(state, postponed=postponed, own_backend=_has_own_backend(tree))
    # In a package, `__init__` runs before this file.
    alone = file is not None and not file.with_name("__init__.py").exists()
    if own is not None and file is not None:
        state.usage.set_elsewhere = frozenset(
            name for name, files in own.set_in.items() if files - {file}
        )
        state.usage.vendor_in_project = own.extended_by_vendor
    state.usage.loads_from = loads_from(tree) if alone else 0
    execute_block(tree.body, state)
    _execute_functions(tree, state, lines)
    return state.usage


@lru_cache(maxsize=1)
def _has_own_backend(tree: ast.Module) -> bool:
    """True if a class of the file derives from a code generator of torch, as in a backend that
    registers its own generators.
    """
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
    names = {
        alias.asname or alias.name
        for node in imports
        if f"{node.module}.".startswith(_GENERATORS)
        for alias in node.names
    }
    bases = (base for node in tree.body if isinstance(node, ast.ClassDef) for base in node.bases)
    return any(
        ast.unparse(base) in names or ast.unparse(base).startswith(_GENERATORS) for base in bases
    )


def _execute_functions(tree: ast.Module, state: State, lines: Collection[int] | None) -> None:
    """Walk the function bodies by rank (see `_turn`); unreferenced ones are walked as if called."""
    #: Name -> the number of other functions that mention it.
    mentions = Counter[str]()
    for node in state.pending if lines is None else ():
        mentions.update(_words_by_function(tree)[node] - {getattr(node, "name", "")})
    walked, chosen, turns = 0, sorted(lines or ()), _Turns(state, mentions)
    while state.pending:
        first = turns.take()
        walked += 1
        node = first.function.node
        if lines is not None and not _has_line(node, chosen):
            continue
        here = replace(
            state,
            scope=Scope(parent=first.function.scope),
            reachability=first.runs,
            gates=first.gates,
            path=(walked,),
            attempt=Attempt() if first.reachability is not None and first.attempted else None,
        )
        _assign_parameters(first.function, here)
        if isinstance(node, ast.Lambda):
            read(node.body, here)
        else:
            execute_block(node.body, here)


class _Turns:
    """A queue of the pending functions, sorted by rank (see `_turn`). Functions of the same rank
    are walked in the order of arrival.

    The rank of a function is computed when the function arrives and when it is used, not at each
    step.
    """

    def __init__(self, state: State, mentions: Counter[str]) -> None:
        self._state, self._mentions = state, mentions
        self._queue: list[tuple[int, int, int, PendingFunction]] = []
        self._pushed = count()

    def take(self) -> PendingFunction:
        """Remove the first pending function from the state and return it."""
        while True:
            for each in self._state.moved:
                pushed = next(self._pushed)
                each.came = pushed if each.came is None else each.came
                turn = _turn(each, self._mentions)
                heappush(self._queue, (turn, each.came, pushed, each))
            self._state.moved.clear()
            turn, _, _, first = heappop(self._queue)
            node = first.function.node
            is_pending = self._state.pending.get(node) is first
            if is_pending and turn == _turn(first, self._mentions):
                del self._state.pending[node]
                return first


def _has_line(function: FunctionNode, lines: Sequence[int]) -> bool:
    """True if a function contains one of the `lines`, which are sorted."""
    at = bisect_left(lines, function.lineno)
    return at < len(lines) and (function.end_lineno is None or lines[at] <= function.end_lineno)


def _turn(pending: PendingFunction, mentions: Counter[str]) -> int:
    """The rank of a function body: bodies with a lower rank are walked earlier."""
    if pending.reachability is None:
        return 3 if mentions[getattr(pending.function.node, "name", "")] else 1
    return {Reachability.REACHABLE: 0, Reachability.GUARDED: 4}.get(pending.runs, 2)


def _assign_parameters(function: LocalFunction, state: State) -> None:
    arguments = function.node.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for parameter in parameters:
        state.scope.assign(parameter.arg, promised_by(parameter.annotation, state))
    for extra in (arguments.vararg, arguments.kwarg):
        if extra is not None:
            state.scope.assign(extra.arg, UNKNOWN)
    if not parameters or parameters[0].annotation is not None:
        return
    if function.receivers:
        state.scope.assign(parameters[0].arg, Instance(classes=tuple(sorted(function.receivers))))
    elif function.owner is not None:
        is_class = "classmethod" in function.decorators
        first = function.owner if is_class else LocalObject(function.owner)
        is_static = "staticmethod" in function.decorators
        state.scope.assign(parameters[0].arg, UNKNOWN if is_static else first)


@execute.register(ast.Import)
def execute_import(node: ast.Import, state: State) -> None:
    for alias in node.names:
        first = alias.name.split(".")[0]
        name = alias.asname or first
        target = alias.name if alias.asname else first
        _note_vendor(first, state)
        if _is_foreign(first, state):
            file = _own_file(alias.name, 0, node.lineno, state)
            bound = _own_file(target, 0, node.lineno, state) if file is not None else None
            whole = (
                OwnModule(file=bound, dotted=target)
                if bound is not None
                else External(dotted=target)
            )
            state.scope.assign(name, whole)
        else:
            known = import_module(alias.name, Span.of(alias), state) or alias.asname is None
            state.scope.assign(name, _module_or_object(target, state) if known else UNKNOWN)


def _module_or_object(dotted: str, state: State) -> Value:
    """The value of `import a.b as c`: the module `a.b`, or the object `b` of `a` if it hides the
    module.
    """
    module, (package, _, name) = Symbol(dotted=dotted, kind="module"), dotted.rpartition(".")
    owner = Symbol(dotted=package, kind="module")
    _, value, _ = state.release.ask(look_up, owner, name) if package else (None, module, "")
    return value if isinstance(value, Symbol) else UNKNOWN


@execute.register(ast.ImportFrom)
def execute_import_from(node: ast.ImportFrom, state: State) -> None:
    module = node.module or ""
    first = module.split(".")[0]
    _note_vendor(first, state)
    if node.level or _is_foreign(first, state):
        for alias in node.names:
            value = _imported_own(node, module, alias.name, state)
            state.scope.assign(alias.asname or alias.name, value)
        return
    there = import_module(module, Span.of(node.names[0]), state)
    for alias in node.names:
        value = _imported(Symbol(dotted=module, kind="module"), alias, state) if there else UNKNOWN
        state.scope.assign(alias.asname or alias.name, value)


def _imported_own(node: ast.ImportFrom, module: str, name: str, state: State) -> Value:
    """The value of a name that `from ... import` binds. A name from another file of the project is
    resolved when the patch uses it. Any other import stays a dotted name without a value.
    """
    dotted = f"{module}.{name}".lstrip(".")
    below = _own_file(dotted, node.level, node.lineno, state)
    file = _own_file(module, node.level, node.lineno, state)
    if file is not None:
        return OwnName(file=file, name=name, dotted=dotted)
    return OwnModule(file=below, dotted=dotted) if below is not None else External(dotted=dotted)


def _note_vendor(package: str, state: State) -> None:
    if OF_VENDORS.fullmatch(package):
        state.usage.extended_by_vendor = True


def _is_foreign(package: str, state: State) -> bool:
    """True if the index does not cover a package. This holds for all packages but torch and triton,
    for torch or triton inside its own fork, and for a triton that the project builds.
    """
    part, importer = _TORCH.get(package), state.scope.home()
    if part is None or state.own is None or importer is None:
        return part is None
    brought = package == "triton" and brings_triton(importer.parent)
    return brought or file_of(part, 0, importer) is not None


def _own_file(module: str, level: int, line: int, state: State) -> Path | None:
    """Return the file of the project that an import refers to, if any, and note the import."""
    importer = state.scope.home()
    if state.own is None or importer is None:
        return None
    file = file_of(module, level, importer)
    if file is not None and not state.inlined:
        span = Span(line=line, column=1)
        state.usage.imports.append(
            Import(span=span, reachability=state.reachability, gates=state.gates, file=file)
        )
    return file


def _imported(owner: Symbol, alias: ast.alias, state: State) -> Value:
    if alias.name == "*":
        return UNKNOWN
    dotted = f"{owner.dotted}.{alias.name}"
    if dotted == "torch.__version__":
        return attribute(owner, "__version__", Span.of(alias), state)
    presence, value, holder = state.release.ask(look_up, owner, alias.name)
    kind = (
        "module"
        if isinstance(value, Symbol) and value.dotted == dotted and value.kind == "module"
        else "name"
    )
    note_reference(kind, holder, alias.name, presence, Span.of(alias), state)
    if presence is Presence.MAYBE and not state.release.ask(covered, dotted):
        return External(dotted=dotted)
    return value


@execute.register(ast.FunctionDef)
@execute.register(ast.AsyncFunctionDef)
def execute_function(node: FunctionDefinition, state: State) -> None:
    function = LocalFunction(node=node, scope=state.scope)
    _decorated(node, state).define(function)
    for part in (*node.args.defaults, *node.args.kw_defaults):
        read(part, state)
    if not state.postponed:
        arguments = node.args
        named = [
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            arguments.vararg,
            arguments.kwarg,
        ]
        for annotation in (*(each.annotation for each in named if each is not None), node.returns):
            read(annotation, state)
    if node.decorator_list:
        state.use(function)
    state.scope.assign(node.name, function)


def _decorated(node: FunctionDefinition | ast.ClassDef, state: State) -> State:
    """Read the decorators of a definition; return the state in which its body is walked."""
    for each in node.decorator_list:
        state = state.at(kept_by(each, read(each, state), state))
    return state


@execute.register(ast.ClassDef)
def execute_class(node: ast.ClassDef, state: State) -> None:
    state = _decorated(node, state)
    for keyword in node.keywords:
        read(keyword.value, state)
    bases = [read(base, state) for base in node.bases]
    scope = Scope(parent=state.scope, is_class=True, base=bases[0] if len(bases) == 1 else UNKNOWN)
    execute_block(node.body, replace(state, scope=scope))
    local = LocalClass(members=scope.names, bases=bases, assigned=_assigned(node))
    state.scope.assign(node.name, local)
    for name, member in scope.names.items():
        # An object of this class may be used wherever torch declares one of its bases.
        state.usage.define("", name, state.path)
        if isinstance(member, LocalFunction):
            member.owner = local
        if isinstance(member, LocalFunction) and not name.startswith("__"):
            override(bases, name, member, state)
    if node.decorator_list or node.bases or not state.reachable:
        state.use(local)


@lru_cache(maxsize=1024)
def _assigned(node: ast.ClassDef) -> frozenset[str]:
    """The attributes that the body of a class assigns or deletes, on any object."""
    attributes = nodes_in(node, ast.Attribute)
    return frozenset(each.attr for each in attributes if not isinstance(each.ctx, ast.Load))


@execute.register(ast.Expr)
def execute_expression(node: ast.Expr, state: State) -> End | None:
    read(node.value, state)
    return end_of_call(node.value, state)


@execute.register(ast.Return)
def execute_return(node: ast.Return, state: State) -> End:
    value = read(node.value, state)
    if state.inlined and state.reachable:
        state.returned.append(value)
    elif state.inlined and state.reachability is Reachability.UNDECIDED:
        state.returned.append(unknown(value, because=VERSION))
    return End(Reachability.GUARDED)


@execute.register(ast.Raise)
@execute.register(ast.Continue)
@execute.register(ast.Break)
def execute_raise(node: ast.Raise | ast.Continue | ast.Break, state: State) -> End:
    read(node, state)
    return End(Reachability.GUARDED)


@execute.register(ast.Assign)
def execute_assignment(node: ast.Assign, state: State) -> None:
    value = read(node.value, state)
    for target in node.targets:
        bind(target, value, state, node.value)


@execute.register(ast.AnnAssign)
def execute_annotated_assignment(node: ast.AnnAssign, state: State) -> None:
    value = read(node.value, state)
    if not (state.postponed or state.path[0] or state.inlined):
        read(node.annotation, state)
    promised = promised_by(node.annotation, state)
    if node.value is not None or isinstance(node.target, ast.Name):
        bind(node.target, value if promised is UNKNOWN else promised, state, node.value)


@execute.register(ast.AugAssign)
def execute_augmented_assignment(node: ast.AugAssign, state: State) -> None:
    read(node.value, state)
    if isinstance(node.target, ast.Name):
        state.scope.assign(node.target.id, UNKNOWN)
    else:
        read(node.target, state)


@execute.register(ast.Assert)
def execute_assert(node: ast.Assert, state: State) -> End | None:
    test = read(node.test, state)
    read(node.msg, state)
    narrow(node.test, True, state)
    if truth_of(test) is False:
        return End(state.excluded_by(test))
    return End(state.undecided()) if truth_of(test) is None and because_of(test) else None


@execute.register(ast.Delete)
def execute_delete(node: ast.Delete, state: State) -> None:
    for target in node.targets:
        if isinstance(target, ast.Name):
            state.scope.assign(target.id, UNKNOWN)
        elif isinstance(target, ast.Subscript):
            table = read(target.value, state.silent)
            if isinstance(table, Table):
                take_out(table, read(target.slice, state.silent), state)


@execute.register(ast.Global)
@execute.register(ast.Nonlocal)
def execute_global(node: ast.Global | ast.Nonlocal, state: State) -> None:
    for name in node.names:
        state.scope.assign(name, UNKNOWN)


_MISSING = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "NameError"})
_CATCHERS = _MISSING | {"TypeError", "Exception", "BaseException"}


@execute.register(ast.If)
def execute_if(node: ast.If, state: State) -> End | None:
    test = read(node.test, state)
    truth, because = truth_of(test), because_of(test)
    is_gate = because >= VERSION
    if is_gate and isinstance(test, Known):
        gate = Gate(
            span=Span.of(node.test),
            text=ast.unparse(node.test),
            holds=truth,
            holds_somewhere=any(test.values),
            holds_everywhere=all(test.values),
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
    test: Value,
    truth: bool | None,
    outcomes: Sequence[tuple[End | None, Snapshot]],
    state: State,
    gate: Span | None,
) -> End | None:
    if truth is not None:
        end, scope = outcomes[0 if truth else 1]
        state.scope.restore(scope)
        return (
            end
            if end is None or end.open
            else End(state.excluded_by(test), gate if truth else None)
        )
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
    end = execute_block(
        node.body, state.at(state.excluded_by(test)) if truth_of(test) is False else state
    )
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
    """The End of a loop that raises after a check of torch; None for any other loop, because its
    body may not run at all.
    """
    checked = end is not None and end.rest in (Reachability.UNDECIDED, Reachability.GATED)
    return end if checked and _leaves(loop) else None


@lru_cache(maxsize=4096)
def _leaves(loop: ast.AST) -> bool:
    """True if the loop raises, and contains no `continue`, `break`, `return` or `yield`."""
    nodes = [*ast.walk(loop)]
    stays = (ast.Continue, ast.Break, ast.Return, ast.Yield)
    return any(isinstance(each, ast.Raise) for each in nodes) and not any(
        isinstance(each, stays) for each in nodes
    )


def _forget_stored(loop: ast.AST, state: State) -> None:
    """Forget the names that a loop assigns: after one iteration, they may have any value."""
    for name in _stored(loop):
        state.scope.assign(name, UNKNOWN)


@lru_cache(maxsize=4096)
def _stored(loop: ast.AST) -> tuple[str, ...]:
    """The names that a loop assigns, cached because each release needs them again."""
    names = (each.id for each in nodes_in(loop, ast.Name) if isinstance(each.ctx, ast.Store))
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
    """Interpret a `try`: if nothing is missing in its body, handlers for missing names do not
    run.
    """
    caught = frozenset[str]().union(
        *(_names(each.type) if each.type else {"Exception"} for each in node.handlers)
    )
    catches = bool(caught & _CATCHERS)
    before = state.scope.snapshot()
    attempt = Attempt(any_call=bool(caught & _CATCHERS - _MISSING)) if catches else None
    calls = len(state.usage.calls)
    end = _execute_attempt(node.body, replace(state, attempt=attempt or state.attempt))
    failed = attempt is not None and attempt.failed
    # If the body has calls of torch and all of them fit, a handler of TypeError is for releases in
    # which a call does not fit.
    unneeded = _MISSING | {"TypeError"} if len(state.usage.calls) > calls else _MISSING
    # If the `try` body in a small function returned a known value, the function returns that value.
    returned = state.returned[-1] if state.returned else None
    answered = bool(
        state.inlined and not failed and end is not None and isinstance(returned, Known)
    )
    ends = []
    for handler in node.handlers:
        after = state.scope.snapshot()
        needless = (
            catches and not failed and handler.type is not None and _names(handler.type) <= unneeded
        )
        if failed:
            state.scope.restore(before)
        if handler.name:
            state.scope.assign(handler.name, UNKNOWN)
        handled = execute_block(
            handler.body, state.at(Reachability.GUARDED) if needless or answered else state
        )
        if not failed:
            state.scope.restore(after)
        if not (needless or answered):
            ends.append(handled)
    if not failed:
        end = execute_block(node.orelse, state) or end
        ends.append(end)
    return execute_block(node.finalbody, state) or _joined(ends)


def _joined(ends: Sequence[End | None]) -> End | None:
    """The common End of several branches that may be taken; None if one of them goes on."""
    if not ends or None in ends:
        return None
    return next((end for end in ends if end is not None and end.open), ends[0])


if sys.version_info >= (3, 11):
    execute.register(ast.TryStar)(execute_try)


def _execute_attempt(statements: Sequence[ast.stmt], state: State) -> End | None:
    """Walk the body of a `try`. After a missing name, the rest of the body does not run."""
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
    """The last name of an exception class, or the last names of a tuple of exception classes."""
    return {last_name(each) for each in (node.elts if isinstance(node, ast.Tuple) else [node])}


@lru_cache(maxsize=1)
def _words_by_function(tree: ast.Module) -> dict[ast.AST, set[str]]:
    """Map each function of a file to the names and the private attributes in it."""
    found: dict[ast.AST, set[str]] = {}
    todo: list[tuple[ast.AST, tuple[set[str], ...]]] = [(tree, ())]
    while todo:
        node, around = todo.pop()
        if isinstance(node, (*DEFINITIONS, ast.Lambda)):
            found[node] = set()
            around = (*around, found[node])
        elif isinstance(node, ast.Name):
            for names in around:
                names.add(node.id)
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            for names in around:
                names.add(node.attr)
        todo += [(each, around) for each in ast.iter_child_nodes(node)]
    return found
