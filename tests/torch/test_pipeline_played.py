"""The gate's jobs, played from the workflow in a clean clone: plan, judge, and the comment of what
that left.

In the small form pip installs nothing and the gate runs with a row that is there; `-m pipeline`
leaves both alone.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest
import yaml
from play import Machine

from patchgate.inputs.matrix import load_matrix
from patchgate.model.exit_code import exit_code
from patchgate.model.paths import ROOT
from patchgate.runner.run_settings import NAME, load_run, load_verdicts

PATCH = "fixtures/patches/harmless"
SMALL = """\
#!/bin/bash
# What the runner has: python, where pip installs nothing, and patchgate, for which the row is there already.
case "$(basename "$0") $*" in
  "python -I -m pip "*) exit 0 ;;
  "patchgate gate "*"--torch {torch}"*)
    told=("$@"); for at in "${{!told[@]}}"; do
      [ "${{told[at]}}" = --torch ] && unset "told[at]" "told[at+1]"; done
    PYTHONPATH={path} exec {python} -m patchgate gate --row {torch}={row} -n 1 "${{told[@]:1}}" ;;
  "patchgate "*) echo "not what was expected: $*" >&2; exit 2 ;;
  *) PYTHONPATH={path} exec {python} "$@" ;;
esac
"""


@pytest.fixture
def clone(tmp_path):
    subprocess.run(["git", "clone", "-q", ROOT, tmp_path / "clone"], check=True)
    return tmp_path / "clone"


@pytest.fixture
def machine(tmp_path, clone):
    """A runner whose `python` and `patchgate` are the script `shim`, in a workspace of its own."""

    def make(shim):
        for name in ("temp", "shims"):
            (tmp_path / name).mkdir()
        shutil.copytree(clone / PATCH, tmp_path / "workspace" / PATCH)
        for name in ("python", "patchgate"):
            (tmp_path / "shims" / name).write_text(shim)
            (tmp_path / "shims" / name).chmod(0o755)
        return Machine(clone, tmp_path / "workspace", tmp_path / "temp", tmp_path / "shims")

    return make


def judged(machine, *arguments):
    """Plays plan, and judge for the first share of it: the share, and the verdicts that were
    kept.
    """
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "gate.yml").read_text())["jobs"]
    inputs = {"patches": PATCH, "machines": 2, "arguments": "\n".join(arguments)}
    outputs = machine.play(jobs["plan"], {"inputs": inputs})
    (share, *_) = json.loads(outputs["shares"])
    machine.play(jobs["judge"], {"inputs": inputs, "matrix": share, "strategy": {"job-index": 0}})
    (kept,) = machine.kept.values()
    return share, kept / "gate"


def test_the_gate_s_steps_in_a_clean_clone(machine, clone, capfd):
    torch = next(row.torch for row in load_matrix() if "premerge" in row.tags)
    row = os.environ.get(f"PATCHGATE_ROW_{torch.replace('.', '_')}")
    if not row:
        pytest.skip("no torch row: run `nox -s tests`")
    python = sys.executable
    # The requirements of patchgate may be only in the path that this run of the tests was given.
    path = os.pathsep.join(filter(None, (str(clone), os.environ.get("PYTHONPATH"))))
    player = machine(SMALL.format(path=shlex.quote(path), python=python, torch=torch, row=row))
    share, kept = judged(player, "--workload=graph_break", "--device=h200", "--check=kernels")
    assert (share["torch"], share["patches"]) == (torch, PATCH)
    verdicts = load_verdicts(kept)
    assert verdicts, capfd.readouterr()
    assert player.status == exit_code(verdicts)
    assert list(player.kept) == [f"patchgate-{torch}-0"]
    assert player.caches[0] == f"patchgate-uv-Linux-X64-3.12-{torch}"
    told = subprocess.run(
        [python, "-m", "patchgate", "comment", kept], capture_output=True, text=True, cwd=clone
    )
    assert told.stdout.startswith("<!-- patchgate -->\n### ` harmless ` on torch ")


@pytest.mark.pipeline
def test_the_gate_s_steps_as_they_are(machine, clone):
    """Makes an environment of patchgate's own and one row's, in the clone."""
    subprocess.run([sys.executable, "-m", "venv", clone.parent / "venv"], check=True)
    player = machine(
        f'#!/bin/sh\nPATH={clone.parent}/venv/bin:"$PATH" exec {clone.parent}/venv/bin/$(basename '
        '"$0") "$@"\n'
    )
    share, kept = judged(player, "--workload=graph_break", "--device=h200")
    assert player.status == exit_code(load_verdicts(kept))
    assert load_run(kept / NAME).rows.keys() == {share["torch"]}
