"""Evaluate the calls in a patch: calls of torch, calls of the patch's own small functions, and
calls that test for names or set them (`hasattr`, `setattr`, `mock.patch`).

Version helpers, and options that are passed as a dictionary, are handled here too. Small functions
of the project are evaluated for the value that they return.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any

from patchgate.lint.index.read_module import last_name, values_given
from patchgate.lint.index.records import Arguments, misfit
from patchgate.lint.index.release import Release
from patchgate.lint.interpret.bindings import (
    FORMS,
    attribute,
    define_by_call,
    dotted_value,
    import_module,
    note_reference,
    promised_by,
    put,
    rebind,
    take_out,
    version_spellings,
)
from patchgate.lint.interpret.project_files import apart, is_of_tests, may_tell, own_value
from patchgate.lint.interpret.references import (
    Call,
    Comparison,
    Presence,
    Reachability,
    Span,
    Traps,
    Usage,
)
from patchgate.lint.interpret.state import End, State, execute_block, read
from patchgate.lint.interpret.torch_names import (
    callable_behind,
    class_made_by,
    covered,
    has_module,
    look_up,
    presence_in_heir,
    returned,
)
from patchgate.lint.interpret.values import (
    PRESENCE,
    UNKNOWN,
    VERSION,
    External,
    Instance,
    Known,
    LocalClass,
    LocalFunction,
    LocalObject,
    Method,
    OwnFiles,
    OwnFunction,
    OwnModule,
    OwnName,
    Scope,
    Symbol,
    Table,
    Unknown,
    Value,
    because_of,
    chain,
    constant,
    truth_of,
    unknown,
)
from patchgate.lint.interpret.version_gates import (
    DISTRIBUTION,
    DISTRIBUTIONS,
    HELPERS,
    METADATA,
    PURE,
    NotKnown,
    ParameterName,
    ParameterNames,
    argument_of_helper,
    as_known,
    attempt,
    call_method,
    fold,
    spellings,
    traps_of_helper,
    traps_of_specifiers,
)

_MODULES_BY_NAME = frozenset({"importlib.import_module", "importlib.util.find_spec"})
_PATCHERS = frozenset({"unittest.mock.patch", "mock.patch"})
_OBJECT_PATCHERS = frozenset({"unittest.mock.patch.object", "mock.patch.object"})
_TRANSPARENT = frozenset(
    {"staticmethod", "classmethod", "property", "functools.cache", "functools.cached_property"}
)
_SIGNATURES = frozenset({"inspect.signature", "inspect.getfullargspec", "inspect.getargspec"})
# Methods of a config module that list its options.
_OPTIONS_THERE_ARE = frozenset(
    {"to_dict", "shallow_copy_dict", "get_config_copy", "get_serializable_config_copy"}
)
# Builtins with which a patch also inspects torch.
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
        return constant(False)  # true inside one company only
    if (
        isinstance(node.func, ast.Attribute)
        and node.func.attr == "setattr"
        and not isinstance(callee, Symbol)
    ):
        callee = External(dotted="monkeypatch.setattr")
    elif isinstance(callee, Symbol) and callee.dotted in PURE:
        callee = External(dotted=callee.dotted)
    if isinstance(callee, External):
        special = _special(callee.dotted, node, state)
        if special is not None:
            return special
    arguments = [
        read(each.value if isinstance(each, ast.Starred) else each, state) for each in node.args
    ]
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
            value = _computed(callee, arguments)
        case External(dotted="functools.partial") if arguments and isinstance(arguments[0], Symbol):
            note_passed_options(arguments[0], keywords, state)
            value = _call_external(node, callee, arguments, state)
        case Method():
            value = _call_method(node, callee, (arguments, keywords), state)
        case LocalFunction() | OwnFunction():
            value = _call_local(node, callee, (arguments, keywords), state)
        case External():
            value = _call_external(node, callee, arguments, state)
    # An unknown result keeps the checks on which its callee and its arguments depend.
    computed = value == UNKNOWN and not isinstance(callee, Symbol)
    return unknown(callee, *arguments, *keywords.values()) if computed else value


def _is_operator(callee: ast.expr, state: State) -> bool:
    """True for an operator such as `torch.ops.a.b`. No index has the operators, and a generated
    file may call thousands of them.
    """
    if not isinstance(callee, ast.Attribute) or not chain(callee).startswith("torch.ops."):
        return False
    torch = state.scope.lookup("torch")
    return isinstance(torch, Symbol) and torch.dotted == "torch"


def _callee(node: ast.expr, state: State) -> Value:
    """The value of the callee. If the patch calls its own function only inside a `try`, missing
    names in the function's body count as caught.
    """
    value = (
        state.scope.lookup(node.id)
        if isinstance(node, ast.Name) and node.id not in state.scope.narrowed
        else None
    )
    if isinstance(value, OwnName):
        return own_value(value, state, called=True)
    if not isinstance(value, LocalFunction):
        return read(node, state)
    state.use(value, called=True)
    return value


def _special(dotted: str, node: ast.Call, state: State) -> Value | None:
    """The value of a call with special handling, such as `hasattr`; None for any other call."""
    name = dotted.rpartition(".")[2]
    texts = [each.value if isinstance(each, ast.Constant) else None for each in node.args]
    first, second = [text if isinstance(text, str) else None for text in (*texts, None, None)][:2]
    if dotted in ("hasattr", "getattr") and second is not None:
        return _by_name(dotted, node, second, state)
    if (dotted in _OBJECT_PATCHERS or name == "setattr") and second is not None:
        owner = read(node.args[0], state)
        return _set_by_name(dotted, node, owner, second, 1, state)
    if (dotted in _PATCHERS or name == "setattr") and first is not None:
        path, _, last = first.rpartition(".")
        owner = dotted_value(path, Span.of(node.args[0]), state)
        if isinstance(owner, Symbol):
            return _set_by_name(dotted, node, owner, last, 0, state)
        read(_replacement(node, 1), state)
        return UNKNOWN
    if dotted == "super" and not node.args:
        base = state.scope.base_of_class()
        return (
            Instance(classes=(base.dotted,))
            if isinstance(base, Symbol) and base.kind == "class"
            else UNKNOWN
        )
    if dotted in _MODULES_BY_NAME and first is None and node.args:
        for each in values_given(node):
            read(each, state)
        return Unknown(PRESENCE)  # a module with a computed name may be one of torch
    if dotted == "importlib.import_module" and first is not None:
        is_known = state.release.ask(covered, first) or first.split(".")[0] == "torch"
        there = import_module(first, Span.of(node.args[0]), state)
        return Symbol(dotted=first, kind="module") if is_known and there else UNKNOWN
    if (
        dotted == "importlib.util.find_spec"
        and first is not None
        and state.release.ask(covered, first)
    ):
        return constant(state.release.ask(has_module, first) or None, PRESENCE)
    if dotted in METADATA and texts == ["torch"]:
        return Known(values=version_spellings(state), because=VERSION)
    if dotted in DISTRIBUTIONS and texts == ["torch"]:
        return External(dotted=DISTRIBUTION)
    if dotted in _SIGNATURES and len(node.args) == 1:
        return _parameter_names(node.args[0], state)
    return None


def _parameter_names(node: ast.expr, state: State) -> Value:
    """The parameter names of a function of torch, as `inspect.signature` gives them."""
    if isinstance(node, ast.Attribute) and read(node.value, state.silent) == UNKNOWN:
        return UNKNOWN  # `cls` in `signature(cls.forward)` is a user's class
    function = read(node, state)
    known = (
        state.release.ask(callable_behind, function.dotted)
        if isinstance(function, Symbol)
        else None
    )
    if known is None:
        return Unknown(PRESENCE)
    names = ParameterNames(ParameterName(parameter.name) for parameter in known.parameters)
    return constant(names, PRESENCE)


def _by_name(function: str, node: ast.Call, name: str, state: State) -> Value:
    owner = read(node.args[0], state)
    for rest in node.args[2:]:
        read(rest, state)
    if function == "getattr":
        value = attribute(owner, name, Span.of(node.args[1]), state, guarded=len(node.args) > 2)
        default = (
            node.args[2] if len(node.args) > 2 and isinstance(owner, (Symbol, Instance)) else None
        )
        if not isinstance(default, ast.Constant):
            return value
        missing = state.release.ask(look_up, owner, name)[0] is Presence.MISSING
        return constant(default.value, PRESENCE) if missing else value
    if not isinstance(owner, (Symbol, Instance)):
        return unknown(owner)
    if isinstance(owner, Symbol) and owner.dotted == "torch" and name in _PLUGGED_IN:
        return UNKNOWN
    presence, _, _ = state.release.ask(look_up, owner, name)
    if presence is Presence.MAYBE:
        # `hasattr` on a function looks for a mark that the patch itself has left on it.
        marked = name.startswith("__") or (isinstance(owner, Symbol) and owner.kind == "function")
        return UNKNOWN if marked else Unknown(PRESENCE)
    if presence is Presence.MISSING and isinstance(owner, Symbol):
        state.usage.tested.add(f"{owner.dotted}.{name}")
    return constant(presence is Presence.PRESENT, PRESENCE)


def _is_mock(dotted: str, state: State) -> bool:
    """True if a test replaces a name: by pytest's fixture, or by `mock.patch` in a test file."""
    file = state.scope.home()
    in_tests = file is not None and is_of_tests(file)
    return dotted == "monkeypatch.setattr" or (in_tests and dotted in _PATCHERS | _OBJECT_PATCHERS)


