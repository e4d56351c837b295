"""matrix.toml and fixtures -> rows, workloads, devices and the cases of a run.

Decides what is selected, and with which reason something is not. Reads
workload files as text: the outside never imports torch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from patchgate.inputs.toml import read_toml, refuse_unknown
from patchgate.inputs.variants import VARIANTS, checks_of, name_of
from patchgate.model.errors import UsageError
from patchgate.model.paths import DEVICES, MATRIX, PACKAGE, WORKLOADS, shown
from patchgate.model.records import Workload

_ROW = frozenset({"torch", "python", "tags"})
_WORKLOAD = frozenset({"DTYPE", "VARIANTS", "PREMERGE", "READS", "CHECKS", "TOKENS"})
_CHECKS = frozenset({"kernels", "parity", "consistency", "latency", "compile", "cache", "recompile"})

# What torch.compile can be told: facts of no workload, but of the compiler itself.
OPTIONS = Workload(name="options", path=str(PACKAGE / "probe" / "compile" / "options.py"), dtype="", asks="options")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One torch release of the matrix; `python` is a PEP 440 specifier of interpreters that it runs on."""

    torch: str
    python: str
    tags: tuple[str, ...]


def load_matrix(path: Path = MATRIX) -> tuple[Row, ...]:
    """The rows in release order. Raises UsageError for an unknown key or a version that is none."""
    table = read_toml(path)
    refuse_unknown(path, table, {"row"})
    rows = []
    for entry in table.get("row", []):
        refuse_unknown(path, entry, _ROW, prefix="row.")
        try:
            Version(entry["torch"])
            rows.append(Row(torch=entry["torch"], python=entry["python"], tags=tuple(entry["tags"])))
        except (KeyError, TypeError, InvalidVersion):
            raise UsageError(
                "a row needs a torch version, pythons and tags",
                where=shown(path),
                got=repr(entry),
                next='torch = "2.12.1", python = ">=3.10,<3.14", tags = ["nightly"]',
            ) from None
    return tuple(sorted(rows, key=lambda row: Version(row.torch)))


def load_workloads(folder: Path = WORKLOADS) -> dict[str, Workload]:
    """Every workload of `folder` by name; its variants are called `<file>_<variant>`.

    Raises UsageError where a file's constants do not hold together.
    """
    return {w.name: w for path in sorted(folder.glob("*.py")) for w in _workloads(path)}


def workloads_with(patch: Path) -> dict[str, Workload]:
    """Ours, and those that a patch brings along: `workloads` in its folder, or beside its file."""
    return load_workloads() | load_workloads((patch if patch.is_dir() else patch.parent) / "workloads")


def _workloads(path: Path) -> Iterator[Workload]:
    constants, has_build = _constants(path)
    checks, variants = tuple(constants.get("CHECKS", ())), tuple(constants.get("VARIANTS", ("static",)))
    premerge = tuple(constants.get("PREMERGE", ()))
    known = _CHECKS.issuperset(checks) and VARIANTS.keys() >= {*variants} >= {*premerge}
    if not has_build or "DTYPE" not in constants or not known:
        raise UsageError(
            "not a workload",
            where=shown(path),
            got=f"constants {constants}, build: {'yes' if has_build else 'no'}",
            next='define DTYPE = "bfloat16", CHECKS = ("kernels", "parity") and build(device, dtype, scale)',
        )
    for variant in variants:
        plain = Workload(
            name=name_of(path.stem, variant),
            path=str(path.resolve()),
            dtype=constants["DTYPE"],
            reads=tuple(constants.get("READS", ())),
            checks=checks_of(variant, checks),
            premerge=variant in premerge,
            tokens=tuple(constants.get("TOKENS", ())),
        )
        yield replace(plain, **VARIANTS[variant])


def _constants(path: Path) -> tuple[dict[str, Any], bool]:
    """The constants that this module reads, and whether there is a `build`."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise UsageError("not Python", where=f"{shown(path)}:{error.lineno}", got=error.msg) from None
    constants = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in _WORKLOAD:
            try:
                constants[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                raise UsageError(
                    "a constant of a workload must be a literal",
                    where=f"{shown(path)}:{node.lineno}",
                    got=ast.unparse(node),
                    next='DTYPE = "bfloat16"',
                ) from None
    return constants, any(isinstance(node, ast.FunctionDef) and node.name == "build" for node in tree.body)


def load_profile(name: str, folder: Path = DEVICES) -> dict[str, Any]:
    """A device profile as data. Raises UsageError naming the profiles that there are."""
    path = folder / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.toml")))
        raise UsageError(f"no device profile `{name}`", where=shown(folder), got=name, next=f"one of: {known}")
    profile = read_toml(path)
    if "plugin" in profile:  # named as seen from the profile
        profile["plugin"] = str((folder / profile["plugin"]).resolve())
    return profile


def profile_of(device: str, *, otherwise: str, folder: Path = DEVICES) -> str:
    """The profile that describes the device called `device`; `otherwise` where none does."""
    named = {read_toml(path).get("name"): path.stem for path in sorted(folder.glob("*.toml"))}
    return named.get(device, otherwise)
