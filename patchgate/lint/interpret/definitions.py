"""Imports, functions and classes of a patch, and the order in which function bodies are walked.

Decides what a parameter is, and which functions run in this release. Refuses to know other statements.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence

from patchgate.lint.interpret.annotations import promised
from patchgate.lint.interpret.lookup import covered, look_up
from patchgate.lint.interpret.reading import Reader
from patchgate.lint.interpret.references import Live, Presence, Spot
from patchgate.lint.interpret.spots import spot_of
from patchgate.lint.interpret.values import UNKNOWN, External, Instance, LocalClass, LocalFunction, Scope, Symbol, Value
from patchgate.lint.interpret.walk import Pending

_TORCH = ("torch", "triton")


class Definer(Reader):
    """Walks imports, `def` and `class`; then, at last, the bodies."""

    def block(self, statements: Sequence[ast.stmt]) -> object:
        raise NotImplementedError

    def walk_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            first = alias.name.split(".")[0]
            spot = spot_of(alias)
            there = self._module(alias.name, spot)
            name = alias.asname or first
            target = alias.name if alias.asname else first
            if first not in _TORCH:
                self.scope.assign(name, External(dotted=target))
            elif there or alias.asname is None:
                self.scope.assign(name, Symbol(dotted=target, kind="module"))
            else:
                self.scope.assign(name, UNKNOWN)

    def _module(self, dotted: str, spot: Spot) -> bool:
        """Note the module as touched; False when this release does not have it."""
        if not covered(self.release, dotted):
            return True
        there = dotted in self.release.modules()
        owner, _, name = dotted.rpartition(".")
        self.touch("module", owner, name, Presence.PRESENT if there else Presence.MISSING, spot)
        return there

    def walk_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or module.split(".")[0] not in _TORCH:
            for alias in node.names:
                self.scope.assign(alias.asname or alias.name, External(dotted=f"{module}.{alias.name}"))
            return
        there = self._module(module, spot_of(node.names[0]))
        owner = Symbol(dotted=module, kind="module")
        for alias in node.names:
            value = self._imported(owner, alias) if there else UNKNOWN
            self.scope.assign(alias.asname or alias.name, value)

    def _imported(self, owner: Symbol, alias: ast.alias) -> Value:
        if alias.name == "*":
            return UNKNOWN
        dotted = f"{owner.dotted}.{alias.name}"
        if dotted == "torch.__version__":
            return self.attribute(owner, "__version__", spot_of(alias))
        presence, value, holder = look_up(self.release, owner, alias.name)
        self.touch("name", holder, alias.name, presence, spot_of(alias))
        if presence is Presence.MAYBE and not covered(self.release, dotted):
            return External(dotted=dotted)
        return value

    def walk_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        function = LocalFunction(node=node, scope=self.scope, decorated=bool(node.decorator_list))
        self.define(function)
        for decorator in node.decorator_list:
            self.read(decorator)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            self.read(default)
        if node.decorator_list:
            self.refer(function)
        self.scope.assign(node.name, function)

    walk_AsyncFunctionDef = walk_FunctionDef

    def walk_ClassDef(self, node: ast.ClassDef) -> None:
        for each in (*node.decorator_list, *(keyword.value for keyword in node.keywords)):
            self.read(each)
        bases = [self.read(each) for each in node.bases]
        outer = self.scope
        self.scope = Scope(parent=outer, is_class=True)
        self.block(node.body)
        members = self.scope.names
        self.scope = outer
        local = LocalClass(node=node, members=members)
        outer.assign(node.name, local)
        for name, member in members.items():
            if isinstance(member, LocalFunction) and not name.startswith("__"):
                self.override(bases, name, member)
        if node.decorator_list or node.bases or self.live is not Live.LIVE:
            self.refer_members(local)

    def walk_functions(self) -> None:
        """Walk every body: first what is referred to, then what nobody refers to, as if it ran."""
        counts = self._mentions()
        while self.pending:
            chosen = self._choose(counts)
            self.pending.pop(chosen.function.node)
            self.live = chosen.live or Live.LIVE
            self.gates = chosen.gates
            self.walk_body(chosen.function)

    def _choose(self, counts: Counter[str]) -> Pending:
        waiting = list(self.pending.values())
        for wanted in (
            [each for each in waiting if each.live is Live.LIVE],
            [each for each in waiting if each.live is None and not _mentioned(each.function, counts)],
            [each for each in waiting if each.live is Live.GATED],
            [each for each in waiting if each.live is None],
        ):
            if wanted:
                return wanted[0]
        return waiting[0]

    def _mentions(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for pending in self.pending.values():
            own = getattr(pending.function.node, "name", "")
            names = {each.id for each in ast.walk(pending.function.node) if isinstance(each, ast.Name)}
            counts.update(names - {own})
        return counts

    def walk_body(self, function: LocalFunction) -> None:
        node = function.node
        self.scope = Scope(parent=function.scope)
        self.attempts = []
        self.path = (self.path[0] + 1,)
        self._parameters(function)
        if isinstance(node, ast.Lambda):
            self.read(node.body)
            return
        self.block(node.body)

    def _parameters(self, function: LocalFunction) -> None:
        arguments = function.node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for parameter in every:
            value = self.promised_by(parameter.annotation) if parameter.annotation is not None else UNKNOWN
            self.scope.assign(parameter.arg, value)
        for extra in (arguments.vararg, arguments.kwarg):
            if extra is not None:
                self.scope.assign(extra.arg, UNKNOWN)
        if function.receivers and every and every[0].annotation is None:
            self.scope.assign(every[0].arg, Instance(classes=tuple(sorted(function.receivers))))

    def promised_by(self, annotation: ast.expr | None) -> Value:
        return promised(annotation, self.names_in(self.scope)) if annotation is not None else UNKNOWN

    def value_only(self, node: ast.expr) -> Value:
        """The value of an expression that has been noted already."""
        saved = self.usage
        self.usage = type(saved)()
        value = self.read(node)
        self.usage = saved
        return value


def _mentioned(function: LocalFunction, counts: Counter[str]) -> bool:
    return counts[getattr(function.node, "name", "")] > 0
