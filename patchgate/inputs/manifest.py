"""The manifest of a patch, `patch.toml` -> `Claims`.

Every key may be left out. README.md shows them all.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchgate.inputs.project import BUDGETS, project_around, read_specifier
from patchgate.inputs.structure import Invalid, Key, declare_keys, list_of, read_string, read_version
from patchgate.inputs.toml import load_toml_record
from patchgate.inputs.validate_names import validate_effects, validate_symptom
from patchgate.model.predicates import parse_predicate
from patchgate.model.records import Claims, Symptom


def load_claims(manifest: Path) -> Claims:
    """The claims of a `patch.toml`, with the budgets of its project. Raises UsageError with file:line of a fault."""
    project = project_around(manifest)

    def check(claims: Claims) -> None:
        validate_effects(claims.effects)
        if claims.symptom:
            validate_symptom(claims.symptom, manifest, project)

    title = manifest.parent.name
    claims = load_toml_record(Claims, manifest, check, defaults={"title": title})
    return replace(claims, title=claims.title or title, budgets=project.budgets | claims.budgets)


def _read_calls(value: Any) -> tuple[str, ...]:
    """One call, or a list of them."""
    return tuple(map(read_call, value if isinstance(value, list) else [value]))


def _read_module(value: Any) -> str:
    first, *rest = read_string(value).split(".")
    if not all(map(str.isidentifier, (first, *rest))):
        raise Invalid("not the dotted name of a module")
    if first in {"torch", "triton", *sys.stdlib_module_names}:
        raise Invalid("a stub is for what is not installed", next="a module of a dependency, or of the project")
    return str(value)


def read_call(value: Any) -> str:
    """A call that installs a patch. Raises Invalid where it is no name, nor a call with literals."""
    owner, _, call = read_string(value).rpartition(":")
    if not re.fullmatch(r"([A-Za-z_]\w*(\.[A-Za-z_]\w*)*)?", owner) or not _is_literal_call(call):
        raise Invalid("not a function of the patch, nor `module:function(literals)`")
    return str(value)


def _is_literal_call(text: str) -> bool:
    """Whether it is a dotted name, or a call of one whose arguments are literals."""
    try:
        node = ast.parse(text, mode="eval").body
        if isinstance(node, ast.Call):
            for argument in (*node.args, *(word.value for word in node.keywords)):
                ast.literal_eval(argument)
            node = node.func
    except (SyntaxError, ValueError):
        return False
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _read_predicate(value: Any) -> str:
    parse_predicate(read_string(value))
    return str(value)


def _read_factor(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value < math.inf:
        raise Invalid("not a finite number of at least 1")
    return float(value)


_SYMPTOM = '[symptom] workload = "residual_stack", device = "h200", fact = "loads.max", predicate = "> 4"'
declare_keys(
    Claims,
    title=Key(example='title = "..."'),
    applies_to=Key(read=read_specifier, example='applies_to = ">=2.11,<2.14"'),
    fixed_in=Key(read=read_version, example='fixed_in = "2.12"'),
    targets=Key(example='targets = ["torch._inductor..."]'),
    apply=Key(read=_read_calls, example='apply = "install"   (or ["install", "package.module:other(True)"])'),
    stubs=Key(read=list_of(_read_module), example='stubs = ["my_package._C"]'),
    error_factor=Key(read=_read_factor, example="error_factor = 1.1"),
    largest_ulps=Key(read=_read_factor, example="largest_ulps = 8.1"),
    symptom=Key(example=_SYMPTOM),
    effects=Key(example='effects = ["environment NAME", "compile"]'),
    budgets=BUDGETS,
)
declare_keys(
    Symptom,
    workload=Key(example='workload = "residual_stack"'),
    device=Key(example='device = "h200"'),
    fact=Key(example='fact = "loads.max"'),
    predicate=Key(read=_read_predicate, example='predicate = "> 4"'),
)
