"""PG115: the patch calls torch with arguments that the callee does not take.

Quiet for unpacked arguments, for functions that the patch replaces itself, and if a derived class
takes the arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Finding, Severity, View
from patchgate.lint.index.records import Function, misfit
from patchgate.lint.interpret.references import Call
from patchgate.lint.interpret.torch_names import callable_behind, class_made_by, class_symbol
from patchgate.model.records import read_codes

(MISFIT,) = read_codes("""
PG115 call does not fit
    The patch calls a function of torch with arguments that it does not take in these releases.
    Why: The call raises TypeError when it runs.
    Fix: Pass what these releases take, or narrow the version check.
""")


def check(views: Sequence[View]) -> Iterator[Finding]:
    for view in views:
        replaced = {rebinding.name for rebinding in view.usage.rebindings}
        replaced |= {each.name for each in view.usage.definitions if each.owner == "*"}
        for call in (each for each in view.usage.calls if each.problem is not None):
            name = (
                "__init__"
                if class_made_by(view.release, call.dotted)
                else call.dotted.rpartition(".")[2]
            )
            if not call.reachable or name in replaced or view.usage.is_set_elsewhere(call.dotted):
                continue
            others = (each.parameters for each in _derived(view, call))
            if all(misfit(each, call.passed, bound=call.bound) for each in others):
                name = ".".join(call.dotted.split(".")[-2:])
                severity = Severity.NOTE if _is_a_vendors(view, call) else Severity.RED
                yield view.finding(
                    MISFIT, call.span, f"`{name}` {call.problem}", severity=severity, of=call
                )


def _is_a_vendors(view: View, call: Call) -> bool:
    """True if a call of triton passes a keyword that no release takes. Vendors' builds take further
    keywords, such as `triton.Config(multibuffer=True)`.
    """
    if not call.dotted.startswith("triton."):
        return False
    known = [release.ask(callable_behind, call.dotted) for release in view.release.others()]
    taken = {each.name for function in known if function for each in function.parameters}
    return bool(set(call.passed.keywords) - taken)


def _derived(view: View, call: Call) -> Iterator[Function]:
    """The methods of derived classes that a call on an object may reach. A call of `__init__`
    reaches none of them.
    """
    owner, _, name = call.dotted.rpartition(".")
    for each in view.release.subclasses(owner) if call.bound and name != "__init__" else ():
        symbol = class_symbol(view.release, each)
        if symbol is not None and name in symbol.functions:
            yield symbol.functions[name]
