"""Settings that some work leaves changed -> PG208, red or a note."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchgate.checks.framework.settings_left import settings_left
from patchgate.inputs.patch import load_patch
from patchgate.model.policy import Kind
from patchgate.model.records import Case

CASE = Case(torch="2.11.0", patch="p")
OF_A_COMPILE = ("config", "environment", "python")


@pytest.mark.parametrize(
    ("setting", "manifest", "noted", "kinds"),
    [
        ("process umask", None, None, [Kind.REGRESSED]),
        ("python decimal", None, None, [Kind.WARNING]),
        ("python decimal", "", None, [Kind.REGRESSED]),
        ("python decimal", 'effects = ["python decimal"]', None, []),
        ("python decimal", 'effects = ["python"]', None, []),
        ("state default_dtype", None, None, [Kind.WARNING]),
        ("state default_dtype", None, OF_A_COMPILE, [Kind.REGRESSED]),
        ("state random_seed", None, None, [Kind.REGRESSED]),
        ("config torch._inductor.config.debug", None, OF_A_COMPILE, [Kind.WARNING]),
    ],
)
def test_a_changed_setting_is_red_unless_claimed(tmp_path, setting, manifest, noted, kinds):
    path = write_patch(tmp_path, manifest)
    more = {} if noted is None else {"noted": noted}
    found = [*settings_left(CASE, load_patch(path), "a compile", [setting], "patch.py:1", **more)]
    assert [each.kind for each in found] == kinds
    assert all(each.code == "PG208" and setting in each.fact for each in found)


def test_no_changed_setting_is_no_verdict(tmp_path):
    patch = load_patch(write_patch(tmp_path, None))
    assert [*settings_left(CASE, patch, "a compile", [], "patch.py:1")] == []


def write_patch(folder: Path, manifest: str | None) -> Path:
    """A patch that changes nothing, with this text behind the title of its manifest."""
    path = folder / "p.py"
    path.write_text("import torch\n")
    if manifest is not None:
        (folder / "p.toml").write_text(f'title = "A patch"\n{manifest}\n')
    return path
