"""The sandbox on a machine that lacks something, as `benchmarks/corpus/machine_without.py` makes
one of this.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from patchgate.probe.process import sandbox

ROOT = Path(__file__).parents[4]
FIND = """
import json, sys, tempfile
from patchgate.probe.process.sandbox import strongest_sandbox
home = tempfile.mkdtemp(dir=sys.argv[1])
print(json.dumps(strongest_sandbox(home, home, gpu=False).report()))
"""


def found_without(folder: Path, *missing: str) -> dict[str, object]:
    """The sandbox that is found on this machine without some of what it has."""
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "corpus" / "machine_without.py"),
        *missing,
        "--",
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, sys.executable, "-c", FIND, str(folder)],
        env=environment,
        capture_output=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def test_each_mechanism_is_used_where_the_other_is_missing(tmp_path):
    here = found_without(tmp_path)
    assert here["landlock"] == sandbox.version()
    assert found_without(tmp_path, "landlock") == here | {
        "landlock": 0,
        "reads": "mount" in here["namespaces"],
    }
    assert found_without(tmp_path, "namespaces") == here | {
        "namespaces": [],
        "reads": sandbox.version() > 0,
    }


def test_where_there_is_nothing_a_child_still_runs_and_that_is_reported(tmp_path):
    nothing = found_without(tmp_path, "landlock", "namespaces")
    assert nothing == {"namespaces": [], "landlock": 0, "reads": False}


@pytest.mark.parametrize("missing", [("landlock",), ("namespaces",)])
def test_what_is_refused_is_refused_to_every_child(missing):
    tell = (
        "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', "
        "sys.argv[1]]).returncode)"
    )
    call = "import ctypes; l = ctypes.CDLL(None); exit(0 if l.syscall(444, None, 0, 1) > 0 else 1)"
    if missing == ("namespaces",):
        call = "import ctypes; exit(0 if ctypes.CDLL(None).unshare(0x8000000) == 0 else 1)"
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "corpus" / "machine_without.py"),
        *missing,
        "--",
        sys.executable,
        "-c",
        tell,
        call,
    ]
    assert subprocess.run(command).returncode == 1


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_leaves_no_folder_and_its_exit_code_is_passed_on():
    script = str(ROOT / "benchmarks" / "corpus" / "machine_without.py")
    command = [
        sys.executable,
        script,
        "root",
        "--",
        "/bin/sh",
        "-c",
        "touch $HOME/made; exit $(($(id -u) % 100))",
    ]
    # Pytest's own folders, and those of a run, are closed to other users.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        done = subprocess.run(
            command, env=os.environ | {"TMPDIR": folder}, stderr=subprocess.PIPE, text=True
        )
        assert (done.returncode, done.stderr) == (65534 % 100, "")
        assert os.listdir(folder) == []
    gone = subprocess.run(
        [sys.executable, script, "--", "/no/such/program"], stderr=subprocess.PIPE, text=True
    )
    assert gone.returncode == 127
    assert "/no/such/program" in gone.stderr
