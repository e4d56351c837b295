"""Small functions of a patch and of its project's other files, read for the value that they return."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import lru_cache
from itertools import islice

from patchgate.lint.index.read_function import last_name
from patchgate.lint.index.release import Release
from patchgate.lint.interpret.bindings import attribute, note_reference, promised_by
from patchgate.lint.interpret.project_files import OwnFiles
from patchgate.lint.interpret.project_values import apart, may_tell, own_value
from patchgate.lint.interpret.references import Presence, Reachability, Span, Usage
from patchgate.lint.interpret.state import End, State, execute_block, read
from patchgate.lint.interpret.torch_names import presence_in_heir
from patchgate.lint.interpret.values import (
    UNKNOWN,
    VERSION,
    External,
    Instance,
    Known,
    LocalClass,
    LocalFunction,
    LocalObject,
    OwnFunction,
    OwnModule,
    OwnName,
    Scope,
    Symbol,
    Unknown,
    Value,
    because_of,
    truth_of,
    unknown,
)

# Calls of small functions in each other that are followed.
_MAX_INLINED = 3
# How large a function is at most that may refuse a release.
_MAX_REFUSING = 120
# Calls that do not return; checks that raise, known by name where their source is not in the project.
_LEAVING = frozenset({
    "sys.exit", "exit", "quit", "os._exit", "os.abort", "pytest.skip", "pytest.fail", "pytest.xfail",
    "pytest.importorskip",
})  # fmt: skip
_REFUSES = re.compile(r"(?i)check|requir|ensure|assert|verify|validate|need|expect")
# Marks of tests, and which outcome of their test skips; other decorators that may leave out what they decorate.
_SKIPPED_WHEN = {"skipif": True, "skipIf": True, "skipUnless": False}
_CHOOSES = re.compile(r"(?i)skip|requir|only|when|since|until|if|unless|xfail|version")
_ASKS = re.compile(r"__version__|hasattr|[Vv]ersion")
# Arguments that are equal are the same: 1 and True are not.
_PLAIN = (str, int, float, type(None))
_Arguments = tuple[tuple[str | None, Value, tuple[type, ...]], ...]


def value_of_own_call(
    callee: OwnFunction, arguments: list[Value], keywords: dict[str | None, Value], state: State
) -> tuple[Value, Value]:
    """The value that a call of a function of another file returns, and the one that its annotation promises.

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
        if not isinstance(value, Known):  # nothing else of it is asked, and releases compare what they answer
            value = unknown(value)
        outside = replace(state, scope=callee.function.scope)
        return callee.function.node, value, promised_by(getattr(callee.function.node, "returns", None), outside)


def inline(function: LocalFunction, arguments: list[Value], keywords: dict[str | None, Value], state: State) -> Value:
    """The value that a small function of the patch returns, if only the torch version decides it."""
    if not may_tell(function.node):
        return UNKNOWN
    inner, _ = _walked(function, arguments, keywords, state)
    results = inner.returned if inner is not None else []
    if results and all(result == results[0] for result in results):
        return results[0]
    return unknown(*results, because=VERSION if inner is not None and inner.usage.gates else frozenset())


def _walked(
    function: LocalFunction, arguments: list[Value], keywords: dict[str | None, Value], state: State
) -> tuple[State | None, End | None]:
    """One call of a function of the patch: its state, with what it returned, and what ended it."""
    node = function.node
    if state.inlined >= _MAX_INLINED or isinstance(node, (ast.Lambda, ast.AsyncFunctionDef)):
        return None, None
    if len(arguments) > len(node.args.args):
        return None, None
    inner = state.having(
        scope=Scope(parent=function.scope),
        usage=Usage(),
        returned=[],
        reachability=Reachability.REACHABLE,
        attempt=None,
        inlined=state.inlined + 1,
    )
    _assign_arguments(node.args, arguments, keywords, inner, inner.having(scope=function.scope))
    return inner, execute_block(node.body, inner)


