"""A new case of the corpus is a folder and no code; whatever a hostile one does, torch stays as it
was.
"""

import shutil
from dataclasses import replace

import pytest

from benchmarks.corpus.cases import load_case, load_cases
from benchmarks.corpus.integrity import Integrity
from benchmarks.corpus.score import score
from benchmarks.corpus.session import CorpusSession
from patchgate.checks.framework.context import CheckContext
from patchgate.checks.framework.find_checks import all_checks
from patchgate.checks.framework.instances import instances_of, verdicts_of
from patchgate.inputs.patch import load_patch
from patchgate.inputs.workloads import workloads_with
from patchgate.lint.index.release import load, releases
from patchgate.model.paths import ROOT
from patchgate.model.policy import Colour
from patchgate.runner.start_server import Servers

SECRET = "PATCHGATE_SECRET"


@pytest.fixture
def session(torch, run, runner):
    # Chosen cells go through the runner: only a whole gate needs the servers themselves.
    return CorpusSession(
        run.rows, runner, [load(version) for version in releases()], Servers({}, {})
    )


def test_a_new_case_takes_one_folder_and_no_code(session, tmp_path):
    folder = tmp_path / "raises-at-import"
    folder.mkdir()
    (folder / "patch.py").write_text("import torch\n\nraise RuntimeError('no')\n")
    (folder / "corpus.toml").write_text(
        'class = "gate"\n\n[[expect]]\ncode = "PG210"\nat = "raise RuntimeError"\n'
    )
    (case,) = load_cases([tmp_path])
    result = score(case, session.judge(case), session.rows)
    assert (result.outcome, result.found) == ("caught", ("PG210",)), result.faults


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name", ["writes-into-torch", "reads-secrets", "kills-the-server", "deletes-temporary-files"]
)
def test_a_hostile_patch_harms_nobody(session, run, torch, name, monkeypatch):
    monkeypatch.setenv(SECRET, "not to be seen")
    integrity = Integrity(run.rows)
    case = load_case(ROOT / "fixtures" / "hostile" / name)
    result = score(case, session.judge(case), session.rows)
    assert result.right, result.faults
    assert integrity.changes() == []


# Each hides what it changes from what is looked at when it is run.
HIDDEN = [
    "runs-a-method-called-exec",
    "hides-del-below-a-condition",
    "names-classes-as-hooks-of-python",
    "brings-a-module-of-pythons-name",
]
WRONG = " + {a}"


@pytest.mark.nightly
@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("is_sound", [False, True])
def test_a_hidden_change_is_red_though_few_workloads_are_measured(
    run, runner, torch, name, is_sound, tmp_path
):
    """Its neighbour hides the same, and computes what torch does."""
    folder = tmp_path / name
    shutil.copytree(ROOT / "fixtures" / "hostile" / name, folder)
    for file in folder.glob("*.py"):
        text = file.read_text()
        file.write_text(text.replace(WRONG, "") if is_sound else text)
    run = replace(run, patch=str(folder))
    context = CheckContext(
        run, load_patch(folder), workloads_with(folder, run.project), replace(runner, run=run)
    )
    assert context.is_unchanged(torch)
    parity = all_checks()["parity"]
    cells = [
        at
        for at in instances_of(parity, context)
        if at.case.workload in context.few_workloads("parity")
    ]
    verdicts = [verdict for at in cells for verdict in verdicts_of(parity, at, context)]
    red = {verdict.code for verdict in verdicts if verdict.colour is Colour.RED}
    assert verdicts
    assert ("PG501" in red, bool(red)) == (not is_sound, not is_sound)


@pytest.mark.parametrize(
    ("name", "absent"), [("what_no_judge_has", ["what_no_judge_has"]), ("json", []), ("this", [])]
)
def test_a_package_that_is_not_installed_is_named_where_the_patch_runs_without_it(
    run, runner, torch, name, absent, tmp_path
):
    patch = tmp_path / "patch.py"
    patch.write_text(f"try:\n    import {name}.x\nexcept ImportError:\n    pass\n")
    context = CheckContext(run, load_patch(patch), {}, runner)
    assert context.apply(torch)["absent"] == absent
