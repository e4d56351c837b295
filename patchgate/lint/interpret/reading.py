"""Expressions of a patch -> values, in one torch release, noting every name of torch on the way.

Decides what each kind of expression stands for and which accesses count. Refuses to know statements.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from patchgate.lint.interpret.folding import Folder
from patchgate.lint.interpret.gates import TorchVersion, field_of, spellings
from patchgate.lint.interpret.lookup import look_up
from patchgate.lint.interpret.narrowing import chain
from patchgate.lint.interpret.references import Live, Presence, Spot, Touch
from patchgate.lint.interpret.spots import attribute_spot
from patchgate.lint.interpret.values import (
    UNKNOWN,
    VERSION,
    Container,
    External,
    Instance,
    Known,
    LocalClass,
    LocalFunction,
    Method,
    Scope,
    Symbol,
    Value,
)

_VERSION_SOURCES = frozenset({"torch.__version__", "torch.version.__version__", "torch.torch_version.__version__"})


class Reader(Folder):
    """Reads expressions. One instance reads one file for one release."""

    def read(self, node: ast.expr | None) -> Value:
        """The value of `node`; every name of torch in it is noted."""
        if node is None:
            return UNKNOWN
        method: Callable[[Any], Value] | None = getattr(self, f"read_{type(node).__name__}", None)
        return method(node) if method is not None else self._read_parts(node)

    def _read_parts(self, node: ast.AST) -> Value:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.read(child)
            else:
                self._read_parts(child)
        return UNKNOWN

    def read_Constant(self, node: ast.Constant) -> Value:
        return Known(values=(node.value,) * 4)

    def read_Name(self, node: ast.Name) -> Value:
        if node.id in self.scope.narrowed:
            return self.scope.narrowed[node.id]
        value = self.scope.lookup(node.id)
        if isinstance(value, LocalFunction):
            self.refer(value)
        elif isinstance(value, LocalClass):
            self.refer_members(value)
        return External(dotted=node.id) if value is None else value

    def read_Attribute(self, node: ast.Attribute) -> Value:
        key = chain(node)
        owner = self.read(node.value)
        value = self.attribute(owner, node.attr, attribute_spot(node), guarded=key in self.scope.guarded)
        return self.scope.narrowed.get(key, value) if key else value

    def attribute(self, owner: Value, name: str, spot: Spot, *, guarded: bool = False) -> Value:
        """`owner.name`, noted as a touch when `owner` belongs to torch."""
        if isinstance(owner, External):
            return self._external(f"{owner.dotted}.{name}")
        if isinstance(owner, Known):
            return self._each(lambda value: field_of(value, name), owner, fallback=Method(owner=owner, name=name))
        if isinstance(owner, LocalClass):
            member = owner.members.get(name, UNKNOWN)
            if isinstance(member, LocalFunction):
                self.refer(member)
            return member
        if not isinstance(owner, (Symbol, Instance)):
            return UNKNOWN
        if isinstance(owner, Symbol) and f"{owner.dotted}.{name}" in _VERSION_SOURCES:
            return self._external(f"{owner.dotted}.{name}")
        presence, value, holder = look_up(self.release, owner, name)
        if not isinstance(owner, Symbol) or owner.kind in ("module", "class"):
            kind = "config" if self.is_config(holder) else "attribute" if bound_late(owner) else "name"
            self.touch(kind, holder, name, presence, spot, guarded=guarded)
        return value

    def touch(self, kind: str, owner: str, name: str, presence: Presence, spot: Spot, *, guarded: bool = False) -> None:
        """Note that the patch needs `owner.name`."""
        live = Live.QUIET if guarded else self.live
        if presence is Presence.MISSING and live is Live.LIVE and self.attempts:
            self.attempts[-1] = True
            live = Live.QUIET
        elif self.attempts and presence is Presence.MISSING:
            live = Live.QUIET
        self.usage.touches.append(
            Touch(
                spot=spot,
                kind=kind,
                owner=owner,
                name=name,
                presence=presence,
                live=live,
                gates=self.gates,
                path=self.path,
            )
        )

    def _external(self, dotted: str) -> Value:
        if dotted in _VERSION_SOURCES:
            texts = tuple(TorchVersion(text) for text in spellings(self.release.version))
            return Known(values=texts, because=frozenset({VERSION}))
        if dotted in ("torch.version.cuda", "torch.version.hip"):
            return UNKNOWN
        return External(dotted=dotted)

    def read_Lambda(self, node: ast.Lambda) -> Value:
        function = LocalFunction(node=node, scope=self.scope)
        self.define(function)
        return function

    def read_NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.read(node.value)
        self.scope.assign(node.target.id, value)
        return value

    def read_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        if len(node.generators) == 1 and not node.generators[0].ifs:
            items = self.read(node.generators[0].iter)
            if isinstance(items, Known):
                return self._spelled_out(node, items)
        with self.inner_scope():
            self._generators(node.generators)
            element = self.read(node.elt)
        return Container(element=element) if isinstance(element, Instance) else UNKNOWN

    read_SetComp = read_ListComp
    read_GeneratorExp = read_ListComp

    def _spelled_out(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, items: Known) -> Value:
        """`int(part) for part in version.split(".")`: each element by itself."""
        rows = [list(value) if isinstance(value, (list, tuple)) else [] for value in items.values]
        found: list[Known] = []
        with self.inner_scope():
            for at in range(min(map(len, rows))):
                self.bind(node.generators[0].target, Known(values=tuple(r[at] for r in rows), because=items.because))
                element = self.read(node.elt)
                if not isinstance(element, Known):
                    return UNKNOWN
                found.append(element)
        return Known(values=tuple([each.values[i] for each in found] for i in range(4)), because=items.because)

    def read_DictComp(self, node: ast.DictComp) -> Value:
        with self.inner_scope():
            self._generators(node.generators)
            self.read(node.key)
            self.read(node.value)
        return UNKNOWN

    def _generators(self, generators: list[ast.comprehension]) -> None:
        for each in generators:
            self.bind(each.target, element_of(self.read(each.iter)))
            for test in each.ifs:
                self.read(test)
                self.narrow(test, True)

    @contextmanager
    def inner_scope(self) -> Iterator[None]:
        outer = self.scope
        self.scope = Scope(parent=outer, narrowed=dict(outer.narrowed), guarded=outer.guarded)
        try:
            yield
        finally:
            self.scope = outer


def element_of(value: Value) -> Value:
    return value.element if isinstance(value, Container) else UNKNOWN


def bound_late(owner: Value) -> bool:
    """Looked up on a class or an object, not on a module."""
    return isinstance(owner, Instance) or (isinstance(owner, Symbol) and owner.kind == "class")
