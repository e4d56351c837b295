"""PG118: other modules still hold the original after the replacement.

Red if a module imports the original by name, uses it, and is loaded before the patch: by `import
torch`, or by an import of the patch. A note for modules that may be loaded later; for registries
and tables, which the patch may fill again; for names of public packages, which are for users; and
if the patch sets that name, or any name, on an object that lint does not know. Quiet for methods,
and for holders that are replaced too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchgate.lint.findings import Finding, Severity, View
from patchgate.lint.interpret.references import Rebinding
from patchgate.lint.interpret.torch_names import innermost_module
from patchgate.model.records import read_codes

(HELD_BY_VALUE,) = read_codes("""
PG118 the original is still referenced elsewhere
    Other modules or tables of torch have their own reference to the replaced function.
    Why: They keep calling the original: the patch covers only some of the callers.
    Fix: Assign the replacement in the modules that the finding names too.
""")
_SHOWN = 4


def check(views: Sequence[View]) -> Iterator[Finding]:
    for view in views:
        rebound = {rebinding.target for rebinding in view.usage.rebindings}
        anywhere = {each.name for each in view.usage.definitions if each.owner == "*"}
        # Names that are set on an unknown owner, such as a module from a loop or an argument.
        somewhere = {each.name for each in view.usage.definitions if not each.owner}
        imports = _imports(view)
        holders_of: dict[str, list[str]] = {}
        for rebinding in view.usage.rebindings:
            if not rebinding.reachable or rebinding.on_class or rebinding.origin is None:
                continue
            if rebinding.name in anywhere:
                continue  # the patch may set the name on any module
            registries = view.release.registries(rebinding.origin)
            if registries:
                yield view.finding(
                    HELD_BY_VALUE,
                    rebinding.span,
                    f"the original is still registered by {_listed(registries)}",
                    severity=Severity.NOTE,
                    fix="also register the replacement",
                    detail="\n".join(registries),
                )
            if rebinding.target not in holders_of:
                holders_of[rebinding.target] = _holders(view, rebinding, rebinding.origin)
            holders = [holder for holder in holders_of[rebinding.target] if holder not in rebound]
            if holders:
                line = rebinding.span.line
                there = view.release.loaded_with(
                    frozenset(name for name, first in imports.items() if first <= line)
                )
                maybe = _for_users(rebinding) or bool({rebinding.name, "*"} & somewhere)
                loaded = [
                    holder for holder in holders if innermost_module(view.release, holder) in there
                ]
                yield view.finding(
                    HELD_BY_VALUE,
                    rebinding.span,
                    f"the original is still referenced by {_listed(loaded or holders)}"
                    + ("" if loaded else ", if loaded before the patch"),
                    severity=Severity.NOTE
                    if maybe or not loaded or rebinding.mocked
                    else Severity.RED,
                    fix="also assign the replacement there",
                    detail="\n".join(holders),
                    of=rebinding,
                )


def _imports(view: View) -> dict[str, int]:
    """Map each module that the patch needs to the first line that needs it. From that line on, the
    module and its imports are loaded.
    """
    lines: dict[str, int] = {}
    names: dict[str, int] = {}
    for each in view.usage.references:
        if each.reachable:
            names[each.dotted] = min(each.span.line, names.get(each.dotted, each.span.line))
    for dotted, line in names.items():
        module = innermost_module(view.release, f"{dotted}.")
        lines[module] = min(line, lines.get(module, line))
    return lines


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"`{name}`" for name in names[:_SHOWN]) + more


def _holders(view: View, rebinding: Rebinding, origin: str) -> list[str]:
    """The names by which the original stays in use.

    If the object is defined at the target, these are the names by which other modules import it. If
    the target only passes the object on, this is the name of its definition, if torch uses that.
    Names of a public package are for users, so a patch of such a name is meant for users.
    """
    home = rebinding.target.rpartition(".")[0]
    users = {site.module for site in view.release.uses(rebinding.name)}
    if rebinding.target == origin:
        held = {name: innermost_module(view.release, name) for name in view.release.holders(origin)}
        return [name for name, module in held.items() if module != home and _uses(view, name)]
    if (
        home in users
        or rebinding.original is None
        or _for_users(rebinding)
        or innermost_module(view.release, origin) not in users
    ):
        return []
    return [origin]


def _for_users(rebinding: Rebinding) -> bool:
    """True for a name in a public package, where users call it: `torch.cuda`, `torch.compiler`,
    `triton`.
    """
    home = rebinding.target.split(".")[:-1]
    return len(home) <= 2 and not any(part.startswith("_") for part in home)


def _uses(view: View, holder: str) -> bool:
    """True if the module of `holder` calls the object, or passes it on.

    A package that only passes the object on does not count. The index has no reads of data, so a
    module that imports data by name counts, unless it is a package.
    """
    module, name = innermost_module(view.release, holder), holder.rpartition(".")[2]
    package = any(each.startswith(f"{module}.") for each in view.release.modules())
    found = view.release.resolve(holder)
    if found is not None and found.kind == "attribute":
        return not package
    return any(
        site.module == module and not (package and site.receiver == "=")
        for site in view.release.uses(name)
    )
