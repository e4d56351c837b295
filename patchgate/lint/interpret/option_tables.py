"""Options that are handed over as a dictionary: to `torch.compile`, to `config.patch`, however it was built."""

from __future__ import annotations

import ast
from typing import Any

from patchgate.lint.interpret.bindings import attribute, note_reference, put
from patchgate.lint.interpret.references import Presence, Span
from patchgate.lint.interpret.state import State
from patchgate.lint.interpret.torch_names import callable_behind
from patchgate.lint.interpret.values import UNKNOWN, Known, Symbol, Table, Value

# Functions that take options of Inductor's config as a dictionary, and the name of that argument.
_OPTION_ARGUMENTS = {
    "torch.compile": "options",
    "torch._inductor.compile": "options",
    "torch._inductor.aot_compile": "options",
    "torch._inductor.aoti_compile_and_package": "inductor_configs",
    "torch._inductor.compile_fx.compile_fx": "config_patches",
}
# Keys that `torch.compile` takes out of its options by itself -> the function that gets them, with a parameter of that
# name where the release knows the key; None where no indexed function tells.
_OWN_KEYS = {"guard_filter_fn": "torch._dynamo.eval_frame._optimize", "use_aoti": None}


def note_patched_options(callee: Symbol, node: ast.Call, given: list[Value], state: State) -> None:
    """`config.patch(option=..., **{"group.option": ...})`, `config.patch("option", value)`, `config.patch(options)`."""
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
    """Options of a config module that a function of torch takes as a dictionary."""
    taken = _OPTION_ARGUMENTS.get(callee.dotted)
    options = keywords.get(taken) if taken else None
    backend = keywords.get("backend")
    other_backend = backend is not None and not (isinstance(backend, Known) and set(backend.values) == {"inductor"})
    if isinstance(options, Table) and not other_backend:
        own = {key.replace("-", "_"): at for key, at in options.keys.items() if key not in _OWN_KEYS}
        _note_options("torch._inductor.config", Table(keys=own), state)
        for key, (at, put_in) in options.keys.items():
            if getter := _OWN_KEYS.get(key):
                function = state.release.ask(callable_behind, getter)
                known = function is None or any(each.name == key for each in function.parameters)
                presence = Presence.PRESENT if known else Presence.MISSING
                there = put_in if state.reachable else state
                note_reference("option", callee.dotted, key, presence, Span.of(at), there)


def _note_options(owner: str, options: Table, state: State) -> None:
    """Each option is needed where the call runs, if the line ran that put it into the dictionary."""
    for option, (at, put_in) in options.keys.items():
        value: Value = Symbol(dotted=owner, kind="module")
        for name in option.split("."):
            value = attribute(value, name, Span.of(at), put_in if state.reachable else state)


def changed_table(node: ast.Call, arguments: list[Value], state: State) -> Value | None:
    """The dictionary that `dict(...)` makes; what `table.update(...)` gives; None for any other call."""
    keys: dict[str, tuple[ast.expr, Any]] = {each.arg: (each.value, state) for each in node.keywords if each.arg}
    for value in arguments:
        keys.update(value.keys if isinstance(value, Table) else {})
    if isinstance(node.func, ast.Name) and node.func.id == "dict" and state.scope.lookup("dict") is None:
        return Table(keys=dict(keys))
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.attr == "update":
        table = state.scope.lookup(node.func.value.id)
        if isinstance(table, Table):
            table.keys.update(keys)
            return UNKNOWN
    return None
