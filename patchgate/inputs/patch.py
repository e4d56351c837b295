"""A patch on disk (a folder with patch.py or patch.diff and patch.toml, or a bare file) -> `Patch`.

The patch is read, never run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from patchgate.inputs.devices import device_names
from patchgate.inputs.diff import write_patch
from patchgate.inputs.golden import golden_path
from patchgate.inputs.manifest import LONGEST_ID, Claims, Patch, Symptom, is_id, read_call
from patchgate.inputs.patch_source import (
    DIFFS,
    Unreadable,
    read_lossy,
    read_source,
    source_and_manifest,
)
from patchgate.inputs.project import Project, project_around
from patchgate.inputs.split_patches import chosen_installer, is_scope, missing_function
from patchgate.inputs.toml import load_toml_record
from patchgate.inputs.workloads import OPTIONS, load_workloads, own_workloads, workload_files
from patchgate.model.errors import UsageError
from patchgate.model.facts import COMPILES, HISTOGRAMS, ON_REQUEST
from patchgate.model.files import read_text
from patchgate.model.paths import GOLDEN, WORKLOADS, display_path, split_entry
from patchgate.model.serialization import Invalid
from patchgate.model.text import did_you_mean, nearest


def load_patch(path: Path) -> Patch:
    """The patch at `path`: a folder with `patch.py` or `patch.diff`, or a bare Python file or diff.

    `PATH::function` is the part that this function installs. Raises UsageError if there is no such
    patch, or if its manifest contradicts itself. A file that is not Python is a patch too: a
    verdict says that it does not run.
    """
    whole = path
    path, entry = split_entry(path)
    source, manifest = source_and_manifest(path)
    name = source.parent.name if path.is_dir() else source.stem
    has_manifest = manifest.is_file()
    project = project_around(path)
    strict = Claims(title=f"{name} (no manifest: strict claims)", budgets=project.budgets)
    claims = load_claims(manifest) if has_manifest else strict
    diff = source if source.suffix in DIFFS else None
    if diff:
        source = write_patch(diff, claims.applies_to)
    if entry:
        claims = _claims_of_part(claims, entry, read_lossy(source))
    elif not has_manifest and not diff:
        claims = _claims_of_only_installer(claims, source)
    return Patch(
        id=patch_id(whole, claims.id),
        path=str(source.resolve()),
        source=read_lossy(source),
        claims=claims,
        manifest=str(manifest.resolve()) if has_manifest else None,
        diff=str(diff.resolve()) if diff else None,
        paths=project.import_path,
    )


def load_claims(manifest: Path) -> Claims:
    """The claims of a `patch.toml`, with the budgets of its project.

    Raises UsageError with file:line of a fault.
    """
    project = project_around(manifest)

    def check(claims: Claims) -> None:
        if claims.symptom:
            _validate_symptom(claims.symptom, manifest, project)

    title = manifest.parent.name
    claims = load_toml_record(Claims, manifest, check, defaults={"title": title})
    return replace(claims, title=claims.title or title, budgets=project.budgets | claims.budgets)


def _validate_symptom(symptom: Symptom, patch: Path, project: Project) -> None:
    """Raise Invalid for a workload, device or fact that neither patchgate, the project nor the
    patch has.

    The facts of a workload that comes with patchgate are known; another workload may have any fact.
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
        raise Invalid(
            f"no fact `{symptom.fact}`",
            path=("symptom", "fact"),
            next=nearest(symptom.fact, choices),
        )


def _shipped_like(name: str) -> set[str]:
    """The shipped workloads in the files that may define this name; other files are not read."""
    files = [file for file in workload_files(WORKLOADS) if name.startswith(file.stem)]
    return {each for file in files for each in load_workloads(file)}


def _refuse(key: str, name: str, known: Iterable[str]) -> NoReturn:
    raise Invalid(f"no {key} `{name}`", path=("symptom", key), next=nearest(name, sorted(known)))


