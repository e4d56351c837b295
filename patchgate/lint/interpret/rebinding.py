"""Assignments to names of torch, in whatever way they are written.

Decides what is replaced and by what; `config.x = ...` is a touch of an option, not a replacement.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Sequence

from patchgate.lint.index.records import Function
from patchgate.lint.interpret.annotations import Resolve
from patchgate.lint.interpret.lookup import look_up, module_of
from patchgate.lint.interpret.narrowing import Narrower
from patchgate.lint.interpret.references import Presence, Rebinding, Spot
from patchgate.lint.interpret.spots import name_spot
from patchgate.lint.interpret.values import UNKNOWN, Instance, LocalFunction, Scope, Symbol, Value

_FORMS = {"staticmethod": "static", "classmethod": "class", "property": "property"}
_FORMS |= {"cached_property": "cached-property", "functools.cached_property": "cached-property"}


class Rebinder(Narrower):
    """Notes rebindings, and walks dotted paths given as text."""

    @abstractmethod
    def attribute(self, owner: Value, name: str, spot: Spot, *, guarded: bool = False) -> Value: ...

    @abstractmethod
    def touch(
        self, kind: str, owner: str, name: str, presence: Presence, spot: Spot, *, guarded: bool = False
    ) -> None: ...

    def dotted(self, path: str, spot: Spot) -> Value:
        """The value at the end of `torch.a.b.C`, each step noted."""
        first, *rest = path.split(".")
        value: Value = Symbol(dotted=first, kind="module") if first in ("torch", "triton") else UNKNOWN
        for name in rest:
            value = self.attribute(value, name, spot)
        return value

    def rebind(self, owner: Value, name: str, value: Value, node: ast.expr | None, spot: Spot) -> None:
        """Note `owner.name = value` when `owner` is a class or module of torch."""
        if isinstance(owner, Instance):
            # The patch's own mark on an object of torch: reading it back is no missing name.
            self.usage.define(owner.classes[0], name, self.path)
        if not isinstance(owner, Symbol) or owner.kind not in ("class", "module"):
            return
        presence, _, _ = look_up(self.release, owner, name)
        if self.is_config(owner.dotted):
            self.touch("config", owner.dotted, name, presence, spot)
            return
        found = (
            self.release.member(owner.dotted, name)
            if owner.kind == "class"
            else self.release.resolve(f"{owner.dotted}.{name}")
        )
        original = found.symbol if found is not None and isinstance(found.symbol, Function) else None
        form = _form_of(node, value)
        if isinstance(value, LocalFunction) and owner.kind == "class" and form != "static":
            value.receivers.add(owner.dotted)
        self.usage.define(owner.dotted, name, self.path)
        self.usage.rebindings.append(
            Rebinding(
                spot=spot,
                target=f"{owner.dotted}.{name}",
                on_class=owner.kind == "class",
                presence=presence,
                origin=found.origin if found is not None else None,
                original=original,
                replacement=value,
                live=self.live,
                form=form,
                gates=self.gates,
            )
        )

    def override(self, bases: Sequence[Value], name: str, function: LocalFunction) -> None:
        """Note that a class of the patch defines `name`, where a base of torch does too."""
        for base in bases:
            if not isinstance(base, Symbol) or base.kind != "class" or isinstance(function.node, ast.Lambda):
                continue
            found = self.release.member(base.dotted, name)
            if found is None or not isinstance(found.symbol, Function):
                continue
            self.usage.overrides.append(
                Rebinding(
                    spot=name_spot(function.node),
                    target=f"{base.dotted}.{name}",
                    on_class=True,
                    presence=Presence.PRESENT,
                    origin=found.origin,
                    original=found.symbol,
                    replacement=function,
                    live=self.live,
                    form=_form_of(None, function),
                    gates=self.gates,
                    inherited=True,
                )
            )

    def is_config(self, dotted: str) -> bool:
        """Whether `dotted` is a module of options, or a group of them inside one."""
        if "config" not in dotted:
            return False
        module = self.release.module(module_of(self.release, dotted))
        return module is not None and bool(module.config)

    def names_in(self, scope: Scope) -> Resolve:
        """Dotted names as the patch's own annotations see them; nothing is noted."""

        def resolve(name: str) -> Value:
            first, *rest = name.split(".")
            value = scope.lookup(first)
            for part in rest:
                value = look_up(self.release, value, part)[1] if isinstance(value, Symbol) else None
            return value if value is not None else UNKNOWN

        return resolve


def _form_of(node: ast.expr | None, value: Value) -> str | None:
    """How the replacement will be bound: by what wraps it, else by its decorators."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FORMS:
        return _FORMS[node.func.id]
    if isinstance(value, LocalFunction):
        for decorator in getattr(value.node, "decorator_list", ()):
            form = _FORMS.get(ast.unparse(decorator))
            if form is not None:
                return form
    return None
