"""Note how a patch refers to names of torch, assigns them, and replaces them.

A replacement is noted in each syntactic form that a patch may use. Setting an option of a config
module counts only as a reference.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from patchgate.inputs.patch_source import nodes_in
from patchgate.lint.index.read_module import last_name, values_given
from patchgate.lint.index.release import Release
from patchgate.lint.interpret.project_files import is_of_tests, own_value
from patchgate.lint.interpret.references import (
    FunctionNode,
    Hook,
    Presence,
    Reachability,
    Rebinding,
    Reference,
    Span,
)
from patchgate.lint.interpret.state import State, read
from patchgate.lint.interpret.torch_names import (
    covered,
    definition_of,
    has_module,
    has_options,
    look_up,
    promised,
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
    OwnModule,
    OwnName,
    Symbol,
    Table,
    Unknown,
    Value,
    because_of,
    chain,
    unknown,
)
from patchgate.lint.interpret.version_gates import (
    VERSION_SOURCES,
    VERSION_TEXTS,
    TorchVersion,
    field_of,
    fold,
    spellings,
    unpacked,
)

# The form of a static method that was read from its class: a plain function.
_PLAIN = "plain"
FORMS = {"staticmethod": "static", "classmethod": "class", "property": "property"}
FORMS |= {"cached_property": "cached-property", "functools.cached_property": "cached-property"}
# Last names of decorators that keep the parameters of a function. Decorators that register a
# function keep them too.
_KEEPING = frozenset({
    "staticmethod", "classmethod", "property", "cached_property", "wraps", "cache", "lru_cache",
    "contextmanager", "asynccontextmanager", "no_grad", "inference_mode", "enable_grad", "disable",
    "override", "final", "abstractmethod", "compatibility", "dynamo_timed", "cache_on_self",
    "cache_property_on_self", "deprecated", "allow_in_graph",
})  # fmt: skip
# Attributes that show how torch implements a function or module: a test of one checks torch.
_INTROSPECTION = frozenset({
    "__all__", "__code__", "__defaults__", "__dict__", "__doc__", "__kwdefaults__", "__signature__",
})  # fmt: skip
# Dictionaries of a module's names: `__dict__` of any module, and three more of a config module.
_TABLES = frozenset({"_config", "_default", "_allowed_keys", "__dict__"})
# Methods that put entries into a table.
_FILLERS = frozenset({"update", "setdefault", "add", "__setitem__"})


def note_reference(
    kind: str,
    owner: str,
    name: str,
    presence: Presence,
    span: Span,
    state: State,
    *,
    guarded: bool = False,
) -> None:
    """Note that the patch needs `owner.name`."""
    reachability = Reachability.GUARDED if guarded else state.reachability
    if presence is Presence.MISSING and state.attempt is not None:
        if reachability is Reachability.REACHABLE:
            state.attempt.failed = True
        reachability = Reachability.GUARDED
    state.usage.references.append(
        Reference(
            span=span,
            kind=kind,
            owner=owner,
            name=name,
            presence=presence,
            reachability=reachability,
            gates=state.gates,
            path=state.path,
        )
    )


def attribute(owner: Value, name: str, span: Span, state: State, *, guarded: bool = False) -> Value:
    """The value of `owner.name`, noted as a reference if `owner` belongs to torch."""
    if isinstance(owner, External):
        return _external(f"{owner.dotted}.{name}", state)
    if isinstance(owner, OwnModule):
        return own_value(
            OwnName(file=owner.file, name=name, dotted=f"{owner.dotted}.{name}"), state
        )
    if isinstance(owner, Known):
        return fold(lambda value: field_of(value, name), owner) or Method(owner=owner, name=name)
    if isinstance(owner, LocalClass):
        member = owner.members.get(name, UNKNOWN)
        if isinstance(member, LocalFunction):
            state.use(member)
            if _form_of(member) == "static":  # the class returns it as a plain function
                return replace(member, form=_PLAIN)
        return member
    if not isinstance(owner, (Symbol, Instance)):
        return unknown(owner)
    if name in _INTROSPECTION or (
        # `_config` is a config module's table, but `torch.fx.experimental._config` is a module.
        name == "_config"
        and isinstance(owner, Symbol)
        and f"{owner.dotted}._config" not in state.release.modules()
    ):
        return Unknown(PRESENCE)
    if isinstance(owner, Symbol) and f"{owner.dotted}.{name}" in VERSION_SOURCES:
        return _external(f"{owner.dotted}.{name}", state)
    if isinstance(owner, Symbol) and (
        owner.dotted == "torch.ops" or owner.dotted.startswith("torch.ops.")
    ):
        return Symbol(dotted=f"{owner.dotted}.{name}", kind="module")  # no name of torch's API
    presence, value, holder = state.release.ask(look_up, owner, name)
    if isinstance(owner, Instance) or owner.kind in ("module", "class"):
        late = isinstance(owner, Instance) or owner.kind == "class"
        kind = (
            "config" if state.release.ask(has_options, holder) else "attribute" if late else "name"
        )
        note_reference(kind, holder, name, presence, span, state, guarded=guarded)
    replaced = (
        state.own_backend and isinstance(owner, Instance) and name in ("wrapper_code", "scheduler")
    )
    return UNKNOWN if replaced else value


def dotted_value(path: str, span: Span, state: State) -> Value:
    """The value of a dotted path such as `torch.a.b.C`; each step is noted as a reference."""
    first, *rest = path.split(".")
    value: Value = Symbol(dotted=first, kind="module") if first in ("torch", "triton") else UNKNOWN
    for name in rest:
        value = attribute(value, name, span, state)
    return value


def _external(dotted: str, state: State) -> Value:
    if dotted in VERSION_SOURCES:
        kind = str if dotted in VERSION_TEXTS else TorchVersion
        return Known(values=tuple(map(kind, version_spellings(state))), because=VERSION)
    if dotted in ("torch.version.cuda", "torch.version.hip"):
        return UNKNOWN
    return External(dotted=dotted)


def version_spellings(state: State) -> tuple[str, ...]:
    """The versions that builds of this release report. A value that is made from them is valid only
    for this release.
    """
    return state.release.ask(_spellings)


def _spellings(release: Release) -> tuple[str, ...]:
    return spellings(release.version)


def import_module(dotted: str, span: Span, state: State) -> bool:
    """Note a reference to the module; False if this release does not have it."""
    if not state.release.ask(covered, dotted):
        return True
    there = state.release.ask(has_module, dotted)
    owner, _, name = dotted.rpartition(".")
    presence = Presence.PRESENT if there else Presence.MISSING
    note_reference("module", owner, name, presence, span, state)
    return there


def promised_by(annotation: ast.expr | None, state: State) -> Value:
    """The value that an annotation of the patch promises; nothing is noted."""

    def resolve(name: str) -> Value:
        first, *rest = name.split(".")
        value = state.scope.lookup(first)
        if isinstance(value, OwnName):
            value = own_value(value, state)
        for part in rest:
            value = (
                state.release.ask(look_up, value, part)[1] if isinstance(value, Symbol) else None
            )
        return value if value is not None else UNKNOWN

    return promised(annotation, resolve) if annotation is not None else UNKNOWN


def bind(target: ast.expr, value: Value, state: State, source: ast.expr | None = None) -> None:
    """Interpret `target = value`, where `source` is the expression that gave the value."""
    if isinstance(target, ast.Name):
        state.scope.assign(target.id, value)
    elif isinstance(target, ast.Attribute):
        owner = read_owner(target, state)
        state.scope.forget(chain(target))
        called = chain(source).rpartition(".")[2] if source is not None else ""
        rebind(owner, target.attr, value, Span.of_attribute(target), state, called=called)
    elif isinstance(target, (ast.Tuple, ast.List)):
        nodes = source.elts if isinstance(source, (ast.Tuple, ast.List)) else []
        starred = [isinstance(node, ast.Starred) for node in target.elts]
        paired = len(nodes) == len(target.elts) and not any(starred)
        again = state.silent  # the source has been read, and its names noted, already
        for at, part in enumerate(target.elts):
            each = read(nodes[at], again) if paired else unpacked(value, at, starred)
            bind(part, each, state, nodes[at] if paired else None)
    elif isinstance(target, ast.Starred):
        bind(target.value, UNKNOWN, state)
    elif isinstance(target, ast.Subscript) and isinstance(
        table := read(target.value, state), Table
    ):
        table.because |= because_of(value)
        put(table, target.slice, read(target.slice, state), state)
    else:
        read(target, state)
        if isinstance(target, ast.Subscript):
            _define_entry(target.value, [target.slice], state)


def define_by_call(node: ast.Call, state: State) -> None:
    """Note names that a call other than a plain `setattr` creates."""
    method = (
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    )
    if method == "install_config_module":
        for each in node.args[:1]:
            owner = read(each, state.silent)
            state.usage.define(owner.dotted if isinstance(owner, Symbol) else "*", "*", state.path)
    elif method in _FILLERS and isinstance(node.func, ast.Attribute):
        keys = [key for each in node.args[:1] for key in _keys(each)]
        keys += [ast.Constant(value=each.arg) for each in node.keywords if each.arg]
        _define_entry(node.func.value, keys, state)
    elif method in ("setattr", "__setattr__") and node.args:
        *owners, name = node.args[:2]
        owner = read(owners[0], state.silent) if owners else UNKNOWN
        text = read(name, state.silent)
        known = isinstance(text, Known) and isinstance(text.values[0], str)
        if isinstance(owner, (Symbol, Instance)) and (method == "__setattr__" or not known):
            dotted = owner.dotted if isinstance(owner, Symbol) else owner.classes[0]
            state.usage.define(
                dotted, str(text.values[0]) if isinstance(text, Known) else "*", state.path
            )
        elif known and isinstance(text, Known) and isinstance(owner, (Unknown, LocalObject)):
            state.usage.define("*", str(text.values[0]), state.path)
        elif owners and isinstance(owner, Unknown) and chain(owners[0]) not in ("self", "cls"):
            state.usage.define("", "*", state.path)


def _keys(node: ast.expr) -> list[ast.expr]:
    """The keys that `update`, `add` and similar methods put into a table."""
    if isinstance(node, ast.Dict):
        return [ast.Name(id="") if key is None else key for key in node.keys]
    return [*node.elts] if isinstance(node, (ast.Set, ast.List, ast.Tuple)) else [node]


def _define_entry(table: ast.expr, keys: Sequence[ast.expr], state: State) -> None:
    """Note an entry of `config._config` or of `module.__dict__`, which becomes a name of that
    module.
    """
    if isinstance(table, ast.Call) and ast.unparse(table.func) in ("vars", "globals"):
        holder = table.args[0] if table.args else None
    elif isinstance(table, ast.Attribute) and table.attr in _TABLES:
        holder = table.value
    else:
        return
    owner = read(holder, state.silent)
    dotted = owner.dotted if isinstance(owner, Symbol) else "*"
    texts = [read(key, state.silent) for key in keys]
    for text in texts:
        name = (
            str(text.values[0])
            if isinstance(text, Known) and isinstance(text.values[0], str)
            else "*"
        )
        group, _, option = name.rpartition(".")
        state.usage.define(f"{dotted}.{group}" if group else dotted, option, state.path)


def put(table: Table, key: ast.expr, known: Value, state: State) -> None:
    """Add a key to a patch's dictionary if it is the same string in all spellings of a release."""
    texts = set(known.values) if isinstance(known, Known) else set()
    if len(texts) == 1 and isinstance(text := texts.pop(), str):
        table.keys[text] = key, state


