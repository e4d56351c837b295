"""PG119: no call in torch reaches the replaced name.

Red if torch calls the name in other releases; a note if it calls it in none, or if many methods of
its class have no caller in Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Finding, Severity, View
from patchgate.lint.interpret.references import Rebinding
from patchgate.lint.interpret.torch_names import class_symbol
from patchgate.model.records import read_codes

(UNCALLED_TARGET,) = read_codes("""
PG119 nothing calls the target
    In these releases no call inside torch goes to the replaced name.
    Why: The patch is installed and does nothing.
    Fix: Find what torch calls now (`patchgate index diff`), or end the version check before these
    releases.
""")
# Prefixes of names by which torch or Python itself dispatches; no call site spells such a name.
_DISPATCHED = (
    "__",
    "visit_",
    "codegen_",
    "_print_",
    "call_",
    "method_",
    "nb_",
    "mp_",
    "sq_",
    "tp_",
    "reducer_",
)
_OPERATIONS = "torch._inductor.ops_handler.OpsHandler"
# Bases that call no method of derived classes.
_NO_CALLERS = ("typing", "abc.", "enum.", "builtins.", "torch.", "triton.")
# If at least this share of a class's methods has no caller, C code or a table of names calls them.
_UNCALLED = 0.3


def check(views: Sequence[View]) -> Iterator[Finding]:
    for view in views:
        for rebinding in view.usage.rebindings:
            release = view.release
            original = rebinding.original
            if not rebinding.reachable or original is None:
                continue
            if rebinding.name.startswith(_DISPATCHED) or "property" in original.form:
                continue
            operations = class_symbol(release, _OPERATIONS) if rebinding.on_class else None
            if operations is not None and rebinding.name in operations.functions:
                continue  # handlers of operations call it by its name
            if release.uses(rebinding.name) or release.holders(rebinding.target):
                continue
            called = any(site.receiver != "=" for _, site in release.index.calls_of(rebinding.name))
            proof = called and not rebinding.mocked and not _called_from_outside(view, rebinding)
            severity = Severity.RED if proof else Severity.NOTE
            message = f"nothing in torch calls `{rebinding.short_target}`"
            yield view.finding(
                UNCALLED_TARGET, rebinding.span, message, severity=severity, of=rebinding
            )


def _called_from_outside(view: View, rebinding: Rebinding) -> bool:
    """True if many other methods of the class have no caller in Python either, or if a base outside
    torch may call the method.
    """
    symbol = class_symbol(view.release, (rebinding.origin or rebinding.target).rpartition(".")[0])
    if symbol is None:
        return False
    if any(
        class_symbol(view.release, base) is None and not base.startswith(_NO_CALLERS)
        for base in symbol.bases
    ):
        return True
    names = [name for name in symbol.functions if not name.startswith("__")]
    uncalled = sum(not view.release.uses(name) for name in names)
    return uncalled > 2 and uncalled >= _UNCALLED * len(names)
