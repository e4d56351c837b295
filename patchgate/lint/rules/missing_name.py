"""PG110, PG111, PG112, PG116: a module, name or option of torch does not exist, or has moved.

Quiet in a `try`, under a guard, if a `__getattr__` may answer, and for names that the patch itself
has defined before. An attribute or option that no release has is a note, because another file may
add it, unless a similar name exists. `interpret/torch_names.py` decides which names exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache

from patchgate.lint.findings import Finding, Severity, View
from patchgate.lint.index.records import Class, Function, Module
from patchgate.lint.index.release import Release
from patchgate.lint.index.renames import new_name
from patchgate.lint.interpret.loaded_modules import unloaded_references
from patchgate.lint.interpret.references import Definition, Presence, Reachability, Reference
from patchgate.lint.interpret.torch_names import ever_had, options_of
from patchgate.model.records import read_codes

MODULE_MISSING, NAME_MISSING, NAME_MOVED, OPTION_MISSING = read_codes("""
PG110 module missing
    The patch imports a module of torch that these releases do not have.
    Why: The import raises ModuleNotFoundError, at import of the patch or in the middle of a
    compile.
    Fix: Narrow the version check, guard the import, or import from where these releases have it.
PG111 name missing
    The patch reads a name of a torch module, class or object that these releases do not have.
    Why: The line raises AttributeError or ImportError as soon as it runs.
    Fix: Use the name that these releases have, guard it with `hasattr`, or narrow the version
    check.
PG112 name moved
    These releases have the name, but in another module.
    Why: The old place raises ImportError or AttributeError.
    Fix: Import it from the module that the finding names.
PG116 config option missing
    The patch reads or sets an option that these releases do not have, or passes its name to
    `torch.compile(options=...)` or `config.patch`.
    Why: torch's config modules raise AttributeError for unknown options, `torch.compile`
    RuntimeError.
    Fix: Guard it with `hasattr(config, ...)`, or narrow the version check.
