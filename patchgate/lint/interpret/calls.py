"""Calls in a patch: into torch, into the patch itself, and the few that change names or ask for them.

What `hasattr`, `setattr`, `mock.patch`, `config.patch` and version helpers mean.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from patchgate.lint.index.read_function import last_name
from patchgate.lint.index.release import Release
from patchgate.lint.interpret.bindings import (
    FORMS,
    attribute,
    define_by_call,
    dotted_value,
    note_reference,
    promised_by,
    rebind,
    version_spellings,
)
from patchgate.lint.interpret.inlining import inline, value_of_own_call
from patchgate.lint.interpret.option_tables import changed_table, note_passed_options, note_patched_options
from patchgate.lint.interpret.project_files import is_of_tests
from patchgate.lint.interpret.project_values import own_value
from patchgate.lint.interpret.references import Call, Comparison, Passed, Presence, Reachability, Span
from patchgate.lint.interpret.state import State, read
from patchgate.lint.interpret.torch_names import callable_behind, class_made_by, covered, has_module, look_up, returned
from patchgate.lint.interpret.values import (
    PRESENCE,
    UNKNOWN,
    VERSION,
    External,
    Instance,
    Known,
    LocalFunction,
    Method,
    OwnFunction,
    OwnName,
    Symbol,
    Unknown,
    Value,
    chain,
    constant,
    unknown,
)
from patchgate.lint.interpret.version_gates import (
    DISTRIBUTION,
    DISTRIBUTIONS,
    HELPERS,
    METADATA,
    PURE_FUNCTIONS,
    NotKnown,
    ParameterName,
    ParameterNames,
    argument_of_helper,
    as_known,
    attempt,
    call_method,
    fold,
    pure_function,
    spellings,
    traps_of_helper,
)

_PATCHERS = frozenset({"unittest.mock.patch", "mock.patch"})
_OBJECT_PATCHERS = frozenset({"unittest.mock.patch.object", "mock.patch.object"})
_TRANSPARENT = frozenset({"staticmethod", "classmethod", "property", "functools.cache", "functools.cached_property"})
_SIGNATURES = frozenset({"inspect.signature", "inspect.getfullargspec", "inspect.getargspec"})
# Methods of a config module that tell which options it has.
_OPTIONS_THERE_ARE = frozenset({"to_dict", "shallow_copy_dict", "get_config_copy", "get_serializable_config_copy"})
# What else asks how torch is made.
_ASKING = frozenset({"callable", "dir", "getattr", "hasattr", "vars"})


@read.register(ast.Call)
def read_call(node: ast.Call, state: State) -> Value:
    if _is_operator(node.func, state):
        for each in (*node.args, *node.keywords):
            read(each, state)
        return UNKNOWN
    callee = _callee(node.func, state)
    define_by_call(node, state)
    if last_name(node.func) == "is_fbcode" and not isinstance(callee, (LocalFunction, OwnFunction)):
        return constant(False)  # inside one company only
    if isinstance(node.func, ast.Attribute) and node.func.attr == "setattr" and not isinstance(callee, Symbol):
        callee = External(dotted="monkeypatch.setattr")
    elif isinstance(callee, Symbol) and pure_function(callee.dotted) is not None:
        callee = External(dotted=callee.dotted)
    if isinstance(callee, External):
        special = _special(callee.dotted, node, state)
        if special is not None:
            return special
    arguments = [read(each.value if isinstance(each, ast.Starred) else each, state) for each in node.args]
    keywords = {each.arg: read(each.value, state) for each in node.keywords}
    changed = changed_table(node, arguments, state)
    if changed is not None:
        return changed
    value: Value = UNKNOWN
    match callee:
        case Symbol(kind="config-method"):
            note_patched_options(callee, node, [*arguments[:1], keywords.get(None, UNKNOWN)], state)
            value = Unknown(PRESENCE) if last_name(node.func) in _OPTIONS_THERE_ARE else UNKNOWN
        case Symbol():
            note_passed_options(callee, keywords, state)
            value = _call_torch(node, callee, state)
        case Known():
            value = _call_known(callee, arguments)
        case External(dotted="functools.partial") if arguments and isinstance(arguments[0], Symbol):
            note_passed_options(arguments[0], keywords, state)
            value = _call_external(node, callee, arguments, state)
        case Method():
            value = _call_method(callee, arguments, keywords)
        case LocalFunction() | OwnFunction():
            value = _call_local(node, callee, arguments, keywords, state)
        case External():
            value = _call_external(node, callee, arguments, state)
    # What is computed from the version, or from what torch has, is no more known than they are.
    computed = value == UNKNOWN and not isinstance(callee, Symbol)
    return unknown(callee, *arguments, *keywords.values()) if computed else value


def _is_operator(callee: ast.expr, state: State) -> bool:
    """True for `torch.ops.a.b`, which no index knows; a generated file has thousands of such calls."""
    if not isinstance(callee, ast.Attribute) or not chain(callee).startswith("torch.ops."):
        return False
    torch = state.scope.lookup("torch")
    return isinstance(torch, Symbol) and torch.dotted == "torch"


def _callee(node: ast.expr, state: State) -> Value:
    """The callee. A function of the patch that is called in a `try` fails there, and nowhere else."""
    value = state.scope.lookup(node.id) if isinstance(node, ast.Name) and node.id not in state.scope.narrowed else None
    if isinstance(value, OwnName):
        return own_value(value, state, called=True)
    if not isinstance(value, LocalFunction):
        return read(node, state)
    state.use(value, called=True)
    return value


def _call_known(callee: Known, arguments: list[Value]) -> Value:
    """A call of what a table of operators has."""
    known = [each for each in arguments if isinstance(each, Known)]
    pure = all(any(value is each for each in PURE_FUNCTIONS) for value in callee.values)
    if len(known) != len(arguments) or not pure:
        return UNKNOWN
    return fold(lambda function, *given: function(*given), callee, *known) or UNKNOWN


def _special(dotted: str, node: ast.Call, state: State) -> Value | None:
    """The value of a call that asks for or changes names; None when it is an ordinary call."""
    name = dotted.rpartition(".")[2]
    texts = [each.value if isinstance(each, ast.Constant) else None for each in node.args]
    first, second = [text if isinstance(text, str) else None for text in (*texts, None, None)][:2]
    if dotted in ("hasattr", "getattr", "setattr") and second is not None:
        return _by_name(dotted, node, second, state)
    if (dotted in _OBJECT_PATCHERS or name == "setattr") and second is not None:
        owner = read(node.args[0], state)
        _needed_by_mock(dotted, node, owner, second, Span.of(node.args[1]), state)
        return _set_by_name(node, owner, second, state, mocked=_is_mock(dotted, state))
    if (dotted in _PATCHERS or name == "setattr") and first is not None:
        return _patch_path(dotted, node, first, state)
    if dotted == "super" and not node.args:
        base = state.scope.base_of_class()
        return Instance(classes=(base.dotted,)) if isinstance(base, Symbol) and base.kind == "class" else UNKNOWN
    if dotted == "importlib.import_module" and first is not None:
        return _import_module(node, first, state)
    if dotted == "importlib.util.find_spec" and first is not None and state.release.ask(covered, first):
        return constant(state.release.ask(has_module, first) or None, PRESENCE)
    if dotted in METADATA and texts == ["torch"]:
        return Known(values=version_spellings(state), because=VERSION)
    if dotted in DISTRIBUTIONS and texts == ["torch"]:
        return External(dotted=DISTRIBUTION)
    if dotted in _SIGNATURES and len(node.args) == 1:
        return _parameter_names(read(node.args[0], state), state)
    return None


def _parameter_names(function: Value, state: State) -> Value:
    """The parameter names of a function of torch, as `inspect.signature` gives them."""
    known = state.release.ask(callable_behind, function.dotted) if isinstance(function, Symbol) else None
    if known is None:
        return Unknown(PRESENCE)
    names = ParameterNames(ParameterName(parameter.name) for parameter in known.parameters)
    return constant(names, PRESENCE)


def _by_name(function: str, node: ast.Call, name: str, state: State) -> Value:
    owner = read(node.args[0], state)
    if function == "setattr":
        return _set_by_name(node, owner, name, state)
    for rest in node.args[2:]:
        read(rest, state)
    if function == "getattr":
        value = attribute(owner, name, Span.of(node.args[1]), state, guarded=len(node.args) > 2)
        default = node.args[2] if len(node.args) > 2 and isinstance(owner, (Symbol, Instance)) else None
        if not isinstance(default, ast.Constant):
            return value
        missing = state.release.ask(look_up, owner, name)[0] is Presence.MISSING
        return constant(default.value, PRESENCE) if missing else value
    if not isinstance(owner, (Symbol, Instance)):
        return unknown(owner)
    presence, _, _ = state.release.ask(look_up, owner, name)
    if presence is Presence.MAYBE:
        # Of a function it asks for a mark that the patch left there itself.
        marked = name.startswith("__") or (isinstance(owner, Symbol) and owner.kind == "function")
        return UNKNOWN if marked else Unknown(PRESENCE)
    if presence is Presence.MISSING and isinstance(owner, Symbol):
        state.usage.tested.add(f"{owner.dotted}.{name}")
    return constant(presence is Presence.PRESENT, PRESENCE)


def _is_mock(dotted: str, state: State) -> bool:
    """True where a test replaces a name: by pytest's fixture, or by `mock.patch` in a file of tests."""
    file = state.scope.home()
    in_tests = file is not None and is_of_tests(file)
    return dotted == "monkeypatch.setattr" or (in_tests and dotted in _PATCHERS | _OBJECT_PATCHERS)