def end_of_call(node: ast.expr, state: State) -> End | None:
    """The state after a call that leaves the program, or that refuses this release."""
    if not isinstance(node, ast.Call):
        return None
    silent = state.having(usage=Usage(), inlined=state.inlined or 1)
    callee, name = read(node.func, silent), last_name(node.func)
    if name == "skipTest" or (isinstance(callee, External) and callee.dotted in _LEAVING):
        return End(Reachability.GUARDED)
    function = callee.function if isinstance(callee, OwnFunction) else callee
    if not isinstance(function, LocalFunction):
        return End(state.undecided()) if _REFUSES.search(name) and because_of(callee) >= VERSION else None
    if not _may_refuse(function.node):
        return None
    arguments = [read(each, silent) for each in node.args]
    keywords = {each.arg: read(each.value, silent) for each in node.keywords}
    inner, end = _walked(function, arguments, keywords, silent)
    return None if inner is None or inner.returned else end


@lru_cache(maxsize=4096)
def _may_refuse(function: ast.AST) -> bool:
    """True if a small function raises, or calls what may."""
    nodes = list(islice(ast.walk(function), _MAX_REFUSING + 1))
    return len(nodes) <= _MAX_REFUSING and any(isinstance(node, (ast.Raise, ast.Assert, ast.Expr)) for node in nodes)


def kept_by(decorator: ast.expr, value: Value, state: State) -> Reachability:
    """The reachability of decorated code: a mark may skip a test on a release, or a decorator leave code out."""
    call = decorator if isinstance(decorator, ast.Call) else None
    silent = state.having(usage=Usage(), inlined=state.inlined or 1)
    name = last_name(call.func if call is not None else decorator)
    given = [*call.args, *(each.value for each in call.keywords)] if call is not None else []
    tests = [read(each, silent) for each in given]
    skipped = _SKIPPED_WHEN.get(name)
    if skipped is not None and tests and truth_of(tests[0]) is not None:
        return state.excluded_by(tests[0]) if truth_of(tests[0]) is skipped else state.reachability
    callee = read(call.func, silent) if call is not None else value
    function = callee.function if isinstance(callee, OwnFunction) else callee
    asks = isinstance(function, LocalFunction) and _ASKS.search(ast.unparse(function.node)) is not None
    because = because_of(value if call is None else callee).union(*map(because_of, tests))
    return state.undecided() if asks or (because and (call is None or _CHOOSES.search(name))) else state.reachability


def member_of_own(owner: LocalObject, name: str, span: Span, state: State, *, guarded: bool = False) -> Value:
    """`self.name` in a class of the patch: what a base in torch has; of its own, what the version of torch decides."""
    member = owner.of.members.get(name)
    value = owner.of.fields.get(name, member)
    if not isinstance(member, LocalFunction):
        if value is None:
            return _inherited(owner.of, name, span, state, guarded=guarded)
        return value if because_of(value) else UNKNOWN
    decorators = [ast.unparse(each) for each in getattr(member.node, "decorator_list", ())]
    if name.startswith("_") and not name.startswith("__"):
        state.use(member, called=True)
    answer = inline(member, [] if "staticmethod" in decorators else [owner], {}, state)
    return answer if "property" in decorators else unknown(answer)


def _inherited(owner: LocalClass, name: str, span: Span, state: State, *, guarded: bool) -> Value:
    """`self.name` where the class of the patch derives from torch's alone, and does not define the name itself.

    A name that no release has in those classes is the project's: something that we do not see puts it there.
    """
    bases = owner.torch_bases()
    if not bases or owner.defines(name) or state.inlined:
        return UNKNOWN
    presence = state.release.ask(presence_in_heir, bases, name)
    if presence is Presence.PRESENT:
        return attribute(Instance(classes=bases), name, span, state, guarded=guarded)
    if presence is Presence.MISSING:
        note_reference("attribute", bases[0], name, presence, span, state, guarded=guarded)
    return UNKNOWN


def _assign_arguments(
    parameters: ast.arguments,
    arguments: list[Value],
    keywords: dict[str | None, Value],
    inner: State,
    outside: State,
) -> None:
    """The values of a function's parameters in one call: the arguments, else their defaults."""
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