def _recorded_facts(path: Path) -> frozenset[str]:
    """The names of the facts in a golden file; their values are not parsed."""
    lines = read_text(path).splitlines() if path.is_file() else []
    return frozenset(line.split()[0] for line in lines if "  " in line)


def patch_id(path: Path, own: str | None = None) -> str:
    """The id of the patch at `path` in golden files and in the history. `own` is the id that its
    manifest states.
    """
    path, entry = split_entry(path)
    name = own or (path.resolve().name if path.is_dir() else path.stem)
    identity = name if is_id(name) else _as_id(name)
    identity = f"{identity}-{_as_id(entry)}" if entry else identity
    if len(identity) <= LONGEST_ID:
        return identity
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return f"{identity[: LONGEST_ID - 13]}-{digest}"


def _as_id(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "patch"


def _claims_of_only_installer(claims: Claims, file: Path) -> Claims:
    """The claims. If an import does not install the patch, add the function that does.

    Raises UsageError if several functions could install it.
    """
    try:
        text = read_source(file)
        names = chosen_installer(text)
    except Unreadable:  # a verdict says so
        return claims
    if len(names) > 1:
        got = ", ".join(f"{name} (line {line})" for name, line in names.items())
        commands = " or ".join(f"patchgate gate {display_path(file)}::{name}" for name in names)
        raise UsageError(
            "importing it changes nothing, and several functions install something: choose one",
            where=display_path(file),
            got=got,
            next=commands,
        )
    return _claims_of_part(claims, next(iter(names)), text) if names else claims


def _claims_of_part(claims: Claims, entry: str, text: str) -> Claims:
    """The claims of one entry point. Versions, targets and the symptom are left out if the manifest
    states them for other entry points too.
    """
    try:
        call = read_call(entry)
    except Invalid as fault:
        raise UsageError(
            fault.what, where="PATCH::FUNCTION", got=entry, next='path/to/patch.py::"install(True)"'
        ) from None
    with suppress(Unreadable):  # a verdict says so
        _refuse_missing(text, call)
        if is_scope(text, call):
            return replace(claims, scope=call)
    if claims.apply in ((), (call,)):
        return replace(claims, apply=(call,))
    alone = replace(claims, apply=(call,), title=f"{claims.title}: {call}")
    return replace(alone, applies_to=None, fixed_in=None, targets=None, symptom=None)


def _refuse_missing(text: str, call: str) -> None:
    """Raise UsageError if the file certainly has no function of this name, and Unreadable if the
    file is not Python.
    """
    name = re.split(r"[.(]", call, maxsplit=1)[0].strip()
    if ":" in call.partition("(")[0]:
        return  # a function of another module
    functions = missing_function(text, name)
    if functions is not None:
        there = f"there are {', '.join(functions)}" if functions else "the file has no function"
        alone = "the file alone if its import installs the patch"
        among = f"one of them, or {alone}" if functions else alone
        raise UsageError(
            f"no function `{name}`",
            where="PATCH::FUNCTION",
            got=f"{call}; {there}",
            next=did_you_mean(name, functions) or among,
        )


def backend_entry_points(patch: Patch) -> list[str]:
    """The functions of the patch that its project declares as backends of torch.compile, in
    pyproject.toml, setup.cfg or setup.py.
    """
    path = Path(patch.path)
    for folder in path.parents:
        for name in ("pyproject.toml", "setup.cfg", "setup.py"):
            text = read_lossy(folder / name) if (folder / name).is_file() else ""
            _, _, named = text.partition("torch_dynamo_backends")
            found = re.findall(r"=\s*[\"']?([\w.]+):(\w+)", named)
            if found:
                return [function for module, function in found if _is_module_of(module, path)]
        if (folder / ".git").exists():
            break
    return []


def _is_module_of(module: str, path: Path) -> bool:
    parts = path.with_suffix("").parts if path.stem != "__init__" else path.parent.parts
    return parts[-module.count(".") - 1 :] == tuple(module.split("."))
