"""The outcome of running a patch, for several checks: did it run, which names did it replace?"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path

from patchgate.checks.framework.blame import Fault, fault_of
from patchgate.checks.framework.find_checks import installing, verdict_of
from patchgate.inputs.manifest import Patch
from patchgate.inputs.project import find_project
from patchgate.inputs.toml import PYPROJECT
from patchgate.model.paths import display_path
from patchgate.model.policy import Kind
from patchgate.model.records import PATCH_RUN, Case, Cause, Command, Failure, Verdict, read_codes
from patchgate.model.serialization import Answer

FAMILY = "gate"
CODES = read_codes("""
PG210 the patch does not run
    Running the patch's module raised, exited, hung, crashed or ran out of memory; or it cannot read
    the version of a build of the release that is judged, such as `2.11.0a0+git1234`.
    Why: Everyone who imports the patch has the same failure; if it fails with a build, everyone
    with a vendor's container or a nightly has it.
    Fix: Read the line that it points to. Time and memory limits: `--time-limit`, `--memory-limit`.
PG228 the patch needs what is not installed
    A module that is not installed decides what the patch does, so a stand-in for it does not do.
    Why: Nothing was judged there, and nothing is held against the patch.
    Fix: Let patchgate install it: `--requires NAME`, or `requires` in the project's table.
    `install = "."` there installs the project with all that it depends on. An interpreter of your
    own (`--row`) must have it.
""")
verdict = partial(verdict_of, FAMILY)
# The most names that a sentence lists.
_NAMED = 4


def replaced_names(patch: Patch, answer: Answer) -> list[str]:
    """The names that running the patch changed. A config option counts only if the patch claims it
    as a target.
    """
    options = [effect for effect in answer.get("effects", ()) if effect["kind"] == "config"]
    names = {name for option in options for name in names_of(option)}
    return sorted([*answer["changed"], *names.intersection(patch.claims.targets or ())])


def names_of(effect: Answer) -> list[str]:
    """The name of what an effect changes, and the older names of a config option."""
    return [effect["name"], *effect["older"]]


def by_package(answer: Answer) -> str:
    """A sentence on the names that the import of the package around the patch changes; empty if
    there are none.
    """
    names = answer.get("by_package") or []
    more = f" and {len(names) - _NAMED} more" * (len(names) > _NAMED)
    listed = f"{', '.join(names[:_NAMED])}{more}"
    return f"importing the package `{answer['package']}` changes {listed}" if names else ""


def does_not_run(case: Case, failure: Failure, patch: Patch, again: Command) -> Verdict:
    """Return PG228 if something is not installed, PG905 if the machine failed, else PG210."""
    place, actual = display_path(failure.where or patch.path), failure.text
    # If torch lacks a device, the package that adds the device is named instead.
    named = (package_of(n, patch) if n.startswith("torch.") else n for n in failure.missing)
    missing = list(filter(None, named))
    if failure.cause is Cause.MISSING or missing:
        return verdict(
            "PG228",
            Kind.UNMEASURED,
            case,
            "",
            "all that it needs is installed",
            actual,
            place,
            item=PATCH_RUN,
            advice=_needs(patch, missing),
            commands=installing(missing),
        )
    if fault_of(None, failure) is Fault.MACHINE:
        return verdict(
            "PG905", Kind.INFRA, case, "", "the module runs", actual, place, item=PATCH_RUN
        )
    return verdict(
        "PG210",
        Kind.REGRESSED,
        case,
        "",
        "the module runs",
        actual,
        place,
        item=PATCH_RUN,
        advice="correct the patch",
        commands=(then(again),),
    )


def package_of(device: str, patch: Patch) -> str:
    """The package that adds a device to torch, such as `torch_npu` for `torch.npu`; empty if the
    project does not require it.
    """
    root = Path(find_project(Path(patch.path)).root)
    stated = [root / file for file in (PYPROJECT, "setup.py", "setup.cfg", "requirements.txt")]
    texts = [file.read_text("utf-8", errors="replace") for file in stated if file.is_file()]
    required = re.compile(rf"\b{device.replace('.', '[-_]')}\b")
    return device.replace(".", "_") if any(map(required.search, texts)) else ""


def _needs(patch: Patch, missing: list[str]) -> str:
    """The advice on the project's setting that installs missing packages."""
    project = find_project(Path(patch.path))
    table = display_path(project.table or Path(project.root, PYPROJECT))
    if missing:
        return f"install what is missing next to torch; `requires` in {table} does it in each run"
    return (
        f'install = "." in [tool.patchgate] of {table}, then with --torch: patchgate installs it '
        "next to torch"
    )


def then(again: Command) -> Command:
    """The last step: the command that repeats the run."""
    return replace(again, when="then")