def take_out(table: Table, known: Value, state: State) -> None:
    """Remove a key from a dictionary of the patch, or all keys if the key is unknown. If a version
    check keeps this line from running, remove nothing.
    """
    for key in [*table.keys] if state.reachability is not Reachability.GATED else ():
        if not isinstance(known, Known) or key in known.values:
            del table.keys[key]


def read_owner(node: ast.Attribute, state: State) -> Value:
    """Return the owner of an attribute. Setting or reading an attribute of a function of the patch
    does not count as a use of the function.
    """
    function = state.scope.lookup(node.value.id) if isinstance(node.value, ast.Name) else None
    return function if isinstance(function, LocalFunction) else read(node.value, state)


def _in_a_test(state: State) -> bool:
    """True inside a function of a test file."""
    file = state.scope.home()
    return state.scope.parent is not None and file is not None and is_of_tests(file)


def rebind(
    owner: Value,
    name: str,
    value: Value,
    span: Span,
    state: State,
    *,
    called: str = "",
    mocked: bool = False,
) -> None:
    """Note `owner.name = value` if `owner` is a class or module of torch. Setting an option counts
    as a reference. `called` is the last name of the value.
    """
    if isinstance(owner, Instance):
        # The patch sets its own mark on an object of torch: reading it later is no missing name.
        state.usage.define(owner.classes[0], name, state.path)
        _note_hook(owner, name, value, span, state)
    elif not isinstance(owner, Symbol):
        state.usage.define("", name, state.path)
        if isinstance(owner, LocalObject):
            before = owner.of.fields.get(name)
            owner.of.fields[name] = (
                value if before is None or before == value else unknown(before, value)
            )
    if not isinstance(owner, Symbol) or owner.kind not in ("class", "module"):
        return
    presence, _, _ = state.release.ask(look_up, owner, name)
    if state.release.ask(has_options, owner.dotted):
        note_reference("config", owner.dotted, name, presence, span, state)
        return
    if (
        isinstance(value, LocalFunction)
        and owner.kind == "class"
        and _form_of(value) not in ("static", "class")
    ):
        value.receivers.add(owner.dotted)
    # A mock adds no missing name: it raises, unless its arguments allow a missing name.
    if not mocked:
        state.usage.define(owner.dotted, "*" if name == "__getattr__" else name, state.path)
    rebinding = _rebinding(owner, name, value, span, state)
    tested, mocked = mocked or _in_a_test(state), mocked or state.passing
    state.usage.rebindings.append(
        replace(rebinding, presence=presence, called=called, mocked=mocked, tested=tested)
    )


