"""The manifest of a patch, `patch.toml`: each of its keys is a field of `Claims`, which names the
check that judges it.

docs/claims.md shows all keys. `load_claims` in inputs/patch.py reads a manifest and refuses
workloads, devices and facts that do not exist; `structure` in model/serialization.py refuses
unknown keys.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from dataclasses import field
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from patchgate.inputs.patch_source import line_of_change
from patchgate.inputs.toml import line_of
from patchgate.model.budgets import BUDGETS
from patchgate.model.facts import UNPATCHED, parse_predicate
from patchgate.model.paths import display_path
from patchgate.model.records import Budget, Numerics, record
from patchgate.model.serialization import (
    Invalid,
    key,
    list_of,
    read_specifier,
    read_string,
    read_version,
)
from patchgate.model.text import nearest

#: Kinds of effects that the probe reports for a module; `thread-local` means an option that is set
#: for one thread only.
_EFFECTS = (
    "compile", "config", "device", "environment", "files", "network", "process", "processes",
    "python", "overwrite", "state", "thread-local", "threads",
)  # fmt: skip


#: An id has at most this many characters, because the names of result files contain it.
LONGEST_ID = 100

# Prefixes of variables that decide how a process starts, or that are read when torch is imported.
_RESERVED = (
    "PATH", "HOME", "TMP", "LD_", "LC_", "LANG", "PYTHON", "CXX", "CUDA",
    "TORCH", "PYTORCH", "INDUCTOR", "AOT", "TRITON",
)  # fmt: skip


# The start of a target: a dotted name in a module. A key in brackets may follow for a table.
_TARGET = re.compile(r"[^\W\d]\w*\.[^\W\d]")


class Target(str):
    """The dotted name of a target. With `applies_to`, it is replaced only on these releases."""

    applies_to: str = ""


def _read_calls(value: Any) -> tuple[str, ...]:
    """Read one call, or a list of calls."""
    return tuple(map(read_call, value if isinstance(value, list) else [value]))


def _read_targets(value: Any) -> tuple[Target, ...]:
    """Read targets: names, and tables of `names` with the releases on which the patch replaces
    these names.
    """
    if not isinstance(value, list) or not all(isinstance(entry, (str, dict)) for entry in value):
        raise Invalid("not a list of strings")
    targets = []
    for entry in value:
        table = entry if isinstance(entry, dict) else {"names": [entry]}
        if {*table} - {"names", "applies_to"} or not isinstance(table.get("names"), list):
            raise Invalid("not a table of `names` and `applies_to`")
        for name in table["names"]:
            if not _TARGET.match(read_string(name)):
                raise Invalid("not the dotted name of something in a module")
            target = Target(name)
            target.applies_to = read_specifier(table.get("applies_to", ""))
            targets.append(target)
    return tuple(targets)


def _read_id(value: Any) -> str:
    if read_string(value) == UNPATCHED:
        raise Invalid("the name of torch without a patch")
    if not is_id(value):
        raise Invalid(f"not made of at most {LONGEST_ID} letters, digits, `-` and `_`")
    return str(value)


def is_id(name: str) -> bool:
    """True if a section of a golden file can have this name."""
    is_short = len(name) <= LONGEST_ID
    return is_short and bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name)) and name != UNPATCHED


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
    """Read a call that installs a patch. Raises Invalid unless it is a name or a call with
    literals.
    """
    owner, _, call = read_string(value).rpartition(":")
    if not re.fullmatch(r"([A-Za-z_]\w*(\.[A-Za-z_]\w*)*)?", owner) or not _is_literal_call(call):
        raise Invalid("neither a function of the patch nor `module:function(literals)`")
    return str(value)


def _is_literal_call(text: str) -> bool:
    """True for a dotted name, or for a call of a dotted name whose arguments are literals."""
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
        raise Invalid(
            "the gate, Python or torch has read it before the patch is imported",
            next=(
                "a variable of the project's own; one of torch's counts from its start on: set it "
                "in the patch"
            ),
        )
    return str(value)


def _read_predicate(value: Any) -> str:
    parse_predicate(read_string(value))
    return str(value)


def _read_factor(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value < math.inf:
        raise Invalid("not a finite number of at least 1")
    return float(value)


def _read_effect(value: Any) -> str:
    """Read an effect. Raises Invalid if its first word, the kind, is unknown to the probe."""
    kind = read_string(value).partition(" ")[0]
    if kind not in _EFFECTS:
        raise Invalid(f"no kind of effect `{kind}`", next=nearest(kind, _EFFECTS))
    return str(value)


_SYMPTOM = (
    '[symptom] workload = "residual_stack", device = "h200", fact = "loads.max", predicate = "> 4"'
)


@record
class Symptom:
    """A defect as a predicate on one fact: `loads.max > 4` for `residual_stack` on `h200`."""

    workload: str = key(example='workload = "residual_stack"')
    device: str = key(example='device = "h200"')
    fact: str = key(example='fact = "loads.max"')
    predicate: str = key(read=_read_predicate, example='predicate = "> 4"')


@record
class Claims:
    """A patch's manifest.

    A key that is left out claims nothing. The comment on a key names the files of the checks that
    judge it, or of the code that uses it.
    """

    title: str = key(example='title = "..."')
    #: its name in golden files and in a history, in place of its folder's name; inputs/patch.py
    id: str | None = key(None, read=_read_id, example='id = "vllm-42686"')
    source: str = ""
    #: PEP 440 specifier of torch; checks/version_gate.py, dead_patch.py, symptom.py
    applies_to: str | None = key(None, read=read_specifier, example='applies_to = ">=2.11,<2.14"')
    #: the first release that has the fix, as far as its author knows; checks/symptom.py
    fixed_in: str | None = key(None, read=read_version, example='fixed_in = "2.12"')
    #: what it replaces; checks/effects.py, dead_patch.py, api.py
    targets: tuple[str, ...] | None = key(
        None, read=_read_targets, example='targets = ["torch._inductor..."]'
    )
    numerics: Numerics = Numerics.BIT_IDENTICAL  #: checks/parity.py, equivalence.py, tokens.py
    #: largest error against float64, relative to eager's; checks/parity.py
    error_factor: float | None = key(None, read=_read_factor, example="error_factor = 1.1")
    #: how far rounding may move one element; checks/parity.py
    largest_ulps: float | None = key(None, read=_read_factor, example="largest_ulps = 8.1")
    #: the defect that the patch fixes; checks/symptom.py
    symptom: Symptom | None = key(None, example=_SYMPTOM)
    #: its context manager; outside of it the patch changes nothing; checks/scope.py
    scope: str | None = None
    #: the calls that install it: `function`, `module:function(arguments)`; probe/patch/load.py
    apply: tuple[str, ...] = key(
        (),
        read=_read_calls,
        example='apply = "install"   (or ["install", "package.module:other(True)"])',
    )
    #: variables, `NAME=value`, that are set before the patch is imported; probe/protocol.py
    environment: tuple[str, ...] = key(
        (), read=list_of(_read_variable), example='environment = ["MY_PATCHES=1"]'
    )
    #: modules that a stub stands for; probe/patch/stubs.py, checks/stubs.py
    stubs: tuple[str, ...] = key(
        (), read=list_of(_read_module), example='stubs = ["my_package._C"]'
    )
    #: further effects of importing it: "compile", "config NAME"; checks/effects.py
    effects: tuple[str, ...] = key(
        (), read=list_of(_read_effect), example='effects = ["environment NAME", "compile"]'
    )
    #: the file of which it is a part, and in whose place it is imported; probe/patch/load.py
    part_of: str = ""
    #: By metric; checks/compile_cost.py, latency.py, kernels.py.
    budgets: dict[str, Budget] = key(dict, **BUDGETS)

    def targets_on(self, torch: str) -> list[str]:
        """The targets that are replaced on a release."""
        bounds = {
            target: SpecifierSet(getattr(target, "applies_to", "")) for target in self.targets or ()
        }
        return [target for target, each in bounds.items() if each.contains(torch, prereleases=True)]


@record
class Patch:
    """A patch: an id, claims, and the Python file that changes torch when it is run. If there is a
    `diff`, the Python file is made from it.
    """

    id: str
    path: str
    source: str
    claims: Claims
    manifest: str | None = None
    diff: str | None = None
    paths: tuple[str, ...] = ()  #: folders of its project to import from, absolute
    #: Modules of its project that cannot be imported here -> why; runs/gate.py,
    #: probe/patch/stubs.py
    stand_ins: dict[str, str] = field(default_factory=dict)
    #: Holders that get a replacement, as in `Patched` of the protocol.
    later: dict[str, str] = field(default_factory=dict)

    @property
    def stubs(self) -> tuple[str, ...]:
        """The modules that are replaced by stubs."""
        return (*self.claims.stubs, *self.stand_ins)

    def is_claimed(self, version: str) -> bool:
        """True if `applies_to` covers a version, by PEP 440 and with pre-releases allowed."""
        return SpecifierSet(self.claims.applies_to or "").contains(version, prereleases=True)

    @property
    def place(self) -> str:
        """The file:line at which the patch first changes torch."""
        return f"{display_path(self.path)}:{line_of_change(self.source)}"

    def place_of(self, *key: str) -> str:
        """The file:line of a key of the manifest; the file if the manifest lacks the key, and the
        line that first changes torch if there is no manifest.
        """
        if self.manifest is None:
            return self.place
        file = Path(self.manifest)
        text = file.read_text("utf-8") if file.is_file() else ""
        line = line_of(text, key)
        is_there = key[-1] in "".join(text.splitlines()[line - 1 : line])
        return display_path(file) + (f":{line}" if is_there else "")

    @property
    def stated_numerics(self) -> str:
        """`numerics = "rounding"`, followed by `(by default)` if the manifest does not state it."""
        default = "" if self.states_numerics else " (by default)"
        return f'numerics = "{self.claims.numerics.value}"{default}'

    @property
    def states_numerics(self) -> bool:
        """True if a line of the manifest states its numerics."""
        return bool(self.place_of("numerics").partition(".toml:")[2])