def _replacement(node: ast.Call, at: int) -> ast.expr | None:
    return node.args[at] if len(node.args) > at else _keyword(node, "new", "side_effect")


def _set_by_name(
    dotted: str, node: ast.Call, owner: Value, name: str, at: int, state: State
) -> Value:
    """Interpret a call that replaces `owner.name`. Argument number `at` is the name, and the next
    argument is the new value.
    """
    span = Span.of(node.args[at])
    if dotted in _PATCHERS | _OBJECT_PATCHERS and _keyword(node, "create") is None:
        attribute(owner, name, span, state)  # `mock.patch` raises for a missing name
    flags = {
        each.arg: each.value.value for each in node.keywords if isinstance(each.value, ast.Constant)
    }
    # With `create=True` (`mock.patch`) or `raising=False` (`monkeypatch`) the name may be missing.
    accepted = flags.get("create") is True or flags.get("raising") is False
    if isinstance(owner, Symbol) and accepted:
        state.usage.tested.add(f"{owner.dotted}.{name}")
    new = read(_replacement(node, at + 1), state)
    rebind(owner, name, new, span, state, mocked=_is_mock(dotted, state))
    return UNKNOWN


def _call_method(node: ast.Call, callee: Method, given: Given, state: State) -> Value:
    """The value of a method call on a string or specifier. Keywords count as constants."""
    arguments, keywords = given
    known = [each for each in arguments if isinstance(each, Known)]
    options = {
        name: Known(values=each.values)
        for name, each in keywords.items()
        if name and isinstance(each, Known)
    }
    if len(known) != len(arguments) or len(options) != len(keywords):
        return UNKNOWN
    if callee.name == "contains" and known:
        note_traps(node, traps_of_specifiers(callee.owner, known[0]), state)

    def call(owner: object, *values: Any) -> Any:
        named = dict(zip(options, values[len(known) :], strict=True))
        return call_method(owner, callee.name, values[: len(known)], named)

    return fold(call, callee.owner, *known, *options.values()) or UNKNOWN