def _set_by_name(node: ast.Call, owner: Value, name: str, state: State, *, mocked: bool = False) -> Value:
    new = node.args[2] if len(node.args) > 2 else _keyword(node, "new", "side_effect")
    _accept_missing(node, owner, name, state)
    rebind(owner, name, read(new, state), Span.of(node.args[1]), state, mocked=mocked)
    return UNKNOWN


def _accept_missing(node: ast.Call, owner: Value, name: str, state: State) -> None:
    """`create=True` of `mock.patch` and `raising=False` of `monkeypatch` say that the name may be missing."""
    flags = {each.arg: each.value.value for each in node.keywords if isinstance(each.value, ast.Constant)}
    if isinstance(owner, Symbol) and (flags.get("create") is True or flags.get("raising") is False):
        state.usage.tested.add(f"{owner.dotted}.{name}")


def _patch_path(dotted: str, node: ast.Call, path: str, state: State) -> Value:
    owner_path, _, name = path.rpartition(".")
    new = node.args[1] if len(node.args) > 1 else _keyword(node, "new", "side_effect")
    replacement = read(new, state)
    span = Span.of(node.args[0])
    owner = dotted_value(owner_path, span, state)
    if isinstance(owner, Symbol):
        _needed_by_mock(dotted, node, owner, name, span, state)
        _accept_missing(node, owner, name, state)
        rebind(owner, name, replacement, span, state, mocked=_is_mock(dotted, state))
    return UNKNOWN


