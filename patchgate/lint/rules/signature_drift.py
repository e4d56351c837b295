"""PG113 and PG114: the replacement does not take what torch passes, or is of another kind.

Red only if a call in torch proves it. A parameter that no call passes yet, or that the replacement
takes but does not pass on, is a note. A method of a subclass may take less than its base's method
on purpose, so a misfit counts only if the method fits its base in some other release.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from patchgate.inputs.patch_source import nodes_in
from patchgate.lint.findings import Finding, Severity, View
from patchgate.lint.index.read_module import parameters_of
from patchgate.lint.index.records import CallSite, Function, Parameter, accepts, misfit, written
from patchgate.lint.index.resolve import module_of
from patchgate.lint.interpret.references import FunctionNode, Rebinding, Span
from patchgate.lint.interpret.torch_names import class_symbol, innermost_module, is_private
from patchgate.model.records import read_codes, record

SIGNATURE_DRIFT, FORM_DRIFT = read_codes("""
PG113 signature drift
    The replacement does not take what the replaced function takes in these releases.
    Why: A caller inside torch that passes it raises TypeError in the middle of a compile.
    Fix: Add the parameters that the finding names, or take `**kwargs`; pass them on where you call
    the original.
PG114 kind of function differs
    Target and replacement are of different kinds: method, static method, class method, property,
    async function.
    Why: The call binds other arguments than the replacement expects, or returns a coroutine.
    Fix: Wrap the replacement the way the original is (`staticmethod`, `classmethod`, `property`).