def _call_external(node: ast.Call, callee: External, arguments: list[Value], state: State) -> Value:
    if callee.dotted in _TRANSPARENT and arguments:
        given = arguments[0]
        return (
            replace(given, form=FORMS.get(callee.dotted))
            if isinstance(given, LocalFunction)
            else UNKNOWN
        )
    helper = HELPERS.get(callee.dotted.rpartition(".")[2])
    if helper is not None:
        if node.keywords:
            return Unknown(VERSION)
        return _call_version_helper(node, helper, arguments, state)
    function = as_known(callee)
    if isinstance(function, Known):
        return _computed(function, arguments)
    asks = callee.dotted in _ASKING or callee.dotted.startswith("inspect.")
    about_torch = asks and any(isinstance(each, (Symbol, Instance)) for each in arguments)
    return Unknown(PRESENCE) if about_torch else UNKNOWN


def _computed(function: Known, arguments: list[Value]) -> Value:
    """The value of a call of one of the pure functions that version checks use. Such a function may
    also be an argument, as in `map(int, ...)`.
    """
    operands = [as_known(each) for each in arguments]
    known = [each for each in operands if isinstance(each, Known)]
    if len(known) != len(operands):
        return UNKNOWN
    return fold(lambda called, *given: called(*given), function, *known) or UNKNOWN


