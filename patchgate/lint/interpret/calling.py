"""Calls in a patch: into torch, into the patch itself, and the few that change or ask for names.

Decides what `hasattr`, `setattr`, `mock.patch`, `config.patch` and version helpers mean.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from patchgate.lint.index.records import Class, Function
from patchgate.lint.interpret.annotations import promised
from patchgate.lint.interpret.gates import HELPERS, NotKnown, attempt, call_method, pure_function, spellings
from patchgate.lint.interpret.lookup import covered, look_up, returned
from patchgate.lint.interpret.rebinding import Rebinder
from patchgate.lint.interpret.references import Calling, Presence, Spot
from patchgate.lint.interpret.spots import spot_of
from patchgate.lint.interpret.values import (
    PRESENCE,
    UNKNOWN,
    VERSION,
    External,
    Instance,
    Known,
    LocalFunction,
    Method,
    Symbol,
    Value,
)

_PATCHERS = frozenset({"unittest.mock.patch", "mock.patch"})
_OBJECT_PATCHERS = frozenset({"unittest.mock.patch.object", "mock.patch.object"})
_TRANSPARENT = frozenset({"staticmethod", "classmethod", "property", "functools.cache", "functools.cached_property"})
_METADATA = frozenset({"importlib.metadata.version", "importlib_metadata.version"})


class CallReader(Rebinder):
    """Reads calls."""

    def read_Call(self, node: ast.Call) -> Value:
        callee = self.read(node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "setattr" and not isinstance(callee, Symbol):
            callee = External(dotted="monkeypatch.setattr")
        elif isinstance(callee, Symbol) and pure_function(callee.dotted) is not None:
            callee = External(dotted=callee.dotted)
        if isinstance(callee, External):
            special = self._special(callee.dotted, node)
            if special is not None:
                return special
        arguments = [self.read(each.value if isinstance(each, ast.Starred) else each) for each in node.args]
        keywords = {each.arg: self.read(each.value) for each in node.keywords}
        if isinstance(callee, Symbol) and callee.kind == "config-method":
            self._patch_options(callee, node)
            return UNKNOWN
        if isinstance(callee, Symbol):
            return self._call_torch(node, callee)
        if isinstance(callee, Method):
            return self._call_method(callee, arguments, keywords)
        if isinstance(callee, LocalFunction):
            return self._call_local(node, callee, arguments)
        if isinstance(callee, External):
            return self._call_external(callee, arguments)
        return UNKNOWN

    def _special(self, dotted: str, node: ast.Call) -> Value | None:
        """The value of a call that asks for or changes names; None when it is an ordinary call."""
        name = dotted.rpartition(".")[2]
        texts = [each.value if isinstance(each, ast.Constant) else None for each in node.args]
        if dotted in ("hasattr", "getattr", "setattr") and len(texts) >= 2 and isinstance(texts[1], str):
            return self._by_name(dotted, node, texts[1])
        if (dotted in _OBJECT_PATCHERS or name == "setattr") and len(texts) >= 2 and isinstance(texts[1], str):
            owner = self.read(node.args[0])
            self._needed_by_mock(dotted, node, owner, texts[1], spot_of(node.args[1]))
            return self._set_by_name(node, owner, texts[1])
        if (dotted in _PATCHERS or name == "setattr") and texts and isinstance(texts[0], str):
            return self._patch_path(dotted, node, texts[0])
        if dotted == "importlib.import_module" and texts and isinstance(texts[0], str):
            return self._import_module(node, texts[0])
        if dotted == "importlib.util.find_spec" and texts and isinstance(texts[0], str):
            there = texts[0] in self.release.modules()
            if covered(self.release, texts[0]):
                return Known(values=(there,) * 4, because=frozenset({PRESENCE}))
        if dotted in _METADATA and texts == ["torch"]:
            return Known(values=spellings(self.release.version), because=frozenset({VERSION}))
        return None

    def _by_name(self, function: str, node: ast.Call, name: str) -> Value:
        owner = self.read(node.args[0])
        if function == "setattr":
            return self._set_by_name(node, owner, name)
        for rest in node.args[2:]:
            self.read(rest)
        if function == "getattr":
            return self.attribute(owner, name, spot_of(node.args[1]), guarded=len(node.args) > 2)
        if not isinstance(owner, (Symbol, Instance)):
            return UNKNOWN
        presence, _, _ = look_up(self.release, owner, name)
        if presence is Presence.MAYBE:
            return UNKNOWN
        return Known(values=(presence is Presence.PRESENT,) * 4, because=frozenset({PRESENCE}))

    def _set_by_name(self, node: ast.Call, owner: Value, name: str) -> Value:
        new = node.args[2] if len(node.args) > 2 else _keyword(node, "new", "side_effect")
        replacement = self.read(new) if new is not None else UNKNOWN
        self.rebind(owner, name, replacement, new, spot_of(node.args[1]))
        return UNKNOWN

    def _patch_path(self, dotted: str, node: ast.Call, path: str) -> Value:
        owner_path, _, name = path.rpartition(".")
        new = node.args[1] if len(node.args) > 1 else _keyword(node, "new", "side_effect")
        replacement = self.read(new) if new is not None else UNKNOWN
        spot = spot_of(node.args[0])
        owner = self.dotted(owner_path, spot)
        if isinstance(owner, Symbol):
            self._needed_by_mock(dotted, node, owner, name, spot)
            self.rebind(owner, name, replacement, new, spot)
        return UNKNOWN

    def _needed_by_mock(self, dotted: str, node: ast.Call, owner: Value, name: str, spot: Spot) -> None:
        """`mock.patch` raises for a name that is not there, unless it is told to create it."""
        if dotted in _PATCHERS | _OBJECT_PATCHERS and _keyword(node, "create") is None:
            self.attribute(owner, name, spot)

    def _import_module(self, node: ast.Call, path: str) -> Value:
        if not covered(self.release, path):
            return Symbol(dotted=path, kind="module") if path.split(".")[0] == "torch" else UNKNOWN
        there = path in self.release.modules()
        owner, _, name = path.rpartition(".")
        presence = Presence.PRESENT if there else Presence.MISSING
        self.touch("module", owner, name, presence, spot_of(node.args[0]))
        return Symbol(dotted=path, kind="module") if there else UNKNOWN

    def _patch_options(self, callee: Symbol, node: ast.Call) -> None:
        """`config.patch(option=..., **{"group.option": ...})`."""
        owner, _, method = callee.dotted.rpartition(".")
        if method != "patch":
            return
        named: list[tuple[str, ast.expr]] = [(each.arg, each.value) for each in node.keywords if each.arg]
        for each in node.args[:1]:
            keys = each.keys if isinstance(each, ast.Dict) else [each]
            named += [(key.value, key) for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
        for option, at in named:
            value: Value = Symbol(dotted=owner, kind="module")
            for name in option.split("."):
                value = self.attribute(value, name, spot_of(at))

    def _call_method(self, callee: Method, arguments: list[Value], keywords: dict[str | None, Value]) -> Value:
        known = [each for each in arguments if isinstance(each, Known)]
        options = {name: value for name, value in keywords.items() if name and isinstance(value, Known)}
        if len(known) != len(arguments) or len(options) != len(keywords):
            return UNKNOWN
        values = []
        for at, owner in enumerate(callee.owner.values):
            named = {name: value.values[at] for name, value in options.items()}
            try:
                values.append(call_method(owner, callee.name, [each.values[at] for each in known], named))
            except NotKnown:
                return UNKNOWN
        because = callee.owner.because.union(*(each.because for each in known))
        return Known(values=tuple(values), because=because)

    def _call_external(self, callee: External, arguments: list[Value]) -> Value:
        if callee.dotted in _TRANSPARENT and arguments:
            return arguments[0] if isinstance(arguments[0], LocalFunction) else UNKNOWN
        function = pure_function(callee.dotted)
        helper = HELPERS.get(callee.dotted.rpartition(".")[2])
        if helper is not None:
            return self._ask_helper(helper, arguments)
        if function is None:
            return UNKNOWN
        rows: list[tuple[object, ...]] = []
        because: frozenset[str] = frozenset()
        for each in arguments:
            if isinstance(each, External) and pure_function(each.dotted):
                rows.append((pure_function(each.dotted),) * 4)
            elif isinstance(each, Known):
                rows.append(each.values)
                because |= each.because
            else:
                return UNKNOWN
        try:
            return Known(
                values=tuple(attempt(function, *row) for row in zip(*rows, strict=True)) or (None,) * 4,
                because=because,
            )
        except NotKnown:
            return UNKNOWN

    def _ask_helper(self, helper: Callable[..., Callable[[str], bool]], arguments: list[Value]) -> Value:
        texts = [str(each.values[0]) for each in arguments if isinstance(each, Known)]
        if not texts or len(texts) != len(arguments):
            return UNKNOWN
        try:
            values = tuple(attempt(helper(*texts), each) for each in spellings(self.release.version))
        except (NotKnown, TypeError):
            return UNKNOWN
        return Known(values=values, because=frozenset({VERSION}))

    def _call_local(self, node: ast.Call, callee: LocalFunction, arguments: list[Value]) -> Value:
        value = self.inline(callee, node, arguments)
        if isinstance(value, Known):
            return value
        helper = HELPERS.get(getattr(callee.node, "name", ""))
        if helper is not None:
            return self._ask_helper(helper, arguments)
        annotation = getattr(callee.node, "returns", None)
        return promised(annotation, self.names_in(callee.scope)) if annotation is not None else UNKNOWN

    def _call_torch(self, node: ast.Call, callee: Symbol) -> Value:
        found = self.release.resolve(callee.dotted)
        if found is None:
            return UNKNOWN
        if isinstance(found.symbol, Class):
            own = found.symbol.functions.get("__init__")
            if own is not None and "__new__" not in found.symbol.functions:
                self._note_call(node, callee.dotted, own, bound=True)
            return Instance(classes=(found.origin,))
        if isinstance(found.symbol, Function):
            self._note_call(node, callee.dotted, found.symbol, bound=callee.bound)
            return returned(self.release, found.origin, found.symbol, callee.receiver)
        return UNKNOWN

    def _note_call(self, node: ast.Call, dotted: str, function: Function, *, bound: bool) -> None:
        starred = any(isinstance(each, ast.Starred) for each in node.args) or any(
            each.arg is None for each in node.keywords
        )
        self.usage.callings.append(
            Calling(
                spot=spot_of(node.func),
                dotted=dotted,
                function=function,
                bound=bound,
                positional=sum(not isinstance(each, ast.Starred) for each in node.args),
                keywords=tuple(each.arg for each in node.keywords if each.arg),
                starred=starred,
                live=self.live,
            )
        )


def _keyword(node: ast.Call, *names: str) -> ast.expr | None:
    return next((each.value for each in node.keywords if each.arg in names), None)
