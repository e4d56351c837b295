"""`pytest --patchgate PATCH`: an item for each cell, red where the cell is; and nothing else before
it is asked for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# In place of torch: a check whose verdict is in the patch, and no server.
_STAND_IN = """
import contextlib
from dataclasses import replace

from patchgate.checks.framework.find_checks import NothingToJudge, all_checks
from patchgate.model.records import Case, Kind, Verdict
from patchgate.runner import run_settings
from patchgate.runner.start_server import Servers
from patchgate.runs import gate


def ask(context, at):
    with open("judged", "a") as file:
        file.write(f"{at.case.torch}\\n")
    kind = Kind(context.patch.source.split("#")[1].split()[0])
    if at.case.torch == "2.12.1":
        raise NothingToJudge("said by another")
    return [Verdict(kind=kind, code="PG301", check="kernels", case=at.case, item="x", fact="loads", actual="6")]


check = replace(all_checks()["kernels"], ask=ask, axes=("torch",), first=True, unchanged="all")
gate.all_checks = lambda: {"kernels": check}
gate.running_servers = lambda rows: contextlib.nullcontext(Servers({}, {}))
run_settings.own_environment = lambda: {"2.11.0": "python", "2.12.1": "python"}


def test_of_somebody():
    pass
"""


def pytest_in(folder: Path, *options: str) -> tuple[int, str]:
    """The exit status of a pytest that is started as a user would, with what it printed."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *options]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite of somebody, beside a patch of theirs."""
    (tmp_path / "conftest.py").write_text(_STAND_IN)
    (tmp_path / "test_own.py").write_text("def test_of_somebody(): pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


@pytest.mark.parametrize("options", [("-p", "no:xdist"), ("-n", "2")])
@pytest.mark.parametrize(
    ("kind", "told"), [("pass", "PASSED"), ("regressed", "FAILED"), ("infra", "SKIPPED")]
)
def test_each_cell_is_an_item_beside_the_suite_and_all_are_judged_once(
    suite: Path, kind: str, told: str, options: tuple[str, ...]
) -> None:
    (suite / "mine.py").write_text(f"# {kind}\n")
    status, printed = pytest_in(suite, *options, "--patchgate", "mine.py")
    assert status == int(told == "FAILED"), printed
    assert "PASSED test_own.py::test_of_somebody" in printed
    counts = {"PASSED": "2 passed, 1 skipped", "FAILED": "1 failed, 1 passed, 1 skipped"}
    assert counts.get(told, "1 passed, 2 skipped") in printed
    if told == "FAILED":
        assert "PG301 x loads: 6" in printed
    assert sorted((suite / "judged").read_text().split()) == ["2.11.0", "2.12.1"]
    left = json.loads((suite / ".patchgate" / "pytest" / "verdicts.json").read_text())
    assert [each["kind"] for each in left["verdicts"]] == [kind]


def test_the_next_session_judges_anew(suite: Path) -> None:
    for kind, code in (("pass", 0), ("regressed", 1)):
        (suite / "mine.py").write_text(f"# {kind}\n")
        assert pytest_in(suite, "--patchgate", "mine.py")[0] == code


def test_a_patch_that_is_none_is_bad_usage(suite: Path) -> None:
    status, printed = pytest_in(suite, "--patchgate", "none.py")
    assert (status, "Traceback" in printed) == (pytest.ExitCode.USAGE_ERROR, False)
    assert "none.py: no such patch" in printed


def test_until_it_is_asked_for_pytest_imports_nothing_of_patchgate_but_the_plugin(
    tmp_path: Path,
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    lines = "import json, sys\n\n\ndef test_modules():\n    print(json.dumps([*sys.modules]))\n"
    (tmp_path / "test_bare.py").write_text(lines)
    status, printed = pytest_in(tmp_path, "-s")
    (line,) = [
        line for line in printed.splitlines() if "[" in line and "patchgate.runs.plugin" in line
    ]
    modules = json.loads(line[line.index("[") : line.rindex("]") + 1])
    assert status == 0
    own = {name for name in modules if name.partition(".")[0] == "patchgate"}
    assert own == {"patchgate", "patchgate.runs", "patchgate.runs.plugin"}
