"""What running a patch did, for several checks: did it run, what did it replace, is the release claimed?"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from patchgate.checks.framework.blame import Fault, fault_of
from patchgate.checks.framework.find_checks import verdict_of
from patchgate.inputs.manifest import Patch
from patchgate.model.paths import display_path
from patchgate.model.records import Case, Cause, Command, Failure, Kind, Verdict, read_codes

FAMILY = "gate"
CODES = read_codes("""
PG210 the patch does not run
    Running the patch's module raised, exited, hung, crashed or ran out of memory.
    Why: Everyone who imports the patch has the same failure.
    Fix: Read the line that it points to. Time and memory limits: `--time-limit`, `--memory-limit`.
""")
verdict = partial(verdict_of, FAMILY)
# What running the patch does on a release where it does nothing.
NOT_APPLIED = "nothing: the patch does not apply"


def replaced_names(patch: Patch, answer: Mapping[str, Any]) -> list[str]:
    """What running the patch changed; a config option counts when it is one of its targets."""
    options = (effect["name"] for effect in answer.get("effects", ()) if effect["kind"] == "config")
    return sorted([*answer["changed"], *(name for name in options if name in (patch.claims.targets or ()))])


def does_not_run(case: Case, failure: Failure, patch: Patch, again: Command) -> Verdict:
    """PG210, or PG905 when it was the machine that failed."""
    place = display_path(failure.where) if failure.where else display_path(patch.path)
    actual = failure.text
    # The patch has run by then: `compare` is our own step.
    is_ours = failure.cause is Cause.HUNG and failure.stage == "compare"
    if is_ours or fault_of(None, failure) is Fault.MACHINE:
        return verdict("PG905", Kind.INFRA, case, "", "the module runs", actual, place, item="run")
    return verdict(
        "PG210",
        Kind.REGRESSED,
        case,
        "",
        "the module runs",
        actual,
        place,
        item="run",
        advice=_advice(failure, patch),
        commands=(then(again),),
    )


def _advice(failure: Failure, patch: Patch) -> str:
    manifest = display_path(patch.manifest or Path(patch.path).with_suffix(".toml"))
    missing = re.search(r"^\w+: No module named '([\w.]+)'(?:, nor ([\w., ]+))?", failure.signature)
    if missing is not None and missing[1].split(".")[0] not in ("torch", "triton"):
        names = [missing[1], *(missing[2] or "").split(", ")]
        return (
            "if the module is needed: `path`, `requires` or `install` in the project's table; if not:"
            f" stubs = {json.dumps([name for name in names if name])} in {manifest}"
        )
    package = _package_that_raises(failure, patch)
    if package:
        return f'its package cannot be imported here: stubs = ["{package}"] in {manifest} replaces it'
    if patch.claims.stubs and failure.raised_at:
        stubs = ", ".join(f"`{name}`" for name in patch.claims.stubs)
        return f"if it needs more than a stub of {stubs}: `requires` or `install` in the table; if not: correct it"
    return "correct the patch"


def _package_that_raises(failure: Failure, patch: Patch) -> str:
    """The dotted name of a package around the patch whose `__init__.py` raised; "" where it was something else."""
    file = Path((failure.raised_at or "").rpartition(":")[0])
    if file.name != "__init__.py" or file.parent not in Path(patch.path).absolute().parents:
        return ""
    names = [file.parent.name]
    for folder in file.parent.parents:
        if not (folder / "__init__.py").is_file():
            break
        names.append(folder.name)
    return ".".join(reversed(names))


def then(again: Command) -> Command:
    """The command that repeats a run, as the last step."""
    return replace(again, when="then")