""")
_WRAPPERS = {"static": "staticmethod", "class": "classmethod", "property": "property"}
_FORM_TEXT = {
    None: "a plain function",
    "static": "a static method",
    "class": "a class method",
    "property": "a property",
    "cached-property": "a cached property",
}


@record
class _Pair:
    """A function of torch and its replacement, in one release.

    `theirs` are torch's parameters, and `ours` the replacement's, without a first parameter that
    binding supplies; `sites` are the calls in torch.
    """

    view: View
    rebinding: Rebinding
    original: Function
    function: FunctionNode
    theirs: Sequence[Parameter]
    ours: Sequence[Parameter]
    sites: Sequence[CallSite]

    @property
    def text(self) -> str:
        return (
            f"{'override' if self.rebinding.inherited else 'replacement'} of "
            f"`{self.rebinding.short_target}`"
        )

    def fitting(self) -> list[CallSite]:
        """Calls in torch that fit torch's own function. Most calls of other functions with the same
        name do not fit it.

        If a base method takes any arguments, every call fits it, and proves nothing about an
        override.
        """
        if self.rebinding.inherited and {"var-positional", "var-keyword"} <= {
            each.kind for each in self.theirs
        }:
            return []
        return [site for site in self.sites if self._fits(self.original, site)]

    def misfits(self) -> list[tuple[CallSite, str]]:
        """Calls in torch that fit torch's own function but not the replacement, and the reasons."""
        form, own = self.rebinding.form or "method", parameters_of(self.function.args)
        judged = [(site, self._problem(form, own, site)) for site in self.fitting()]
        return [(site, problem) for site, problem in judged if problem and self.means(site)]

    def means(self, site: CallSite) -> bool:
        """True if the call means the replaced function. If other functions have the same name, the
        module of the call must import the function or its owner.

        A call in a method never runs if the patch overrides that method without a call of `super`.
        If a package only passes the function on, the index cannot tell `package.f()` from
        `package.home.f()`: such a call proves nothing.
        """
        target, origin = self.rebinding.target, self.rebinding.origin or self.rebinding.target
        home = origin.rpartition(".")[0]
        if self.rebinding.inherited:
            if home.startswith("torch.fx.") and not site.module.startswith("torch.fx"):
                # outside torch.fx, torch creates and uses its own objects of torch.fx's classes
                return False
            caller = f"{site.module}.{site.function}"
            overriding = (
                each.function for each in self.view.usage.overrides if each.target == caller
            )
            return all(
                each is None or "super(" in ast.unparse(each) for each in overriding
            ) and self._is_method(site)
        if self.original.form not in ("function", "static", "class"):
            return self._is_method(site)
        release = self.view.release
        imported = {found for mask, _, _, found in release.index.imports_of(site.module)}
        if target != origin and not self.rebinding.on_class:
            replaced_in = target.rpartition(".")[0]
            if site.module == replaced_in:
                return True
            return (
                target in imported if not site.receiver else not home.startswith(f"{replaced_in}.")
            )
        here = (
            release.resolve(f"{site.module}.{self.rebinding.name}") if not site.receiver else None
        )
        if site.module == innermost_module(release, home) or {home, origin} & imported:
            return True
        return (here is not None and here.origin == origin) or len(
            release.index.definers(self.rebinding.name)
        ) == 1

    def _is_method(self, site: CallSite) -> bool:
        """True if a call on some object means this method.

        If the module of the call neither defines nor imports the class, the call must not fit a
        method of that name in another class. A class that has such a method itself calls its own.
        A call in a derived class does not mean the class of the patch, which is its sibling.
        """
        release, name = self.view.release, self.rebinding.name
        owners = {
            self.rebinding.target.rpartition(".")[0],
            (self.rebinding.origin or "").rpartition(".")[0],
        }
        derived = {each for owner in owners for each in release.subclasses(owner)}
        caller, _, method = f"{site.module}.{site.function}".rpartition(".")
        if caller not in owners and class_symbol(release, caller) is not None:
            own = release.member(caller, name) if method != name else None
            if (
                own is not None
                and own.origin.rpartition(".")[0] not in owners
                and self._fits(own.symbol, site)
            ):
                return False
            if caller in derived and self.rebinding.inherited:
                return False
        family = owners | derived
        homes = {innermost_module(release, each) for each in family}
        imported = {found for _, _, _, found in release.index.imports_of(site.module)}
        return (
            site.module in homes
            or bool(imported & (family | homes))
            or not self._taken_by_namesake(site, family)
        )

    def _taken_by_namesake(self, site: CallSite, family: set[str]) -> bool:
        release, name = self.view.release, self.rebinding.name
        modules = (release.module(each) for each in release.index.definers(name))
        return any(
            self._fits(symbol.functions.get(name), site)
            for module in modules
            if module is not None
            for each, symbol in module.classes.items()
            if f"{module.name}.{each}" not in family
        )

    def _fits(self, function: object, site: CallSite) -> bool:
        if not isinstance(function, Function):
            return False
        return self._problem(function.form, function.parameters, site) is None

    def _problem(self, form: str, parameters: Sequence[Parameter], site: CallSite) -> str | None:
        """The reason why a call does not fit; None if it fits. The first parameter counts as
        already bound in a class method, and in a method that is not called on a class.
        """
        bound = form == "class" or (form == "method" and site.receiver != ":")
        first = parameters[0].kind if parameters and self.rebinding.on_class else "var-"
        return misfit(parameters, site, bound=bound and not first.startswith("var-"))

    def evidence(self, sites: Sequence[CallSite]) -> str:
        sites = list({(site.module, site.function): site for site in sites}.values())
        more = f" and {len(sites) - 3} more" if len(sites) > 3 else ""
        places = [self.view.release.place(site, self.rebinding.name) for site in sites[:3]]
        return f"called so in {', '.join(places)}{more}"


def check(views: Sequence[View]) -> Iterator[Finding]:
    overrides: dict[Span, list[tuple[_Pair, list[Finding]]]] = {}
    judged = {view.version for view in views}
    for view in views:
        for rebinding in (*view.usage.rebindings, *view.usage.overrides):
            if not rebinding.reachable or rebinding.original is None or rebinding.function is None:
                continue
            if rebinding.wrapped:
                continue
            pair = _pair(view, rebinding, rebinding.original, rebinding.function)
            findings = [*_form(pair), *_signature(pair), *_dropped(pair)]
            if rebinding.tested and not is_private(rebinding.target):
                # The project's own code calls it, and the test replaces it for these calls.
                findings = [replace(each, severity=Severity.NOTE) for each in findings]
            if rebinding.inherited or rebinding.mocked:
                overrides.setdefault(rebinding.span, []).append((pair, findings))
            else:
                yield from findings
        yield from _hooks(view)
    for by_release in overrides.values():
        # If a signature fits none of a project's releases, it is not meant for torch's callers: it
        # is an override's, or a test sets it. If only one release or chosen releases are judged,
        # this holds only if the signature fits no other release either.
        few = len(judged) == 1 or views[0].asked
        if all(findings for _, findings in by_release) and not (
            few and _fits_another(by_release[0][0], judged)
        ):
            continue
        yield from (finding for _, findings in by_release for finding in findings)


