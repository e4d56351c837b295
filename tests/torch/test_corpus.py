"""A new case of the corpus is a folder and no code; whatever a hostile one does, torch stays as it was."""

import hashlib
from pathlib import Path

import pytest

from patchgate.corpus.board import Board
from patchgate.corpus.cases import load_case, load_cases
from patchgate.project import ROOT
from patchgate.surface.index import load, releases

SECRET = "PATCHGATE_SECRET"


@pytest.fixture
def board(torch, run, runner):
    return Board(run.rows, runner, [load(version) for version in releases()])


def test_a_new_case_takes_one_folder_and_no_code(board, tmp_path):
    folder = tmp_path / "raises-at-import"
    folder.mkdir()
    (folder / "patch.py").write_text("import torch\n\nraise RuntimeError('no')\n")
    (folder / "corpus.toml").write_text('class = "gate"\n\n[[expect]]\ncode = "PG210"\nat = "raise RuntimeError"\n')
    (case,) = load_cases([tmp_path])
    result = board.judge(case)
    assert (result.outcome, result.found) == ("caught", ("PG210",)), result.faults


@pytest.mark.parametrize("name", ["writes-into-torch", "reads-secrets", "kills-the-server", "deletes-temporary-files"])
def test_a_hostile_patch_harms_nobody(board, run, torch, name, monkeypatch):
    monkeypatch.setenv(SECRET, "not to be seen")
    before = digest(run.rows[torch])
    result = board.judge(load_case(ROOT / "fixtures" / "hostile" / name))
    assert result.right, result.faults
    assert digest(run.rows[torch]) == before


def digest(python):
    """One hash of every Python file of the torch that belongs to an interpreter."""
    (folder,) = Path(python).parents[1].glob("lib/python3*/site-packages/torch")
    told = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        told.update(path.read_bytes())
    return told.hexdigest()
