"""Expressions of a patch -> values, in one torch release, noting every name of torch on the way.

Decides what each kind of expression stands for and which accesses count. Refuses to know statements.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from patchgate.surface.calling import CallReader
from patchgate.surface.gates import (
    ORDER,
    NotKnown,
    TorchVersion,
    attempt,
    field_of,
    spellings,
    traps_in,
)
from patchgate.surface.lookup import look_up
from patchgate.surface.narrowing import chain
from patchgate.surface.spots import attribute_spot, spot_of
from patchgate.surface.usage import Comparison, Live, Presence, Spot, Touch
from patchgate.surface.values import (
    PRESENCE,
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

_OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_VERSION_SOURCES = frozenset(
    {"torch.__version__", "torch.version.__version__", "torch.torch_version.__version__"}
)


class Reader(CallReader):
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
            return self._each(
                lambda value: field_of(value, name), owner, fallback=Method(owner=owner, name=name)
            )
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

    def touch(
        self, kind: str, owner: str, name: str, presence: Presence, spot: Spot, *, guarded: bool = False
    ) -> None:
        """Note that the patch needs `owner.name`."""
        live = Live.QUIET if guarded else self.live
        if presence is Presence.MISSING and live is Live.LIVE and self.attempts:
            self.attempts[-1] = True
            live = Live.QUIET
        elif self.attempts and presence is Presence.MISSING:
            live = Live.QUIET
        self.usage.touches.append(
            Touch(
                spot=spot, kind=kind, owner=owner, name=name, presence=presence, live=live, gates=self.gates
            )
        )

    def _external(self, dotted: str) -> Value:
        if dotted in _VERSION_SOURCES:
            texts = tuple(TorchVersion(text) for text in spellings(self.release.version))
            return Known(values=texts, because=frozenset({VERSION}))
        if dotted in ("torch.version.cuda", "torch.version.hip"):
            return UNKNOWN
        return External(dotted=dotted)

    def _each(self, function: Callable[..., Any], *operands: Known, fallback: Value = UNKNOWN) -> Value:
        """`function` in each spelling of the release."""
        try:
            values = tuple(
                attempt(function, *row) for row in zip(*(known.values for known in operands), strict=True)
            )
        except NotKnown:
            return fallback
        return Known(values=values, because=frozenset().union(*(known.because for known in operands)))

    def read_Compare(self, node: ast.Compare) -> Value:
        operands = [self.read(each) for each in (node.left, *node.comparators)]
        because: frozenset[str] = frozenset()
        total: tuple[Any, ...] | None = None
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            symbol = _OPERATORS.get(type(operator))
            if not isinstance(left, Known) or not isinstance(right, Known):
                return UNKNOWN
            result = self._each(_comparer(operator, symbol), left, right)
            if not isinstance(result, Known):
                return UNKNOWN
            because |= result.because
            if symbol and VERSION in result.because:
                self._note_traps(node, symbol, left, right, result)
            held = tuple(map(bool, result.values))
            total = held if total is None else tuple(a and b for a, b in zip(total, held, strict=True))
        return Known(values=total or (True,) * 4, because=because)

    def _note_traps(self, node: ast.Compare, symbol: str, left: Known, right: Known, result: Known) -> None:
        traps = traps_in(symbol, left.values, right.values, result.values)
        if traps:
            self.usage.comparisons.append(
                Comparison(spot=spot_of(node), text=ast.unparse(node), traps=traps, live=self.live)
            )

    def read_BoolOp(self, node: ast.BoolOp) -> Value:
        """`and` and `or`, later operands read with what the earlier ones have shown."""
        stops = isinstance(node.op, ast.Or)
        saved, live = self.scope.snapshot(), self.live
        known: list[Known] = []
        for operand in node.values:
            value = self.read(operand)
            if isinstance(value, Known):
                known.append(value)
                if value.truth is stops:
                    self.live = self.dead(value)
            self.narrow(operand, not stops)
        self.scope.restore(saved)
        self.live = live
        deciding = [value for value in known if value.truth is stops]
        if deciding:
            return Known(values=deciding[0].values, because=frozenset().union(*(v.because for v in deciding)))
        if len(known) == len(node.values):
            combine = any if stops else all
            values = tuple(combine(map(bool, row)) for row in zip(*(v.values for v in known), strict=True))
            return Known(values=values, because=frozenset().union(*(v.because for v in known)))
        return UNKNOWN

    def read_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self.read(node.operand)
        if isinstance(node.op, ast.Not) and isinstance(value, Known):
            return Known(values=tuple(not each for each in value.values), because=value.because)
        if isinstance(node.op, ast.USub) and isinstance(value, Known):
            return self._each(lambda each: -each, value)
        return UNKNOWN

    def read_IfExp(self, node: ast.IfExp) -> Value:
        test = self.read(node.test)
        truth = test.truth if isinstance(test, Known) else None
        saved, live = self.scope.snapshot(), self.live
        results = []
        for branch, way in ((node.body, True), (node.orelse, False)):
            if truth is not None and truth is not way:
                self.live = self.dead(test)
            self.narrow(node.test, way)
            results.append(self.read(branch))
            self.scope.restore(saved)
            self.live = live
        if truth is None:
            return results[0] if results[0] == results[1] else UNKNOWN
        return results[0 if truth else 1]

    def read_Tuple(self, node: ast.Tuple) -> Value:
        return self._sequence(node.elts, tuple)

    def read_List(self, node: ast.List) -> Value:
        return self._sequence(node.elts, list)

    def _sequence(self, nodes: list[ast.expr], make: Callable[[Any], Any]) -> Value:
        items = [self.read(item) for item in nodes]
        if all(isinstance(item, Known) for item in items):
            rows = [item.values for item in items if isinstance(item, Known)]
            because = frozenset().union(*(item.because for item in items if isinstance(item, Known)))
            return Known(values=tuple(make(row[i] for row in rows) for i in range(4)), because=because)
        return UNKNOWN

    def read_Subscript(self, node: ast.Subscript) -> Value:
        owner = self.read(node.value)
        if isinstance(node.slice, ast.Slice):
            parts = [node.slice.lower, node.slice.upper, node.slice.step]
            bounds = [Known(values=(None,) * 4) if part is None else self.read(part) for part in parts]
            if isinstance(owner, Known) and all(isinstance(bound, Known) for bound in bounds):
                known = [bound for bound in bounds if isinstance(bound, Known)]
                return self._each(lambda value, a, b, c: value[slice(a, b, c)], owner, *known)
            return owner if isinstance(owner, Container) else UNKNOWN
        index = self.read(node.slice)
        if isinstance(owner, Known) and isinstance(index, Known):
            return self._each(lambda value, at: value[at], owner, index)
        return owner.element if isinstance(owner, Container) else UNKNOWN

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
                self.bind(
                    node.generators[0].target, Known(values=tuple(r[at] for r in rows), because=items.because)
                )
                element = self.read(node.elt)
                if not isinstance(element, Known):
                    return UNKNOWN
                found.append(element)
        return Known(
            values=tuple([each.values[i] for each in found] for i in range(4)), because=items.because
        )

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

    def dead(self, test: Value) -> Live:
        """The state of code that `test` keeps from running."""
        if self.live is not Live.LIVE:
            return self.live
        gated = isinstance(test, Known) and VERSION in test.because and PRESENCE not in test.because
        return Live.GATED if gated else Live.QUIET


def element_of(value: Value) -> Value:
    return value.element if isinstance(value, Container) else UNKNOWN


def bound_late(owner: Value) -> bool:
    """Looked up on a class or an object, not on a module."""
    return isinstance(owner, Instance) or (isinstance(owner, Symbol) and owner.kind == "class")


def _comparer(operator: ast.cmpop, symbol: str | None) -> Callable[[Any, Any], bool]:
    if symbol is not None:
        return ORDER[symbol]
    if isinstance(operator, ast.In):
        return lambda left, right: left in right
    if isinstance(operator, ast.NotIn):
        return lambda left, right: left not in right
    same = isinstance(operator, ast.Is)
    return lambda left, right: (left is right) is same
