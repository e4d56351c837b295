"""A patch may ask for Triton's driver as it is imported: it meets that of the case, whatever this
machine has.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchgate.inputs.devices import load_profile
from patchgate.inputs.workloads import load_workloads
from patchgate.model.serialization import Answer
from patchgate.runner.client import Runner, request_for

FORMS = {
    "by its path": (
        "import triton\nassert triton.runtime.driver.active.get_current_target().arch == 90\n"
    ),
    "by its package": (
        "from triton.runtime import driver\nassert driver.active.get_current_device() == 0\n"
    ),
    "by its module": (
        "from triton.runtime.driver import driver\ndriver.reset_active()\n"
        "of = driver.default.utils.get_device_properties(0)\nassert of['multiprocessor_count'] == "
        "132\n"
    ),
}


@pytest.fixture
def ask(torch: str, runner: Runner, tmp_path: Path) -> Callable[..., Answer]:
    def put(source: str, do: str, device: str, **more: Any) -> Answer:
        patch = tmp_path / "patch.py"
        patch.write_text(source)
        request = request_for(load_workloads()["pointwise"], load_profile(device), None)
        return runner.ask(torch, do, **request | {"patch": str(patch)} | more)

    return put


@pytest.mark.parametrize("device", ["h200", "cpu"])
@pytest.mark.parametrize("form", FORMS)
def test_a_patch_that_asks_for_the_driver_is_imported_for_every_simulated_device(
    ask: Callable[..., Answer], form: str, device: str
) -> None:
    answer = ask(FORMS[form], "observe", device)
    assert answer.get("failure") is None and "unmeasured" not in answer["facts"].get("compiles", {})


@pytest.mark.parametrize("form", FORMS)
def test_a_patch_that_is_the_first_to_import_triton_meets_the_same_driver(
    torch: str, runner: Runner, tmp_path: Path, form: str
) -> None:
    patch = tmp_path / "patch.py"
    patch.write_text(FORMS[form])
    about = {"names": [], "variables": [], "holders": [], "version": torch}
    answer = runner.ask(
        torch, "new interpreter", patch=str(patch), profile=load_profile("h200"), **about
    )
    assert answer == {"missing": [], "dead": [], "later": []}


def test_what_no_profile_has_is_not_guessed(ask: Callable[..., Answer]) -> None:
    launching = "import triton\ntriton.runtime.driver.active.launcher_cls\n"
    assert (
        "needs a real device: a kernel is run on it (Triton's `launcher_cls`)"
        in ask(launching, "observe", "cpu")["failure"]["signature"]
    )


def test_the_driver_has_gone_when_the_patch_has_been_imported(ask: Callable[..., Answer]) -> None:
    later = "import triton\nfrom torch._inductor.graph import GraphLowering\n"
    later += "codegen = GraphLowering.codegen\ndef after(self):\n    triton.runtime.driver.active\n"
    later += "    return codegen(self)\nGraphLowering.codegen = after\n"
    assert "failure" not in ask(later, "observe", "h200"), (
        "on a simulated device it is there while it compiles"
    )
    assert "0 active drivers" in ask(later, "observe", "cpu")["failure"]["signature"]


@pytest.mark.parametrize("form", FORMS)
def test_the_names_on_the_way_to_the_driver_exist(
    torch: str, runner: Runner, tmp_path: Path, form: str
) -> None:
    """Also where a package has put an object under the name of one of its modules."""
    patch = tmp_path / "patch.py"
    patch.write_text(FORMS[form])
    found = runner.ask(
        torch, "surface", patch=str(patch), profile=load_profile("h200"), targets=[]
    )["findings"]
    assert not [one for one in found if one["code"] != "PG105"]
