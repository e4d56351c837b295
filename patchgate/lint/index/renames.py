"""The new name of a function or a class of torch whose old name a release lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from itertools import pairwise, takewhile

from patchgate.lint.index.records import Class, Function, Module
from patchgate.lint.index.release import Release
from patchgate.lint.index.resolve import Found

# Two symbols with fewer parameters or members than this are not compared.
_TELLING = 3
# If two names have at least this likeness, one function may be the other under a new name.
_NEAR = 0.6


def new_name(release: Release, owner: str, name: str) -> str:
    """Advice on the new name of `owner.name`, which an older release has and this release lacks.

    The new name is the only name that now has the old body, or the only name of the old shape that
    appeared in the release that dropped the old name. If none or several fit, there is no advice.
    """
    older = [*takewhile(lambda each: each.version != release.version, release.others()), release]
    # The last release that has the name, and the release after it.
    steps = (step for step in reversed([*pairwise(older)]) if name in _symbols(step[0], owner))
    step = next(steps, None)
    if step is None:
        return ""
    earlier, now = (_symbols(each, owner) for each in step)
    old, still = earlier[name], _symbols(release, owner)
    now = {each: symbol for each, symbol in now.items() if each in still}
    changed = {each: symbol for each, symbol in now.items() if earlier.get(each) != symbol}
    alike = [each for each, symbol in changed.items() if _same_body(old, symbol)]
    if len(alike) == 1:
        return f"there `{alike[0]}` has the same body"
    came = [
        each
        for each, symbol in changed.items()
        if each not in earlier
        and _same_shape(old, symbol)
        # Many functions have the same parameters, so their names must be near.
        and (isinstance(old, Class) or SequenceMatcher(None, name, each).ratio() >= _NEAR)
    ]
    return f"perhaps `{came[0]}`, which came there with the same shape" if len(came) == 1 else ""


def _symbols(release: Release, owner: str) -> Mapping[str, Function | Class]:
    """The functions and classes that a module itself defines, or the methods of a class."""
    found: Found | None = release.resolve(owner)
    symbol = found.symbol if found is not None else None
    if isinstance(symbol, Class):
        return symbol.functions
    module = symbol if isinstance(symbol, Module) else release.module(owner)
    if module is None:
        return {}
    return {**module.functions, **{k: v for k, v in module.classes.items() if "." not in k}}


def _same_body(old: Function | Class, new: Function | Class) -> bool:
    if isinstance(old, Function) and isinstance(new, Function):
        return old.parameters == new.parameters and bool(old.body) and old.body == new.body
    if isinstance(old, Class) and isinstance(new, Class):
        bodies = dict(_bodies(old))
        return len(bodies) >= _TELLING and bodies == dict(_bodies(new))
    return False


def _bodies(symbol: Class) -> Iterator[tuple[str, str]]:
    return ((name, each.body) for name, each in symbol.functions.items())


def _same_shape(old: Function | Class, new: Function | Class) -> bool:
    if isinstance(old, Function) and isinstance(new, Function):
        names = [each.name for each in old.parameters]
        return len(names) >= _TELLING and names == [each.name for each in new.parameters]
    if isinstance(old, Class) and isinstance(new, Class):
        return len(old.functions) >= _TELLING and {*old.functions} == {*new.functions}
    return False
