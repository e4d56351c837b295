"""The pipeline names no torch release: its rows come from ci/matrix.toml, through nox."""

import json
import subprocess
import sys

from patchgate.matrix import load_matrix
from patchgate.project import ROOT

WORKFLOW = ROOT / ".github" / "workflows" / "gate.yml"


def test_rows_are_those_of_the_matrix_with_the_tag():
    sessions = [{"call_spec": {"torch": row.torch}, "tags": list(row.tags)} for row in load_matrix()]
    for tag in ("premerge", "nightly"):
        command = [sys.executable, str(ROOT / "ci" / "rows.py"), tag]
        told = subprocess.run(command, input=json.dumps(sessions), capture_output=True, text=True, check=True).stdout
        assert json.loads(told) == [row.torch for row in load_matrix() if tag in row.tags]


def test_the_pipeline_names_no_release():
    text = WORKFLOW.read_text("utf-8")
    assert "ci/rows.py" in text
    assert not [row.torch for row in load_matrix() if row.torch in text]
