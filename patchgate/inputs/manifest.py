"""The manifest of a patch, `patch.toml` -> `Claims`.

A manifest that does not fit is refused with file:line and what to write instead.
"""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from patchgate.inputs.names import unknown_effect, unknown_in
from patchgate.inputs.toml import line_of, read_toml, refuse_unknown
from patchgate.model.budgets import DEFAULTS, parse_budget
from patchgate.model.errors import UsageError
from patchgate.model.paths import shown
from patchgate.model.predicates import parse_predicate
from patchgate.model.records import Budget, Claims, Numerics, Symptom

_CLAIMS = frozenset(field.name for field in fields(Claims))
_SYMPTOM = frozenset(field.name for field in fields(Symptom))


def load_claims(manifest: Path) -> Claims:
    """The claims of a `patch.toml`. Raises UsageError with file:line for the first thing that is wrong."""
    table = read_toml(manifest)
    refuse_unknown(manifest, table, _CLAIMS)
    text = manifest.read_text(encoding="utf-8")

    def wrong(key: str, what: str, advice: str) -> UsageError:
        where = f"{shown(manifest)}:{line_of(text, key)}"
        return UsageError(what, where=where, got=f"{key} = {table.get(key)!r}", next=advice)

    def string(key: str) -> str | None:
        value = table.get(key)
        if value is not None and not isinstance(value, str):
            raise wrong(key, f"`{key}` must be a string", f'{key} = "..."')
        return value

    applies_to, fixed_in = string("applies_to"), string("fixed_in")
    try:
        SpecifierSet(applies_to or "")
    except InvalidSpecifier:
        raise wrong("applies_to", "not a PEP 440 specifier", 'applies_to = ">=2.11,<2.14"') from None
    try:
        Version(fixed_in or "0")
    except InvalidVersion:
        raise wrong("fixed_in", "not a version", 'fixed_in = "2.12"') from None
    try:
        numerics = Numerics(table.get("numerics", Numerics.BIT_IDENTICAL.value))
    except ValueError:
        choices = ", ".join(f'"{choice.value}"' for choice in Numerics)
        raise wrong("numerics", "unknown class of numerics", f"one of {choices}") from None
    targets = table.get("targets")
    if targets is not None and not (isinstance(targets, list) and all(isinstance(t, str) for t in targets)):
        raise wrong("targets", "`targets` must be a list of dotted names", 'targets = ["torch._inductor..."]')
    effects = table.get("effects", [])
    if not (isinstance(effects, list) and all(isinstance(effect, str) for effect in effects)):
        raise wrong("effects", "`effects` must be a list of strings", 'effects = ["environment NAME", "compile"]')
    for effect in effects:
        told = unknown_effect(effect)
        if told:
            raise UsageError(told[0], where=f"{shown(manifest)}:{line_of(text, 'effects')}", got=effect, next=told[1])

    def at_least_one(key: str, otherwise: float) -> float:
        value = table.get(key, otherwise)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value < math.inf:
            raise wrong(key, f"`{key}` must be a finite number of at least 1", f"{key} = {otherwise + 0.1}")
        return float(value)

    return Claims(
        title=string("title") or manifest.parent.name,
        source=string("source") or "",
        applies_to=applies_to,
        fixed_in=fixed_in,
        targets=None if targets is None else tuple(targets),
        numerics=numerics,
        error_factor=at_least_one("error_factor", 1.0),
        largest_ulps=at_least_one("largest_ulps", 8.0),
        symptom=_symptom(manifest, table.get("symptom")),
        scope=string("scope"),
        effects=tuple(effects),
        budgets=_budgets(manifest, table.get("budgets", {})),
    )


def _budgets(manifest: Path, table: Any) -> dict[str, Budget]:
    text = manifest.read_text(encoding="utf-8")

    def wrong(key: str, what: str, got: str) -> UsageError:
        where = f"{shown(manifest)}:{line_of(text, key)}"
        return UsageError(what, where=where, got=got, next='compile_calls = "0.1 %"   (or "-2 % .. 0.1 %")')

    if not isinstance(table, dict):
        raise wrong("budgets", "`budgets` must be a table", repr(table))
    refuse_unknown(manifest, table, DEFAULTS, prefix="budgets.")
    budgets = {}
    for name, value in table.items():
        try:
            budgets[name] = parse_budget(value if isinstance(value, str) else repr(value))
        except ValueError as error:
            raise wrong(name, str(error), f"{name} = {value!r}") from None
    return budgets


def _symptom(manifest: Path, table: Any) -> Symptom | None:
    if table is None:
        return None
    text = manifest.read_text(encoding="utf-8")
    line = max(line_of(text, start) for start in ("[symptom]", "symptom"))
    where = f"{shown(manifest)}:{line}"
    form = 'workload = "residual_stack", device = "h200", fact = "loads.max", predicate = "> 4"'
    if not isinstance(table, dict):
        raise UsageError("`symptom` must be a table", where=where, got=repr(table), next=f"[symptom] {form}")
    refuse_unknown(manifest, table, _SYMPTOM, prefix="symptom.")
    missing = sorted(_SYMPTOM - table.keys())
    if missing or not all(isinstance(value, str) for value in table.values()):
        got = f"missing: {', '.join(missing)}" if missing else repr(table)
        raise UsageError("a symptom needs four strings", where=where, got=got, next=form)
    try:
        parse_predicate(table["predicate"])
    except ValueError as error:
        raise UsageError("bad symptom predicate", where=where, got=str(error), next='predicate = "> 4"') from None
    symptom = Symptom(**table)
    unknown = unknown_in(symptom, manifest.parent / "workloads")
    if unknown:
        key, what, advice = unknown
        where = f"{shown(manifest)}:{line_of(text, key, 'symptom')}"
        raise UsageError(what, where=where, got=f"{key} = {table[key]!r}", next=advice)
    return symptom