def _fits_another(pair: _Pair, judged: Collection[str]) -> bool:
    """True if an override fits its base in a release that is not judged."""
    for release in pair.view.release.others():
        if release.version in judged:
            continue
        found = pair.rebinding.replaced_in(release)
        if found is not None and isinstance(found.symbol, Function):
            there = replace(pair.rebinding, origin=found.origin, original=found.symbol)
            other = _pair(replace(pair.view, release=release), there, found.symbol, pair.function)
            if not [*_form(other), *_signature(other)]:
                return True
    return False


def _hooks(view: View) -> Iterator[Finding]:
    """Report each function that the patch sets on an object of torch, if the object's class calls
    it with a keyword that it does not take.
    """
    for hook in view.usage.hooks:
        ours = parameters_of(hook.function.args)
        module = module_of(hook.owner, view.release.modules())
        name = hook.owner[len(module) + 1 :]
        if not hook.reachable or any(each.kind == "var-keyword" for each in ours):
            continue
        own = [
            each
            for each in view.release.calls(hook.name)
            if each.module == module and each.receiver == "."
        ]
        passed = {
            key: site
            for site in own
            if site.function.startswith(f"{name}.")
            for key in site.keywords
        }
        lacking = sorted(
            passed.keys() - {each.name for each in ours if each.kind != "positional-only"}
        )
        if lacking:
            names = ", ".join(f"`{each}`" for each in lacking)
            message = (
                f"`{hook.name}` on an object of `{name}` does not take {names}, which torch passes"
            )
            evidence = f"called so in {view.release.place(passed[lacking[0]], hook.name)}"
            fix = f"add `{lacking[0]}=None` to its parameters"
            yield view.finding(
                SIGNATURE_DRIFT, hook.span, message, fix=fix, evidence=evidence, of=hook
            )


def _pair(view: View, rebinding: Rebinding, original: Function, function: FunctionNode) -> _Pair:
    ours = parameters_of(function.args)
    bound = (
        rebinding.on_class
        and rebinding.form != "static"
        # A plain function in place of a static or class method gets no first argument from
        # `Class.name(...)`.
        and not (original.form in ("static", "class") and rebinding.form is None)
    )
    if bound and ours and not ours[0].kind.startswith("var-"):
        ours = ours[1:]
    return _Pair(
        view=view,
        rebinding=rebinding,
        original=original,
        function=function,
        theirs=original.parameters[
            int(rebinding.on_class and original.form in ("method", "class")) :
        ],
        ours=ours,
        sites=_sites(view, rebinding, original),
    )


def _sites(view: View, rebinding: Rebinding, original: Function) -> list[CallSite]:
    """Calls in torch that may reach the function. For a method, these are calls on an object; for
    `__init__`, of its class. Python itself calls other special methods and properties.
    """
    if not rebinding.on_class:
        calls = [site for site in view.release.calls(rebinding.name) if site.receiver != ":"]
        module = rebinding.target.rpartition(".")[0]
        # If the module only imports the function, only its own calls are replaced. Many other
        # modules may call the function through a package.
        package = any(each.startswith(f"{module}.") for each in view.release.modules())
        imported = (
            module != (rebinding.origin or rebinding.target).rpartition(".")[0] and not package
        )
        return [site for site in calls if site.module == module] if imported else calls
    if rebinding.name == "__init__":
        made = view.release.calls(rebinding.target.split(".")[-2])
        return [replace(site, receiver=".") for site in made]
    if rebinding.name.startswith("__") or original.form in ("property", "cached-property"):
        return []
    return [site for site in view.release.calls(rebinding.name) if site.receiver]


def _form(pair: _Pair) -> Iterator[Finding]:
    original, rebinding = pair.original, pair.rebinding
    wanted = original.form if original.form not in ("function", "method") else None
    same_kind = wanted == rebinding.form or {wanted, rebinding.form} == {
        "property",
        "cached-property",
    }
    severity = Severity.RED
    if rebinding.on_class and not same_kind:
        problem = f"is {_FORM_TEXT[wanted]} in torch, the replacement {_FORM_TEXT[rebinding.form]}"
        called = "property" not in f"{wanted} {rebinding.form}"
        if called and not pair.misfits():
            problem, severity = (
                f"{problem}: it fits the calls in torch, but not every possible call",
                Severity.NOTE,
            )
    elif original.is_async != isinstance(pair.function, ast.AsyncFunctionDef):
        problem = f"is {'async' if original.is_async else 'not async'} in torch"
    else:
        return
    fix = f"assign `{_WRAPPERS[wanted]}(...)`" if wanted in _WRAPPERS else ""
    yield pair.view.finding(
        FORM_DRIFT,
        rebinding.span,
        f"`{rebinding.name}` {problem}",
        severity=severity,
        fix=fix,
        of=rebinding,
    )


