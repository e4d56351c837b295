"""No false alarm for a real name: every name of every module of a row, looked up in the index."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from patchgate.lint.index.records import in_extension
from patchgate.lint.index.release import load, releases
from patchgate.lint.interpret.loaded_modules import COMPUTED, PACKAGES
from patchgate.lint.interpret.references import Presence
from patchgate.lint.interpret.torch_names import look_up
from patchgate.lint.interpret.values import Symbol
from tests.torch.conftest import ROWS

# Names that the index calls missing though they are there, and why.
EXPLAINED = {
    f"torch._dynamo.guards.{name}": "left over from `:=` in a comprehension (from 2.12 on)"
    for name in ("_method", "_params", "handler")
}


def test_no_name_that_is_there_is_called_missing(torch: str) -> None:
    if torch not in releases():
        pytest.skip(f"{torch} is not indexed")
    real = names_of(ROWS[torch], sorted(load(torch).modules()))
    assert len(real) > 500
    assert [each for each in missing(torch, real) if each not in EXPLAINED] == []


def test_what_import_torch_loads_is_known(torch: str) -> None:
    if torch not in releases():
        pytest.skip(f"{torch} is not indexed")
    code = "import sys, torch; print(*sys.modules)"
    real = set(
        subprocess.run(
            [str(ROWS[torch]), "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    known = load(torch).loaded_with(frozenset())
    assert len(known) > 300
    assert known <= real
    indexed = {name for name in load(torch).index.modules if not in_extension(name)}
    assert len((indexed & real) - known) <= 5


def test_what_the_packages_of_a_patch_load_is_known(torch: str) -> None:
    code = f"import sys, {', '.join(PACKAGES)}; print(*sys.modules)"
    shown = subprocess.run(
        [str(ROWS[torch]), "-c", code], capture_output=True, text=True, check=True
    )
    ours = {name for name in load(torch).index.modules if name.startswith(PACKAGES[1:])}
    unknown = ours & set(shown.stdout.split()) - load(torch).loaded_with(frozenset(PACKAGES))
    assert [name for name in sorted(unknown) if not name.startswith(COMPUTED)] == []


def test_a_name_that_is_not_there_is_called_missing() -> None:
    modules = [
        "torch._inductor.ir",
        "torch.utils._pytree",
        "torch.cuda",
        "torch.compiler",
        "torch._ops",
    ]
    modules += ["torch.library", "triton", "triton.runtime", "triton.compiler"]
    assert missing("2.11.0", {name: ["no_such_name"] for name in modules}) == [
        f"{name}.no_such_name" for name in modules
    ]


def names_of(python: str, modules: list[str]) -> dict[str, list[str]]:
    script = Path(__file__).with_name("names_dump.py")
    done = subprocess.run(
        [python, str(script)], input=json.dumps(modules), capture_output=True, text=True, check=True
    )
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def missing(torch: str, real: dict[str, list[str]]) -> list[str]:
    release = load(torch)
    return [
        f"{module}.{name}"
        for module, names in real.items()
        for name in names
        if look_up(release, Symbol(dotted=module, kind="module"), name)[0] is Presence.MISSING
    ]
