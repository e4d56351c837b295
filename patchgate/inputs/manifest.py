"""The manifest of a patch, `patch.toml` -> `Claims`.

Each key is a field of `Claims` (model/records.py), and may be left out. README.md shows them all. A name that must be
known elsewhere (a workload, a device, a fact) is refused with the nearest that there is.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from patchgate.inputs.devices import device_names
from patchgate.inputs.golden import golden_path
from patchgate.inputs.project import BUDGETS, Project, project_around, read_specifier
from patchgate.inputs.toml import load_toml_record
from patchgate.inputs.validation import Invalid, Key, declare_keys, list_of, read_string, read_version
from patchgate.inputs.workloads import OPTIONS, load_workloads, own_workloads, workload_files
from patchgate.model.facts import COMPILES, HISTOGRAMS, ON_REQUEST
from patchgate.model.files import read_text
from patchgate.model.paths import GOLDEN, WORKLOADS
from patchgate.model.predicates import parse_predicate
from patchgate.model.records import Claims, Symptom
from patchgate.model.text import nearest

#: What the probe reports of a module that is run; `thread-local`: an option that is meant for one thread only.
_EFFECTS = (
    "compile", "config", "device", "environment", "files", "network", "process", "processes", "thread-local", "threads",
)  # fmt: skip


# What a variable starts with that says how a process starts, or that is read when torch is imported.
_RESERVED = (
    "PATH", "HOME", "TMP", "LD_", "LC_", "LANG", "PYTHON", "CXX", "CUDA",
    "TORCH", "PYTORCH", "INDUCTOR", "AOT", "TRITON",
)  # fmt: skip


def load_claims(manifest: Path) -> Claims:
    """The claims of a `patch.toml`, with the budgets of its project. Raises UsageError with file:line of a fault."""
    project = project_around(manifest)

    def check(claims: Claims) -> None:
        _validate_effects(claims.effects)
        if claims.symptom:
            _validate_symptom(claims.symptom, manifest, project)

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
        raise Invalid(
            "torch, triton and the standard library are installed: no stub for them",
            next="a module of a dependency, or of the project",
        )
    return str(value)


def read_call(value: Any) -> str:
    """A call that installs a patch. Raises Invalid where it is no name, nor a call with literals."""
    owner, _, call = read_string(value).rpartition(":")
    if not re.fullmatch(r"([A-Za-z_]\w*(\.[A-Za-z_]\w*)*)?", owner) or not _is_literal_call(call):
        raise Invalid("neither a function of the patch nor `module:function(literals)`")
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


def _read_variable(value: Any) -> str:
    name, equals, _ = read_string(value).partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise Invalid("not NAME=value")
    if name.startswith(_RESERVED):
        advice = "a variable of the project's own; one of torch's counts from its start on: set it in the patch"
        raise Invalid("the gate, Python or torch has read it before the patch is imported", next=advice)
    return str(value)


def _read_predicate(value: Any) -> str:
    parse_predicate(read_string(value))
    return str(value)


def _read_factor(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value < math.inf:
        raise Invalid("not a finite number of at least 1")
    return float(value)


def _validate_effects(effects: tuple[str, ...]) -> None:
    """Raises Invalid for an effect of a kind that the probe does not know; the kind is the first word."""
    for effect in effects:
        kind = effect.partition(" ")[0]
        if kind not in _EFFECTS:
            raise Invalid(f"no kind of effect `{kind}`", path=("effects",), next=nearest(kind, _EFFECTS))


def _validate_symptom(symptom: Symptom, patch: Path, project: Project) -> None:
    """Raises Invalid for a workload, device or fact that neither patchgate, the project nor the patch has.

    Facts are known of a workload that comes with patchgate; one of their own may have any.
    """
    own = own_workloads(patch, project)
    if symptom.workload not in {OPTIONS.name, *own, *_shipped_like(symptom.workload)}:
        _refuse("workload", symptom.workload, {*load_workloads(), OPTIONS.name, *own})
    if symptom.device not in (devices := device_names(project.profiles)):
        _refuse("device", symptom.device, devices)
    facts = _recorded_facts(golden_path(symptom.workload, symptom.device, GOLDEN))
    unlisted = symptom.workload in own or symptom.fact.startswith((*HISTOGRAMS, ON_REQUEST))
    if facts and not unlisted and symptom.fact not in facts | {COMPILES}:
        choices = sorted(fact for fact in facts if not fact.startswith(HISTOGRAMS))
        raise Invalid(f"no fact `{symptom.fact}`", path=("symptom", "fact"), next=nearest(symptom.fact, choices))


def _shipped_like(name: str) -> set[str]:
    """The workloads of the files that may have one of that name: the other files are not read."""
    files = [file for file in workload_files(WORKLOADS) if name.startswith(file.stem)]
    return {each for file in files for each in load_workloads(file)}


def _refuse(key: str, name: str, known: Iterable[str]) -> NoReturn:
    raise Invalid(f"no {key} `{name}`", path=("symptom", key), next=nearest(name, sorted(known)))


def _recorded_facts(path: Path) -> frozenset[str]:
    """The names of the facts in a golden file; their values are not parsed."""
    lines = read_text(path).splitlines() if path.is_file() else []
    return frozenset(line.split()[0] for line in lines if "  " in line)


_SYMPTOM = '[symptom] workload = "residual_stack", device = "h200", fact = "loads.max", predicate = "> 4"'
declare_keys(
    Claims,
    title=Key(example='title = "..."'),
    applies_to=Key(read=read_specifier, example='applies_to = ">=2.11,<2.14"'),
    fixed_in=Key(read=read_version, example='fixed_in = "2.12"'),
    targets=Key(example='targets = ["torch._inductor..."]'),
    apply=Key(read=_read_calls, example='apply = "install"   (or ["install", "package.module:other(True)"])'),
    environment=Key(read=list_of(_read_variable), example='environment = ["MY_PATCHES=1"]'),
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