def _signature(pair: _Pair) -> Iterator[Finding]:
    if pair.original.form in ("property", "cached-property"):
        return
    lacking = [
        parameter
        for at, parameter in enumerate(pair.theirs)
        if not parameter.kind.startswith("var-") and not accepts(pair.ours, parameter, at)
    ]
    misfits = pair.misfits()
    if not misfits:
        yield from _order(pair)
    if not misfits and not lacking:
        return
    demanded = [p for p in pair.ours if p.default is None and not p.kind.startswith("var-")][
        len(pair.theirs) :
    ]
    fix = f"give `{demanded[0].name}` a default" if demanded else ""
    if lacking:
        fix = f"add `{written(lacking)}`, and pass it on where the original is called"
    names = ", ".join(f"`{parameter.name}`" for parameter in lacking)
    if misfits:
        reason = (
            f"does not take {names}, which torch passes"
            if lacking
            else f"{misfits[0][1]}, unlike torch's"
        )
        severity, evidence = Severity.RED, pair.evidence([site for site, _ in misfits])
    else:
        reason = f"does not take {names}; no call is known to pass it"
        severity = Severity.NOTE
        evidence = ""
    message, span = f"{pair.text} {reason}", pair.rebinding.span
    yield pair.view.finding(
        SIGNATURE_DRIFT,
        span,
        message,
        severity=severity,
        fix=fix,
        evidence=evidence,
        of=pair.rebinding,
    )


def _order(pair: _Pair) -> Iterator[Finding]:
    """Report parameters at another position than in torch, if callers pass them by position."""
    places = {p.name: at for at, p in enumerate(pair.ours) if p.kind.startswith("positional")}
    wanted = [(at, p.name) for at, p in enumerate(pair.theirs) if p.kind.startswith("positional")]
    moved = [(at, name) for at, name in wanted if places.get(name, at) != at]
    if not moved:
        return
    proof = [
        each
        for each in pair.fitting()
        if each.positional > moved[0][0] and not each.star and pair.means(each)
    ]
    names = ", ".join(f"`{name}`" for _, name in moved)
    yield pair.view.finding(
        SIGNATURE_DRIFT,
        pair.rebinding.span,
        f"{pair.text} has {names} at another position, {'and' if proof else 'but no call in'} torch"
        f" passes {'it' if len(moved) == 1 else 'them'} by position",
        severity=Severity.RED if proof else Severity.NOTE,
        fix=f"take `{written(pair.theirs)}`",
        evidence=pair.evidence(proof) if proof else "",
        of=pair.rebinding,
    )


def _dropped(pair: _Pair) -> Iterator[Finding]:
    """Report parameters that torch passes and the replacement takes, if the replacement does not
    pass them on to the original.
    """
    mentioned = {node.id for node in nodes_in(pair.function, ast.Name)}
    taken = {p.name for p in pair.ours} - mentioned
    passed = {
        p.name
        for at, p in enumerate(pair.theirs)
        for site in pair.sites
        if p.name in site.keywords or site.positional > at
    }
    for call in pair.view.usage.calls:
        inside = pair.function.lineno <= call.span.line <= (pair.function.end_lineno or 0)
        if (
            not inside
            or call.passed.star
            or call.dotted != pair.rebinding.origin
            or not call.reachable
        ):
            continue
        reached = {p.name for p in pair.original.parameters[: call.passed.positional + call.bound]}
        for name in sorted(taken & passed - reached - set(call.passed.keywords)):
            message = (
                f"{pair.text} takes `{name}`, which torch passes, but calls the original without it"
            )
            fix = f"pass `{name}={name}` on"
            yield pair.view.finding(
                SIGNATURE_DRIFT, call.span, message, severity=Severity.NOTE, fix=fix
            )
