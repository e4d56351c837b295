"""PG113 and PG114: the replacement no longer takes what torch passes, or is bound in another form.

Red only with callers in torch as proof; a parameter that nobody passes yet, or that is taken and dropped, is a
note. A method of a subclass may take less than its base's on purpose: it counts where it fits the base of some
other release.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Remark, Severity, View
from patchgate.lint.index.read_function import parameters_of
from patchgate.lint.index.records import CallSite, Function, Parameter
from patchgate.lint.index.signatures import accepts, misfit, written
from patchgate.lint.interpret.references import FunctionNode, Rebinding, Span


def check(views: Sequence[View]) -> Iterator[Remark]:
    overrides: dict[Span, list[list[Remark]]] = {}
    for view in views:
        for each in (*view.usage.rebindings, *view.usage.overrides):
            if not each.reachable or each.original is None or each.function is None:
                continue
            remarks = [
                *_form(view, each, each.original, each.function),
                *_signature(view, each, each.original, each.function),
                *_dropped(view, each, each.original, each.function),
            ]
            if each.inherited:
                overrides.setdefault(each.span, []).append(remarks)
            else:
                yield from remarks
    for told in overrides.values():
        if not all(told):
            yield from (remark for remarks in told for remark in remarks)


def _form(view: View, each: Rebinding, original: Function, function: FunctionNode) -> Iterator[Remark]:
    wanted = original.form if original.form not in ("function", "method") else None
    is_async = type(function).__name__ == "AsyncFunctionDef"
    problem, severity = None, Severity.RED
    if each.on_class and wanted != each.form and not _same_kind(wanted, each.form):
        problem = f"`{each.name}` is {_FORM_TEXT[wanted]} in torch, the replacement {_FORM_TEXT[each.form]}"
        if _called_on_class(original, each) and not _misfits(view, each, original, function):
            problem, severity = f"{problem}: it fits calls on the class, not on objects", Severity.NOTE
    elif original.is_async != is_async:
        problem = f"`{each.name}` is {'async' if original.is_async else 'not async'} in torch"
    if problem is not None:
        fix = f"assign `{_WRAPPERS[wanted]}(...)`" if wanted in _WRAPPERS else ""
        yield Remark(code="PG114", version=view.version, span=each.span, message=problem, severity=severity, fix=fix)


def _called_on_class(original: Function, each: Rebinding) -> bool:
    """A plain function instead of a static or class method: `Class.name(...)` passes no first argument."""
    return original.form in ("static", "class") and each.form is None


def _same_kind(wanted: str | None, form: str | None) -> bool:
    return {wanted, form} == {"property", "cached-property"}


def _parameters(
    each: Rebinding, original: Function, function: FunctionNode
) -> tuple[Sequence[Parameter], Sequence[Parameter]]:
    """Torch's parameters and the replacement's, without those that binding supplies."""
    theirs = original.parameters[int(each.on_class and original.form in ("method", "class")) :]
    ours = parameters_of(function.args)
    bound = each.on_class and each.form != "static" and not _called_on_class(original, each)
    if bound and ours and not ours[0].kind.startswith("var-"):
        ours = ours[1:]
    return theirs, ours


def _misfits(view: View, each: Rebinding, original: Function, function: FunctionNode) -> list[tuple[CallSite, str]]:
    """Calls in torch that fit torch's own function and not the replacement."""
    theirs, ours = _parameters(each, original, function)
    sites = view.release.calls(each.name)
    return [(site, problem) for site in sites if (problem := _fails(site, theirs, ours))]