def _note_hook(owner: Instance, name: str, value: Value, span: Span, state: State) -> None:
    """Note a function that the patch sets on an object of torch. Functions that a test sets are
    left out, because they are meant for the tested code.
    """
    if isinstance(value, LocalFunction) and not _is_wrapped(value) and not _in_a_test(state):
        state.usage.hooks.append(
            Hook(
                span=span,
                owner=owner.classes[0],
                name=name,
                function=value.node,
                reachability=state.reachability,
                gates=state.gates,
            )
        )


def _rebinding(owner: Symbol, name: str, value: Value, span: Span, state: State) -> Rebinding:
    origin, original = state.release.ask(definition_of, owner, name)
    return Rebinding(
        span=span,
        target=f"{owner.dotted}.{name}",
        on_class=owner.kind == "class",
        presence=Presence.PRESENT,
        origin=origin,
        original=original,
        function=value.node if isinstance(value, LocalFunction) else None,
        reachability=state.reachability,
        form=_form_of(value),
        gates=state.gates,
        wrapped=isinstance(value, LocalFunction) and _is_wrapped(value),
        left_by=state.left_by,
    )


def override(bases: Sequence[Value], name: str, function: LocalFunction, state: State) -> None:
    """Record that a method of the patch's class overrides `name`, for each base in torch that
    defines `name`.
    """
    for base in bases:
        if not isinstance(base, Symbol) or isinstance(function.node, ast.Lambda):
            continue
        if base.kind == "class" and state.release.ask(definition_of, base, name)[1] is not None:
            span = Span.of_function_name(function.node)
            rebinding = _rebinding(base, name, function, span, state)
            state.usage.overrides.append(replace(rebinding, inherited=True))


