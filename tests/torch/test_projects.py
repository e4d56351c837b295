"""Patches as projects have them: a module of a package, run once and under its own name; a function called later."""

from __future__ import annotations

from typing import Any

import pytest

from patchgate.inputs.devices import load_profile
from patchgate.model.paths import ROOT
from patchgate.runner.client import Runner

ENGINE = ROOT / "fixtures" / "projects" / "serving" / "engine"
TARGET = "torch._inductor.ir.StorageBox.should_realize_on_reuse"


def applied(runner: Runner, torch: str, file: str, install: str | None = None) -> dict[str, Any]:
    profile, path = load_profile("h200"), str(ENGINE / file)
    return runner.ask(torch, "apply", patch=path, scope=None, install=install, version=torch, profile=profile)


def test_a_module_of_a_package_is_run_once_although_its_package_imports_it_first(torch: str, runner: Runner) -> None:
    answer = applied(runner, torch, "env_override.py")
    assert "failure" not in answer, answer
    assert answer["changed"] == [TARGET]
    assert answer["nested"] == []


@pytest.mark.parametrize(
    ("install", "changed"),
    [
        (None, []),
        ("Patches.install(False, name='cost')", []),
        ("Patches.install(True, name='cost')", [TARGET]),
        ("engine.late:Patches.install(True, name='cost')", [TARGET]),
    ],
)
def test_a_patch_that_a_project_calls_later_is_installed_by_what_its_manifest_names(
    torch: str, runner: Runner, install: str | None, changed: list[str]
) -> None:
    # Importing the package has run its other patch; what this one replaces is another function.
    answer = applied(runner, torch, "late.py", install)
    assert "failure" not in answer, answer
    assert bool(answer["replacements"].get(TARGET)) is bool(changed)


def test_what_installs_a_patch_and_is_not_there_is_the_failure_of_the_patch(torch: str, runner: Runner) -> None:
    failure = applied(runner, torch, "late.py", "instal()")["failure"]
    assert failure["cause"] == "raised"
    assert "instal" in failure["signature"]