def _needed_by_mock(dotted: str, node: ast.Call, owner: Value, name: str, span: Span, state: State) -> None:
    """`mock.patch` raises for a name that is not there, unless `create` is set."""
    if dotted in _PATCHERS | _OBJECT_PATCHERS and _keyword(node, "create") is None:
        attribute(owner, name, span, state)


def _import_module(node: ast.Call, path: str, state: State) -> Value:
    module = Symbol(dotted=path, kind="module")
    if not state.release.ask(covered, path):
        return module if path.split(".")[0] == "torch" else UNKNOWN
    presence = Presence.PRESENT if state.release.ask(has_module, path) else Presence.MISSING
    owner, _, name = path.rpartition(".")
    note_reference("module", owner, name, presence, Span.of(node.args[0]), state)
    return module if presence is Presence.PRESENT else UNKNOWN


def _call_method(callee: Method, arguments: list[Value], keywords: dict[str | None, Value]) -> Value:
    """A method of a string or specifier; its keywords count as constants."""
    known = [each for each in arguments if isinstance(each, Known)]
    options = {name: Known(values=each.values) for name, each in keywords.items() if name and isinstance(each, Known)}
    if len(known) != len(arguments) or len(options) != len(keywords):
        return UNKNOWN

    def call(owner: object, *given: Any) -> Any:
        return call_method(
            owner, callee.name, given[: len(known)], dict(zip(options, given[len(known) :], strict=True))
        )

    return fold(call, callee.owner, *known, *options.values()) or UNKNOWN


def _call_external(node: ast.Call, callee: External, arguments: list[Value], state: State) -> Value:
    if callee.dotted in _TRANSPARENT and arguments:
        given = arguments[0]
        return replace(given, form=FORMS.get(callee.dotted)) if isinstance(given, LocalFunction) else UNKNOWN
    helper = HELPERS.get(callee.dotted.rpartition(".")[2])
    if helper is not None:
        if node.keywords:
            return Unknown(VERSION)
        return _call_version_helper(node, helper, arguments, state)
    if callee.dotted == "isinstance" and len(arguments) == 2:
        return _is_instance(*arguments)
    # `map(int, ...)`: a function may be an argument too.
    function, operands = pure_function(callee.dotted), [as_known(each) for each in arguments]
    known = [each for each in operands if isinstance(each, Known)]
    if function is not None:
        return (len(known) == len(arguments) and fold(function, *known)) or UNKNOWN
    asks = callee.dotted in _ASKING or callee.dotted.startswith("inspect.")
    about_torch = asks and any(isinstance(each, (Symbol, Instance)) for each in arguments)
    return Unknown(PRESENCE) if about_torch else UNKNOWN