""")

# A name with at least this likeness to another counts as a misspelling of it.
_NEAR = 0.84
# A name that a file uses more often than this is no misspelling: its author has seen it work.
_SLIPS = 4


def check(views: Sequence[View]) -> Iterator[Finding]:
    homes = _homes(views)
    for view, reference in missing_references(views):
        yield _finding(view, reference, homes)
    for view in views:
        for reference in unloaded_references(view.usage, view.release):
            what = (
                f"`{reference.name}` of `{reference.owner}` is a module that nothing has "
                "imported by then"
            )
            yield view.finding(
                NAME_MISSING, reference.span, what, fix=f"import {reference.dotted}", of=reference
            )


def _finding(
    view: View, reference: Reference, homes: Mapping[tuple[str, str], set[str]]
) -> Finding:
    code, what, fix = NAME_MISSING, f"`{reference.name}` missing on `{reference.owner}`", ""
    severity = Severity.RED if reference.reachable else Severity.NOTE
    if reference.kind == "module":
        code, what = MODULE_MISSING, f"module `{reference.dotted}` missing"
    elif reference.kind == "option":
        code, what = OPTION_MISSING, f"`{reference.owner}` has no option `{reference.name}`"
    elif reference.kind == "config":
        code, what = OPTION_MISSING, f"config option `{reference.dotted}` missing"
    elif reference.kind == "name":
        home = _new_home(view, reference, homes.get((reference.owner, reference.name), set()))
        if home:
            fix = f"import it from `{home.rpartition('.')[0]}` there"
        if home and in_some_release(view, reference.owner, reference.name):
            code, what = NAME_MOVED, f"`{reference.name}` moved to `{home}`"
    if added_elsewhere(view, reference):
        fix, severity = "no indexed release has it; another file may add it", Severity.NOTE
    elif reference.kind in ("attribute", "config") and not in_some_release(
        view, reference.owner, reference.name
    ):
        fix = f"did you mean `{near_name(view.release, reference.owner, reference.name)}`?"
    elif reference.kind in ("name", "attribute") and not fix:
        fix = view.release.ask(new_name, reference.owner, reference.name)
    # If the version check excludes the release, a missing name matters only once the check is
    # widened.
    return view.finding(
        code, reference.span, what + reference.why_not, severity=severity, fix=fix, of=reference
    )


def added_elsewhere(view: View, reference: Reference) -> bool:
    """True if another file of the project, or a vendor's package, may add the name: no indexed
    release has the name or a name with a similar spelling.

    A name that differs only in underscores, such as the public form of a private name, does not
    count as similar. An attribute that the file uses often belongs to objects of a class other than
    the annotated one.
    """
    by_vendor = reference.kind == "name" and (
        view.usage.extended_by_vendor
        or (view.usage.vendor_in_project and not reference.name.startswith("_"))
    )
    kernels = reference.kind == "module" and reference.dotted.startswith("triton.")
    if not (by_vendor or kernels or reference.kind in ("attribute", "config")):
        return False
    if in_some_release(view, reference.owner, reference.name):
        return False
    if reference.kind == "attribute" and view.usage.uses[reference.dotted] > _SLIPS:
        return True
    return near_name(view.release, reference.owner, reference.name).strip("_") in (
        "",
        reference.name.strip("_"),
    )


def in_some_release(view: View, owner: str, name: str) -> bool:
    """True if any indexed release has the name on that module, or on that class, its bases or a
    derived class.
    """
    return view.release.ask(ever_had, (owner,), name)


def near_name(release: Release, owner: str, name: str) -> str:
    """The name of that module or class with the most similar spelling; empty if none is similar."""
    return _nearest(name, release.ask(_own_names, owner))


@lru_cache(maxsize=1 << 14)
def _nearest(name: str, names: frozenset[str]) -> str:
    return next(iter(get_close_matches(name, sorted(names), n=1, cutoff=_NEAR)), "")


def _own_names(release: Release, owner: str) -> frozenset[str]:
    found = release.resolve(owner)
    symbol = found.symbol if found is not None else None
    names = set(options_of(release, owner))
    if isinstance(symbol, (Class, Module)):
        names |= {*symbol.functions, *symbol.attributes}
    if isinstance(symbol, Module):
        names |= {name for name in symbol.imports if not name.endswith("*")}
    return frozenset(names)


def missing_references(views: Sequence[View]) -> Iterator[tuple[View, Reference]]:
    """Yield (view, reference) for each missing name that the patch itself has not defined before
    the reference.
    """
    for view in views:
        definitions: dict[str, list[Definition]] = {}
        for definition in view.usage.definitions:
            definitions.setdefault(definition.name, []).append(definition)
        for at, reference in enumerate(view.usage.references):
            if (
                reference.presence is not Presence.MISSING
                or reference.reachability is Reachability.GUARDED
            ):
                continue
            own = (*definitions.get(reference.name, ()), *definitions.get("*", ()))
            # Another file may also replace the module of torch by a module of its own.
            elsewhere = reference.kind in ("attribute", "name") and any(
                map(view.usage.is_set_elsewhere, (reference.dotted, reference.owner))
            )
            if not elsewhere and not any(
                _defined_by_then(view, reference, at, each) for each in own
            ):
                yield view, reference


def _defined_by_then(view: View, reference: Reference, at: int, definition: Definition) -> bool:
    """True if the patch may define the name before reference number `at`. If the owner is a class,
    a definition on any class counts; if it is a module, only a definition on the same module.

    The order in which functions run is not known, and another branch may run when a function is
    called again.
    """
    again = reference.path[0] > 0 and reference.path != definition.path[: len(reference.path)]
    if definition.path[0] == reference.path[0] and definition.after > at and not again:
        return False
    owner = definition.owner
    if definition.name == "*":
        return reference.owner == owner or (owner == "*" and reference.kind == "config")
    return reference.name == definition.name and (
        owner == "*" or family(view, owner) == family(view, reference.owner)
    )


def family(view: View, owner: str) -> str:
    """The key of all owners that may have a name in common with `owner`. A module has a key of its
    own. All classes have the key "", because any two classes may be related.
    """
    return owner if owner in view.release.modules() else ""


def _homes(views: Sequence[View]) -> dict[tuple[str, str], set[str]]:
    """Map (owner, name) to the places that define the name in the releases that have it. In the
    other releases, the name is searched at these places first.
    """
    homes: dict[tuple[str, str], set[str]] = {}
    for view in views:
        here: dict[str, tuple[str, str]] = {}
        for reference in view.usage.references:
            if reference.kind == "name" and reference.presence is Presence.PRESENT:
                here.setdefault(reference.dotted, (reference.owner, reference.name))
        for dotted, key in here.items():
            answer = view.release.resolve(dotted)
            if answer is not None:
                homes.setdefault(key, set()).add(answer.origin)
    return homes


def _new_home(view: View, reference: Reference, candidates: set[str]) -> str | None:
    """The place of the name in this release: one of the candidates, or else the only place in the
    same package that defines it; None if there is no such place.
    """
    for dotted in sorted(candidates):
        if view.release.resolve(dotted) is not None and dotted != reference.dotted:
            return dotted
    package = ".".join(reference.owner.split(".")[:2])
    places = []
    for name in view.release.index.definers(reference.name):
        module = view.release.module(name) if name.startswith(package) else None
        if module is not None and (
            reference.name in module.functions or reference.name in module.classes
        ):
            places.append(f"{name}.{reference.name}")
    return places[0] if len(places) == 1 and _is_alike(view, reference, places[0]) else None


def _is_alike(view: View, reference: Reference, place: str) -> bool:
    """True if the object at `place` can be the old object: two functions need a parameter in
    common, two classes a member. An object that is neither function nor class always can.
    """
    was = [
        each.symbol
        for release in view.release.others()
        if (each := release.resolve(reference.dotted)) is not None
    ]
    found = view.release.resolve(place)
    now = found.symbol if found is not None else None
    return not was or any(_have_in_common(each, now) for each in was)


def _have_in_common(was: object, now: object) -> bool:
    if isinstance(was, Function) and isinstance(now, Function):
        names = [{each.name for each in function.parameters} for function in (was, now)]
    elif isinstance(was, Class) and isinstance(now, Class):
        names = [{*each.functions, *each.attributes} for each in (was, now)]
    else:
        return not isinstance(was, (Function, Class))
    return not any(names) or bool(names[0] & names[1])