def _form_of(value: Value) -> str | None:
    """The form of a function ("static", "class", ...), by its wrapper or decorators, if any."""
    if not isinstance(value, LocalFunction):
        return None
    if value.form == _PLAIN:
        return None
    return value.form or next(filter(None, map(FORMS.get, value.decorators)), None)


def _is_wrapped(function: LocalFunction) -> bool:
    """True if a decorator may return another function, with other parameters."""
    for each in getattr(function.node, "decorator_list", ()):
        decorator = each.func if isinstance(each, ast.Call) else each
        name = last_name(decorator)
        own = function.scope.lookup(decorator.id) if isinstance(decorator, ast.Name) else None
        passes = isinstance(own, LocalFunction) and _returns_what_it_is_given(own.node)
        if not passes and name not in _KEEPING and not name.startswith("register"):
            return True
    return False


@lru_cache(maxsize=256)
def _returns_what_it_is_given(decorator: FunctionNode) -> bool:
    """True if a decorator returns its function, or a wrapper that passes all arguments to it."""
    if isinstance(decorator, ast.Lambda):
        return False
    given = {each.arg for each in decorator.args.args}
    inner = {each.name: each for each in decorator.body if isinstance(each, ast.FunctionDef)}
    within = {id(node) for each in inner.values() for node in ast.walk(each)}
    returns = [node.value for node in nodes_in(decorator, ast.Return) if id(node) not in within]
    names = [each.id if isinstance(each, ast.Name) else "" for each in returns]
    return bool(names) and all(
        name in given
        or (
            name in inner
            and (_hands_on(inner[name], given) or _returns_what_it_is_given(inner[name]))
        )
        for name in names
    )


def _hands_on(function: ast.FunctionDef, given: set[str]) -> bool:
    """True if a function takes only `*args, **kwargs` and passes them to the decorated function."""
    own = function.args
    if own.args or own.kwonlyargs or own.vararg is None or own.kwarg is None:
        return False
    calls = [node for node in nodes_in(function, ast.Call) if last_name(node.func) in given]
    passed = {ast.unparse(ast.Tuple(elts=values_given(each))) for each in calls}
    return passed == {f"(*{own.vararg.arg}, {own.kwarg.arg})"}