def _is_instance(value: Value, kind: Value) -> Value:
    """`isinstance` of what is known, for the types that a gate may make."""
    wanted = pure_function(kind.dotted) if isinstance(kind, External) else None
    if not isinstance(value, Known) or not isinstance(wanted, type):
        return UNKNOWN
    return fold(lambda each: isinstance(each, wanted), value) or UNKNOWN


def _call_version_helper(
    node: ast.Call, helper: Callable[..., Callable[[str], bool]], arguments: list[Value], state: State
) -> Value:
    given = [argument_of_helper(each) for each in arguments]
    texts = [each for each in given if each is not None]
    if not texts or len(texts) != len(arguments):
        return Unknown(VERSION)
    values = state.release.ask(_answers_of_helper, helper, *texts)
    if values is None:
        return Unknown(VERSION)
    _note_traps(node, values, state)
    return Known(values=values, because=VERSION)


def _answers_of_helper(
    release: Release, helper: Callable[..., Callable[[str], bool]], *texts: str
) -> tuple[Any, ...] | None:
    try:
        return tuple(attempt(helper(*texts), each) for each in spellings(release.version))
    except (NotKnown, TypeError):
        return None


def _note_traps(node: ast.Call, values: tuple[Any, ...], state: State) -> None:
    """A helper that says something else of a nightly, a candidate or a local build than of the release."""
    traps = traps_of_helper(values)
    if traps:
        text = ast.unparse(node)
        state.usage.comparisons.append(
            Comparison(span=Span.of(node), text=text, traps=traps, reachability=state.reachability)
        )


def _call_local(
    node: ast.Call,
    callee: LocalFunction | OwnFunction,
    arguments: list[Value],
    keywords: dict[str | None, Value],
    state: State,
) -> Value:
    if isinstance(callee, OwnFunction):
        value, promised = value_of_own_call(callee, arguments, keywords, state)
        function = callee.function
    else:
        value, promised, function = inline(callee, arguments, keywords, state), None, callee
    if isinstance(value, Known):
        if value.because >= VERSION:
            _note_traps(node, value.values, state)
        return value
    helper = HELPERS.get(getattr(function.node, "name", ""))
    if helper is not None and not keywords:
        return _call_version_helper(node, helper, arguments, state)
    if promised is None:
        promised = promised_by(getattr(function.node, "returns", None), state.having(scope=function.scope))
    return promised if promised != UNKNOWN else unknown(value)


def _call_torch(node: ast.Call, callee: Symbol, state: State) -> Value:
    made = state.release.ask(class_made_by, callee.dotted)
    _note_call(node, callee.dotted, state, bound=bool(made) or callee.bound)
    return Instance(classes=(made,)) if made else state.release.ask(returned, callee.dotted, callee.receiver)


def _note_call(node: ast.Call, dotted: str, state: State, *, bound: bool) -> None:
    positional = sum(not isinstance(each, ast.Starred) for each in node.args)
    passed = Passed(
        bound=bound,
        positional=positional,
        keywords=tuple(each.arg for each in node.keywords if each.arg),
        starred=positional < len(node.args) or any(each.arg is None for each in node.keywords),
    )
    problem = state.release.ask(_problem, dotted, passed)
    call = Call(span=Span.of(node.func), dotted=dotted, passed=passed, problem=problem, reachability=state.reachability)
    if state.attempt is not None and state.attempt.any_call and state.reachable and problem:
        state.attempt.failed = True
        call = replace(call, reachability=Reachability.GUARDED)
    state.usage.calls.append(call)


def _problem(release: Release, dotted: str, passed: Passed) -> str | None:
    """Why the function does not take the arguments: of its signature a reading depends on no more."""
    function = callable_behind(release, dotted)
    return passed.misfit(function) if function is not None else None


def _keyword(node: ast.Call, *names: str) -> ast.expr | None:
    return next((each.value for each in node.keywords if each.arg in names), None)