def _call_version_helper(
    node: ast.Call,
    helper: Callable[..., Callable[[str], bool]],
    arguments: list[Value],
    state: State,
) -> Value:
    given = [argument_of_helper(each) for each in arguments]
    texts = [each for each in given if each is not None]
    if not texts or len(texts) != len(arguments):
        return Unknown(VERSION)
    values = state.release.ask(_answers_of_helper, helper, *texts)
    if values is None:
        return Unknown(VERSION)
    note_traps(node, traps_of_helper(values), state)
    return Known(values=values, because=VERSION)


def _answers_of_helper(
    release: Release, helper: Callable[..., Callable[[str], bool]], *texts: str
) -> tuple[Any, ...] | None:
    try:
        return tuple(attempt(helper(*texts), each) for each in spellings(release.version))
    except (NotKnown, TypeError):
        return None


def note_traps(node: ast.expr, traps: Traps, state: State) -> None:
    """Note a version check that falls into a trap, such as a different outcome for a nightly."""
    if traps:
        text = ast.unparse(node)
        state.usage.comparisons.append(
            Comparison(span=Span.of(node), text=text, traps=traps, reachability=state.reachability)
        )


def _call_local(
    node: ast.Call, callee: LocalFunction | OwnFunction, given: Given, state: State
) -> Value:
    arguments, keywords = given
    if isinstance(callee, OwnFunction):
        function = callee.function
        value, promised = value_of_own_call(callee, given, state)
    else:
        function = callee
        value, promised = inline(callee, given, state), _returned_by(callee, state)
    if isinstance(value, Known):
        if value.because >= VERSION:
            note_traps(node, traps_of_helper(value.values), state)
        return value
    helper = HELPERS.get(getattr(function.node, "name", ""))
    if helper is not None and not keywords:
        return _call_version_helper(node, helper, arguments, state)
    return promised if promised != UNKNOWN else unknown(value)


def _call_torch(node: ast.Call, callee: Symbol, state: State) -> Value:
    """Note a call of torch; return its value."""
    made = state.release.ask(class_made_by, callee.dotted)
    bound = bool(made) or callee.bound
    positional = sum(not isinstance(each, ast.Starred) for each in node.args)
    passed = Arguments(
        positional=positional,
        keywords=(
            *(each.arg for each in node.keywords if each.arg),
            *(key for each in node.keywords if not each.arg for key in _spread(each.value, state)),
        ),
        star=positional < len(node.args) or any(each.arg is None for each in node.keywords),
    )
    problem = state.release.ask(_problem, callee.dotted, passed, bound)
    call = Call(
        span=Span.of(node.func),
        dotted=callee.dotted,
        passed=passed,
        bound=bound,
        problem=problem,
        reachability=state.reachability,
    )
    if state.attempt is not None and state.attempt.any_call and state.reachable and problem:
        state.attempt.failed = True
        call = replace(call, reachability=Reachability.GUARDED)
    state.usage.calls.append(call)
    if made:
        return Instance(classes=(made,))
    return state.release.ask(returned, callee.dotted, callee.receiver)


def _spread(node: ast.expr, state: State) -> Iterator[str]:
    """The keys that `**table` certainly passes, if the table is a dictionary of the patch.

    There are none if the table depends on a check of the version or of torch's names. Keys are left
    out if they were added on an unreachable line, or in a branch that excludes the call.
    """
    table = read(node, state.silent)
    if isinstance(table, Table) and not table.because:
        yield from (
            key
            for key, (_, put_in) in table.keys.items()
            if put_in.reachable and not _exclude(put_in.path, state.path)
        )


