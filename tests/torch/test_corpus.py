"""A new case of the corpus is a folder and no code; whatever a hostile one does, torch stays as it was."""

import pytest

from benchmarks.corpus.cases import load_case, load_cases
from benchmarks.corpus.integrity import Integrity
from benchmarks.corpus.score import score
from benchmarks.corpus.session import CorpusSession
from patchgate.lint.index.release import load, releases
from patchgate.model.paths import ROOT
from patchgate.runner.start_server import Servers

SECRET = "PATCHGATE_SECRET"


@pytest.fixture
def session(torch, run, runner):
    # Chosen cells go through the runner: only a whole gate needs the servers themselves.
    return CorpusSession(run.rows, runner, [load(version) for version in releases()], Servers({}, {}))


def test_a_new_case_takes_one_folder_and_no_code(session, tmp_path):
    folder = tmp_path / "raises-at-import"
    folder.mkdir()
    (folder / "patch.py").write_text("import torch\n\nraise RuntimeError('no')\n")
    (folder / "corpus.toml").write_text('class = "gate"\n\n[[expect]]\ncode = "PG210"\nat = "raise RuntimeError"\n')
    (case,) = load_cases([tmp_path])
    result = score(case, session.judge(case), session.rows)
    assert (result.outcome, result.found) == ("caught", ("PG210",)), result.faults


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["writes-into-torch", "reads-secrets", "kills-the-server", "deletes-temporary-files"])
def test_a_hostile_patch_harms_nobody(session, run, torch, name, monkeypatch):
    monkeypatch.setenv(SECRET, "not to be seen")
    integrity = Integrity(run.rows)
    case = load_case(ROOT / "fixtures" / "hostile" / name)
    result = score(case, session.judge(case), session.rows)
    assert result.right, result.faults
    assert integrity.changes() == []