def _signature(view: View, each: Rebinding, original: Function, function: FunctionNode) -> Iterator[Remark]:
    if original.form in ("property", "cached-property"):
        return
    theirs, ours = _parameters(each, original, function)
    lacking = [p for at, p in enumerate(theirs) if not p.kind.startswith("var-") and not accepts(ours, p, at)]
    failing = _misfits(view, each, original, function)
    demanded = [p for p in ours if p.default is None and not p.kind.startswith("var-")][len(theirs) :]
    if not failing:
        yield from _order(view, each, theirs, ours)
    if not failing and not lacking:
        return
    fix = f"give `{demanded[0].name}` a default" if demanded else ""
    if lacking:
        fix = f"add `{written(lacking)}`, and pass it on where the original is called"
    names = ", ".join(f"`{p.name}`" for p in lacking)
    if failing:
        problem = failing[0][1]
        reason = f"does not take {names}, which torch passes" if lacking else f"{problem}, unlike torch's"
        yield Remark(
            code="PG113",
            version=view.version,
            span=each.span,
            message=f"{_what(each)} {reason}",
            fix=fix,
            evidence=_evidence(view, each.name, [site for site, _ in failing]),
        )
    else:
        yield Remark(
            code="PG113",
            version=view.version,
            span=each.span,
            message=f"{_what(each)} does not take {names}; no call passes it",
            severity=Severity.NOTE,
            fix=fix,
        )


def _dropped(view: View, each: Rebinding, original: Function, function: FunctionNode) -> Iterator[Remark]:
    """Parameters that torch passes, and that the replacement takes only to call the original without them."""
    mentioned = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    theirs, ours = _parameters(each, original, function)
    taken = {p.name for p in ours} - mentioned
    sites = view.release.calls(each.name)
    passed = {
        p.name for at, p in enumerate(theirs) for site in sites if p.name in site.keywords or site.positional > at
    }
    for call in view.usage.calls:
        inside = function.lineno <= call.span.line <= (function.end_lineno or 0)
        if not inside or call.starred or call.dotted != each.origin or not call.reachable:
            continue
        reached = {p.name for p in original.parameters[: call.positional + call.bound]}
        for name in sorted(taken & passed - reached - set(call.keywords)):
            yield Remark(
                code="PG113",
                version=view.version,
                span=call.span,
                message=f"{_what(each)} takes `{name}`, which torch passes, and calls the original without it",
                severity=Severity.NOTE,
                fix=f"pass `{name}={name}` on",
            )


def _order(view: View, each: Rebinding, theirs: Sequence[Parameter], ours: Sequence[Parameter]) -> Iterator[Remark]:
    """Parameters that stand at another place than torch's callers put their arguments."""
    places = {p.name: at for at, p in enumerate(ours) if p.kind.startswith("positional")}
    wanted = [(at, p.name) for at, p in enumerate(theirs) if p.kind.startswith("positional")]
    moved = [(at, name) for at, name in wanted if places.get(name, at) != at]
    if not moved:
        return
    proof = [site for site in view.release.calls(each.name) if site.positional > moved[0][0] and not site.star]
    proof = [site for site in proof if misfit(theirs, site.positional, site.keywords) is None]
    names = ", ".join(f"`{name}`" for _, name in moved)
    yield Remark(
        code="PG113",
        version=view.version,
        span=each.span,
        message=f"{_what(each)} has {names} at another place, {'where' if proof else 'though no call in'} torch"
        f" passes {'it' if len(moved) == 1 else 'them'} by position",
        severity=Severity.RED if proof else Severity.NOTE,
        fix=f"take `{written(theirs)}`",
        evidence=_evidence(view, each.name, proof) if proof else "",
    )


def _fails(site: CallSite, theirs: Sequence[Parameter], ours: Sequence[Parameter]) -> str | None:
    """Why a call that fits torch's own function does not fit the replacement."""
    if misfit(theirs, site.positional, site.keywords, starred=site.star) is not None:
        return None
    return misfit(ours, site.positional, site.keywords, starred=site.star)


def _evidence(view: View, name: str, sites: Sequence[CallSite]) -> str:
    sites = list({(site.module, site.function): site for site in sites}.values())
    more = f" and {len(sites) - 3} more" if len(sites) > 3 else ""
    return f"called so in {', '.join(view.release.place(site, name) for site in sites[:3])}{more}"


def _what(each: Rebinding) -> str:
    return f"{'override' if each.inherited else 'replacement'} of `{'.'.join(each.target.split('.')[-2:])}`"


_WRAPPERS = {"static": "staticmethod", "class": "classmethod", "property": "property"}
_FORM_TEXT = {
    None: "a plain function",
    "static": "a static method",
    "class": "a class method",
    "property": "a property",
    "cached-property": "a cached property",
}
