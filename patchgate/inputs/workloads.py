"""Workload files -> `Workload` records, one for each variant.

A file is read as text, because only the probe imports torch. docs/workloads.md describes the
format.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from patchgate.inputs.models import model_workloads
from patchgate.inputs.patch_source import Unreadable, parse
from patchgate.inputs.project import Project
from patchgate.model.errors import UsageError
from patchgate.model.files import read_text
from patchgate.model.paths import PACKAGE, WORKLOADS, display_path, split_entry
from patchgate.model.records import Workload, record
from patchgate.model.serialization import Invalid, key, list_of, one_of, structure

#: A workload for the options of torch.compile. Its facts belong to the compiler, not to a network.
OPTIONS = Workload(
    name="options", path=str(PACKAGE / "probe" / "compile" / "options.py"), dtype="", asks="options"
)

CHECKS = ("cache", "compile_cost", "equivalence", "kernels", "latency", "parity", "recompile")
_FORM = 'DTYPE = "bfloat16", CHECKS = ("kernels", "parity") and build(device, dtype, scale)'
# From this likeness on, a name counts as a misspelling of a known constant. The likeness of `CHECK`
# to `CHECKS` is 0.91, that of `CHUNKS` 0.67.
_MISSPELT = 0.8
_TUNED = "autotuning runs every candidate kernel on the device and keeps the fastest"
#: Variant -> the fields of `Workload` that it changes. `static`, the plain one, is inference with
#: the file's own dtype, static shapes and torch.compile's default mode.
VARIANTS: dict[str, dict[str, Any]] = {
    "static": {},
    "dynamic": {"dynamic": True},
    "dynamic-batch": {"dynamic_dim": 0},
    "dynamic-sequence": {"dynamic_dim": 1},
    "training": {"training": True},
    "bfloat16": {"dtype": "bfloat16"},
    "float16": {"dtype": "float16"},
    "float32": {"dtype": "float32"},
    "reduce-overhead": {"mode": "reduce-overhead"},
    "shapes": {"asks": "shapes"},
    "max-autotune": {"mode": "max-autotune", "needs_device": _TUNED},
    "max-autotune-no-cudagraphs": {"mode": "max-autotune-no-cudagraphs", "needs_device": _TUNED},
}


_read_checks = list_of(one_of(CHECKS, "check"))
_read_variants = list_of(one_of(VARIANTS, "variant"))


@record
class Constants:
    """The constants that a workload file may have. For some of them, `Workload` has a field with
    the same name in small letters.
    """

    #: dtype of the inputs and weights in the plain variant, as torch names it
    DTYPE: str = key(example='DTYPE = "bfloat16"')
    #: the checks that run the workload
    CHECKS: tuple[str, ...] = key((), read=_read_checks)
    #: the variants in which the workload is compiled
    VARIANTS: tuple[str, ...] = key(("static",), read=_read_variants)
    #: the variants that are judged before a merge
    PREMERGE: tuple[str, ...] = key((), read=_read_variants)
    READS: tuple[float, ...] = ()  #: the values that `.item()` returns, call by call
    #: numbers of tokens with which the workload is timed, in place of its full size
    TOKENS: tuple[int, ...] = ()


def load_workloads(place: Path = WORKLOADS) -> dict[str, Workload]:
    """Every workload of a file, or of a folder of files, by name; a variant is called
    `<file>_<variant>`.

    Raises UsageError if a file's constants contradict each other.
    """
    return {w.name: w for path in workload_files(place) for w in _variants(path)}


def workload_files(place: Path) -> list[Path]:
    """The file itself, or every file of the folder."""
    return [place] if place.is_file() else sorted(place.glob("*.py"))


def workloads_with(patch: Path, project: Project) -> dict[str, Workload]:
    """The workloads that come with patchgate, all that `own_workloads` finds, and the project's
    models.

    Raises UsageError for an own workload with the name of a workload of patchgate.
    """
    shipped = load_workloads()
    own = own_workloads(patch, project) | model_workloads(project.models, Path(project.root))
    for name in sorted(shipped.keys() & own.keys()):
        raise UsageError(
            f"a workload `{name}` comes with patchgate",
            where=display_path(own[name].path),
            got=name,
            next="rename the file: facts of that name are recorded of the workload of patchgate",
        )
    return shipped | own


def premerge_workloads(workloads: Mapping[str, Workload], project: Project) -> tuple[str, ...]:
    """The names of the workloads that the gate judges before a merge, unless an option leaves some
    of them out.
    """
    listed = project.chosen_workloads
    return tuple(
        name
        for name, one in workloads.items()
        if (name in listed or one.premerge)
        and (not listed or name in listed or Path(one.path).parent != WORKLOADS)
    )


def own_workloads(patch: Path, project: Project) -> dict[str, Workload]:
    """The workloads that the project's table names, and the workloads in a folder `workloads` in
    the patch's folder or next to its file.

    A file without CHECKS is judged by its facts and numbers. If no variant of a file is in
    PREMERGE, its plain variant is judged before a merge, or else its first variant.
    """
    patch, _ = split_entry(patch)
    next_to_it = (patch if patch.is_dir() else patch.parent) / "workloads"
    found: dict[str, Workload] = {}
    for file in [
        file for place in (next_to_it, *project.own_workloads()) for file in workload_files(place)
    ]:
        own = {
            workload.name: workload for workload in _variants(file, checks=("kernels", "parity"))
        }
        if own and not any(each.premerge for each in own.values()):
            chosen = file.stem if file.stem in own else next(iter(own))
            own[chosen] = replace(own[chosen], premerge=True)
        found |= own
    return found


def checks_of_variant(variant: str, checks: tuple[str, ...]) -> tuple[str, ...]:
    """The checks of a file that apply to its variant."""
    changed = VARIANTS[variant]
    if variant in ("static", "dynamic"):
        return checks
    if variant == "shapes":
        return ("shapes",)
    if "mode" in changed and "latency" in checks:
        return ("latency",)  # facts of a mode are taken from files that are not timed
    # Only dtypes and training have numbers to compare on the CPU. Caches are checked once a file.
    own = ("kernels", "parity") if {"dtype", "training"} & changed.keys() else ("kernels",)
    return tuple(check for check in checks if check in own)


def name_of_variant(stem: str, variant: str) -> str:
    """The name of a variant: `prenorm_mlp`, `prenorm_mlp_dynamic`, `pointwise_max_autotune`."""
    return stem if variant == "static" else f"{stem}_{variant.replace('-', '_')}"


def _variants(path: Path, checks: tuple[str, ...] = ()) -> Iterator[Workload]:
    """The workloads of a file. `checks` are its checks if the file names none."""
    constants = _read_constants(path)
    checks = constants.CHECKS or checks
    of_workload = {field.name for field in fields(Workload)}
    copied = {
        name.lower(): value
        for name, value in vars(constants).items()
        if name.lower() in of_workload
    }
    for variant in constants.VARIANTS:
        own = {
            "checks": checks_of_variant(variant, checks),
            "premerge": variant in constants.PREMERGE,
        }
        name = name_of_variant(path.stem, variant)
        yield Workload(name=name, path=str(path.resolve()), **(copied | own | VARIANTS[variant]))


def _read_constants(path: Path) -> Constants:
    try:
        tree = parse(read_text(path))
    except Unreadable as error:
        raise error.in_file(path) from None
    known = {field.name for field in fields(Constants)}
    assigned = {
        node.targets[0].id: node
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    nodes = {name: node for name, node in assigned.items() if name in known}
    _refuse_misspelt([name for name in assigned if name not in known], assigned, path)
    try:
        constants = structure(
            Constants, {name: _literal(name, node) for name, node in nodes.items()}
        )
        if not {*constants.PREMERGE} <= {*constants.VARIANTS}:
            raise Invalid(
                "`PREMERGE` names a variant that `VARIANTS` does not have", path=("PREMERGE",)
            )
        if not any(
            isinstance(node, ast.FunctionDef) and node.name == "build" for node in tree.body
        ):
            raise Invalid("no function `build`")
    except Invalid as fault:
        at = nodes.get(str(fault.path[0])) if fault.path else None
        raise UsageError(
            f"not a workload: {fault.what}",
            where=f"{display_path(path)}:{at.lineno}" if at else display_path(path),
            got=ast.unparse(at) if at else f"constants: {', '.join(nodes) or 'none'}",
            next=fault.next or _FORM,
        ) from None
    return constants


def _refuse_misspelt(own: Iterable[str], assigned: Mapping[str, ast.Assign], path: Path) -> None:
    """Raise UsageError for a constant whose name is nearly the name of a known constant: it would
    have no effect.
    """
    ours = {field.name for field in fields(Constants)} | {"FORMS"}
    for name in own:
        close = get_close_matches(name, ours - assigned.keys(), n=1, cutoff=_MISSPELT)
        if close:
            raise UsageError(
                f"no constant `{name}`",
                where=f"{display_path(path)}:{assigned[name].lineno}",
                got=ast.unparse(assigned[name]),
                next=f"`{close[0]}`, or a lower-case name if the constant is the workload's own",
            )


def _literal(name: str, node: ast.Assign) -> Any:
    try:
        return ast.literal_eval(node.value)
    except (ValueError, TypeError, RecursionError, MemoryError, SyntaxError):
        raise Invalid(
            f"`{name}` must be a literal", path=(name,), next='DTYPE = "bfloat16"'
        ) from None