def _exclude(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """True if two places are in different branches of one test. A path is the number of a function,
    then the line and the outcome of each test.
    """
    parting = next(
        (at for at, (one, other) in enumerate(zip(first, second, strict=False)) if one != other), 0
    )
    return parting > 0 and parting % 2 == 0


def _problem(release: Release, dotted: str, passed: Arguments, bound: bool) -> str | None:
    """The reason why a function does not take the arguments; None if it takes them. The
    interpretation of the patch depends on nothing else in the signature.
    """
    function = callable_behind(release, dotted)
    return misfit(function.parameters, passed, bound=bound) if function is not None else None


def _keyword(node: ast.Call, *names: str) -> ast.expr | None:
    return next((each.value for each in node.keywords if each.arg in names), None)


# Functions that take options of Inductor's config as a dictionary -> the name of the argument.
_OPTION_ARGUMENTS = {
    "torch.compile": "options",
    "torch._inductor.compile": "options",
    "torch._inductor.aot_compile": "options",
    "torch._inductor.aoti_compile_and_package": "inductor_configs",
    "torch._inductor.compile_fx.compile_fx": "config_patches",
}
# Options that `torch.compile` itself takes -> the function that has a parameter of this name in
# releases with the option; None if the index has no such function.
_OWN_KEYS = {"guard_filter_fn": "torch._dynamo.eval_frame._optimize", "use_aoti": None}


def note_patched_options(callee: Symbol, node: ast.Call, given: list[Value], state: State) -> None:
    """Note the options of `config.patch(option=..., **{"group.option": ...})`,
    `config.patch("option", value)` and `config.patch(options)`.
    """
    owner, _, method = callee.dotted.rpartition(".")
    if method != "patch":
        return
    options = Table(keys={each.arg: (each.value, state) for each in node.keywords if each.arg})
    for value in given:
        if isinstance(value, Table):
            options.keys.update(value.keys)
        elif isinstance(value, Known):
            put(options, node.args[0], value, state)
    _note_options(owner, options, state)


def note_passed_options(callee: Symbol, keywords: dict[str | None, Value], state: State) -> None:
    """Note the options of a config module that a call passes to torch in a dictionary."""
    taken = _OPTION_ARGUMENTS.get(callee.dotted)
    options = keywords.get(taken) if taken else None
    backend = keywords.get("backend")
    other_backend = backend is not None and not (
        isinstance(backend, Known) and set(backend.values) == {"inductor"}
    )
    if isinstance(options, Table) and not other_backend:
        own = {
            key.replace("-", "_"): at for key, at in options.keys.items() if key not in _OWN_KEYS
        }
        _note_options("torch._inductor.config", Table(keys=own), state)
        for key, (at, put_in) in options.keys.items():
            if getter := _OWN_KEYS.get(key):
                function = state.release.ask(callable_behind, getter)
                known = function is None or any(each.name == key for each in function.parameters)
                presence = Presence.PRESENT if known else Presence.MISSING
                there = put_in if state.reachable else state
                note_reference("option", callee.dotted, key, presence, Span.of(at), there)


def _note_options(owner: str, options: Table, state: State) -> None:
    """Note a reference to each option, at its key. If the call runs, the reference is as reachable
    as the line that adds the key to the dictionary; otherwise it is as reachable as the call.
    """
    for option, (at, put_in) in options.keys.items():
        value: Value = Symbol(dotted=owner, kind="module")
        for name in option.split("."):
            value = attribute(value, name, Span.of(at), put_in if state.reachable else state)


def changed_table(node: ast.Call, arguments: list[Value], state: State) -> Value | None:
    """Evaluate a call that makes or changes a dictionary of the patch. Return the dictionary that
    `dict(...)` makes, UNKNOWN for a method that changes one, and None for any other call.
    """
    keys: dict[str, tuple[ast.expr, Any]] = {
        each.arg: (each.value, state) for each in node.keywords if each.arg
    }
    for value in arguments:
        keys.update(value.keys if isinstance(value, Table) else {})
    if (
        isinstance(node.func, ast.Name)
        and node.func.id == "dict"
        and state.scope.lookup("dict") is None
    ):
        return Table(keys=dict(keys))
    if (
        isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.attr in ("update", "pop", "clear")
    ):
        table = state.scope.lookup(node.func.value.id)
        if isinstance(table, Table):
            if node.func.attr == "update":
                table.keys.update(keys)
            else:
                take_out(table, arguments[0] if arguments else UNKNOWN, state)
            return UNKNOWN
    return None


# Nested calls of small functions are followed to this depth.
_MAX_INLINED = 3
# A function with more nodes than this is not searched for a check that refuses a release.
_MAX_REFUSING = 120
# Calls that do not return. Below: words in the names of checks that raise, used if the source of
# the check is not in the project.
_LEAVING = frozenset({
    "sys.exit", "exit", "quit", "os._exit", "os.abort", "pytest.skip", "pytest.fail",
    "pytest.xfail", "pytest.importorskip",
})  # fmt: skip
_REFUSES = re.compile(r"(?i)check|requir|ensure|assert|verify|validate|need|expect")
# Marks of tests -> the outcome of the mark's condition that skips the test. Below: words in the
# names of other decorators that may drop the function.
_SKIPPED_WHEN = {"skipif": True, "skipIf": True, "skipUnless": False}
_CHOOSES = re.compile(r"(?i)skip|requir|only|when|since|until|if|unless|xfail|version")
_ASKS = re.compile(r"__version__|hasattr|[Vv]ersion")
# Devices that only packages of vendors add to torch: `hasattr(torch, "npu")` tests the machine.
_PLUGGED_IN = frozenset({"gcu", "hpu", "mlu", "musa", "npu", "sdaa"})
# Arguments that name a release for a decorator, as in `@RunIf(max_torch="2.4")`.
_OF_A_RELEASE = re.compile(r"(?i)torch|version")
_A_RELEASE = re.compile(r"\W*v?\d+\.\d+(\.\w+)*")
# Values of these types are the same argument only if their types are equal: 1 and True differ.
_PLAIN = (str, int, float, type(None))
_Arguments = tuple[tuple[str | None, Value, tuple[type, ...]], ...]
# The values of a call's arguments: by position, and by keyword.
Given = tuple[list[Value], dict[str | None, Value]]


def value_of_own_call(callee: OwnFunction, given: Given, state: State) -> tuple[Value, Value]:
    """Return the value of a call of another file's function, and the value that the function's
    return annotation promises.

    Both come from one query to the release, so that releases with the same answer share one
    analysis of the caller.
    """
    arguments, keywords = given
    named = *((None, each) for each in arguments), *keywords.items()
    key = tuple((name, each, _types(each)) for name, each in named)
    plain = all(types is not None for _, _, types in key)
    if plain and state.own is not None and not state.own.unfinished:
        _, value, promised = state.release.ask(
            _own_call, state.own, callee.own, len(arguments), key, state.inlined
        )
        return value, promised
    if state.own is not None:
        state.own.followed.add(callee.own)
    return inline(callee.function, given, state), _returned_by(callee.function, state)


def _returned_by(function: LocalFunction, state: State) -> Value:
    """The value that the annotation of a function promises."""
    returns = getattr(function.node, "returns", None)
    return promised_by(returns, state.having(scope=function.scope))


def _types(value: Value) -> tuple[type, ...] | None:
    """The types of a plain value; None if two such values cannot be compared by equality."""
    if isinstance(value, Known) and all(isinstance(each, _PLAIN) for each in value.values):
        return tuple(map(type, value.values))
    return (
        () if isinstance(value, (Unknown, Symbol, Instance, External, OwnName, OwnModule)) else None
    )


def _own_call(
    release: Release,
    files: OwnFiles,
    name: OwnName,
    positional: int,
    given: _Arguments,
    inlined: int,
) -> tuple[ast.AST | None, Value, Value]:
    state = State(release=release, own=files, inlined=inlined)
    with apart(files, release):
        callee = own_value(name, state)
        if not isinstance(callee, OwnFunction):
            return None, callee, UNKNOWN
        arguments = [value for _, value, _ in given[:positional]]
        keywords = {key: each for key, each, _ in given[positional:]}
        value = inline(callee.function, (arguments, keywords), state)
        if not isinstance(value, Known):
            value = unknown(value)  # the rest is unused, but releases would compare it
        return callee.function.node, value, _returned_by(callee.function, state)


def inline(function: LocalFunction, given: Given, state: State) -> Value:
    """The value that a small function of the patch returns, if only the torch version decides
    it.
    """
    if not may_tell(function.node):
        return UNKNOWN
    inner, _ = _walked(function, given, state)
    results = inner.returned if inner is not None else []
    if results and all(result == results[0] for result in results):
        return results[0]
    return unknown(
        *results, because=VERSION if inner is not None and inner.usage.gates else frozenset()
    )


def _walked(function: LocalFunction, given: Given, state: State) -> tuple[State | None, End | None]:
    """Walk the body of a function of the patch for one call. Return the state inside the function,
    which holds the returned values, and the End of the body.
    """
    node, (arguments, keywords) = function.node, given
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
    outside = inner.having(scope=function.scope)
    positional = [*node.args.posonlyargs, *node.args.args]
    last = positional[len(positional) - len(node.args.defaults) :]
    defaults = [
        *zip(last, node.args.defaults, strict=True),
        *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
    ]
    for each in (*positional, *node.args.kwonlyargs):
        inner.scope.assign(each.arg, keywords.get(each.arg, UNKNOWN))
    for each, default in defaults:
        if default and each.arg not in keywords:
            inner.scope.assign(each.arg, read(default, outside))
    for each, value in zip(positional, arguments, strict=False):
        inner.scope.assign(each.arg, value)
    return inner, execute_block(node.body, inner)


def end_of_call(node: ast.expr, state: State) -> End | None:
    """The End of a call that leaves the program or refuses this release; None for other calls."""
    if not isinstance(node, ast.Call):
        return None
    silent = state.silent.having(inlined=state.inlined or 1)
    callee, name = read(node.func, silent), last_name(node.func)
    if name == "skipTest" or (isinstance(callee, External) and callee.dotted in _LEAVING):
        return End(Reachability.GUARDED)
    function = callee.function if isinstance(callee, OwnFunction) else callee
    if not isinstance(function, LocalFunction):
        return (
            End(state.undecided())
            if _REFUSES.search(name) and because_of(callee) >= VERSION
            else None
        )
    if not _may_refuse(function.node):
        return None
    arguments = [read(each, silent) for each in node.args]
    keywords = {each.arg: read(each.value, silent) for each in node.keywords}
    inner, end = _walked(function, (arguments, keywords), silent)
    return None if inner is None or inner.returned else end


@lru_cache(maxsize=4096)
def _may_refuse(function: ast.AST) -> bool:
    """True if a small function raises, or calls a function that may raise."""
    nodes = list(islice(ast.walk(function), _MAX_REFUSING + 1))
    return len(nodes) <= _MAX_REFUSING and any(
        isinstance(node, (ast.Raise, ast.Assert, ast.Expr)) for node in nodes
    )


def kept_by(decorator: ast.expr, value: Value, state: State) -> Reachability:
    """The reachability of decorated code. A mark may skip a test on some releases, and other
    decorators may drop the function.
    """
    call = decorator if isinstance(decorator, ast.Call) else None
    silent = state.silent.having(inlined=state.inlined or 1)
    name = last_name(call.func if call is not None else decorator)
    given = values_given(call) if call is not None else []
    tests = [read(each, silent) for each in given]
    skipped = _SKIPPED_WHEN.get(name)
    if skipped is not None and tests and truth_of(tests[0]) is not None:
        return state.excluded_by(tests[0]) if truth_of(tests[0]) is skipped else state.reachability
    callee = read(call.func, silent) if call is not None else value
    function = callee.function if isinstance(callee, OwnFunction) else callee
    asks = (
        isinstance(function, LocalFunction) and _ASKS.search(ast.unparse(function.node)) is not None
    )
    because = because_of(value if call is None else callee).union(*map(because_of, tests))
    return (
        state.undecided()
        if asks or _is_told_a_release(call) or (because and (call is None or _CHOOSES.search(name)))
        else state.reachability
    )


def _is_told_a_release(call: ast.Call | None) -> bool:
    return call is not None and any(
        _OF_A_RELEASE.search(each.arg or "") is not None
        and isinstance(each.value, ast.Constant)
        and isinstance(each.value.value, str)
        and _A_RELEASE.fullmatch(each.value.value) is not None
        for each in call.keywords
    )


def member_of_own(
    owner: LocalObject, name: str, span: Span, state: State, *, guarded: bool = False
) -> Value:
    """The value of `self.name` in a class of the patch: a member inherited from torch, or the
    class's own member if its value depends on the version of torch.
    """
    member = owner.of.members.get(name)
    value = owner.of.fields.get(name, member)
    if not isinstance(member, LocalFunction):
        if value is None:
            return _inherited(owner.of, name, span, state, guarded=guarded)
        return value if because_of(value) else UNKNOWN
    if name.startswith("_") and not name.startswith("__"):
        state.use(member, called=True)
    answer = inline(member, ([] if "staticmethod" in member.decorators else [owner], {}), state)
    return answer if "property" in member.decorators else unknown(answer)


def _inherited(owner: LocalClass, name: str, span: Span, state: State, *, guarded: bool) -> Value:
    """The value of `self.name` in a class of the patch that does not define the name itself. The
    value is UNKNOWN unless the class derives from classes of torch only.

    If the bases have the name in no release, lint assumes that the project adds the name in a place
    that lint does not see.
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
