"""What a process sees and may do in the strongest sandbox of this machine: tried from within, in a child."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchgate.probe.process import namespaces, sandbox
from patchgate.probe.process.namespaces import without_inner

INSIDE = """
import ctypes, json, os, signal, socket, sys
from patchgate.probe.process import namespaces, sandbox

own, readable, ended = sys.argv[1:4]
home = os.path.dirname(own)
strongest = sandbox.strongest_sandbox(home, own, gpu=False)
namespaces.enter(strongest.namespaces, int(ended))
strongest.confine(f"{home}/root", [own], [readable], tcp=True)

def tried(what, *arguments):
    try:
        found = what(*arguments)
        return sorted(found) if isinstance(found, list) else True
    except OSError as error:
        return os.strerror(error.errno)

libc = ctypes.CDLL(None)
print(json.dumps({
    "missing": strongest.missing(),
    "pid": os.getpid(),
    "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdigit()),
    "networks": [name for _, name in socket.if_nameindex()],
    "shared memory": tried(os.listdir, "/dev/shm"),
    "own": tried(open, f"{own}/file", "w"),
    "temporary": tried(open, "/tmp/file", "w"),
    "nothing": tried(open, "/dev/null", "w"),
    "read": tried(os.listdir, readable),
    "interpreter": tried(open, sys.executable, "rb"),
    "repository": tried(os.listdir, f"{readable}/.git"),
    "link": tried(open, f"{readable}/link"),
    "written": tried(open, f"{readable}/file", "w"),
    "beside": tried(os.listdir, os.path.dirname(readable) + "/other"),
    "home": tried(os.listdir, "/root/.ssh"),
    "passwords": tried(open, "/etc/shadow"),
    "kernel": tried(open, "/proc/sys/vm/overcommit_memory", "w"),
    "device": tried(open, "/dev/kmsg", "w"),
    "other memory": tried(open, "/proc/1/mem", "rb"),
    "user namespace": libc.unshare(0x10000000),
    "mount": libc.mount(b"none", b"/tmp", b"tmpfs", 0, None),
    "parent": tried(os.kill, os.getppid() or 1, signal.SIGTERM),
}), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def inside(tmp_path: Path) -> tuple[dict[str, Any], Path, int, str]:
    """What a confined process reports; the folder that it may write to; its exit code; what its init was told."""
    for name in ("own", "readable/.git", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "readable" / ".git" / "config").write_text("token")
    (tmp_path / "other" / "secret").write_text("token")
    (tmp_path / "readable" / "link").symlink_to(tmp_path / "other" / "secret")
    with open(tmp_path / "ended", "w+b") as ended:
        arguments = [str(tmp_path / name) for name in ("own", "readable")]
        command = [sys.executable, "-c", INSIDE, *arguments, str(ended.fileno())]
        root = str(Path(namespaces.__file__).parents[3])
        done = subprocess.run(
            command, stdout=subprocess.PIPE, pass_fds=[ended.fileno()], env=os.environ | {"PYTHONPATH": root}
        )
        status = os.pread(ended.fileno(), 16, 0).decode()
    found = json.loads(done.stdout)
    if found["missing"]:
        pytest.skip(f"this machine has no {', '.join(found['missing'])}")
    return found, tmp_path, done.returncode, status


def test_a_confined_process_sees_itself_and_writes_what_is_its_own(inside):
    found, folder, _, _ = inside
    assert found["pid"] == 2
    assert (found["processes"], found["networks"], found["shared memory"]) == ([1, 2], ["lo"], [])
    allowed = ("own", "temporary", "nothing", "interpreter")
    assert {name: found[name] for name in allowed} == dict.fromkeys(allowed, True)
    denied = ("written", "link", "beside", "home", "passwords", "kernel", "device", "other memory", "parent")
    refused = {"Permission denied", "Read-only file system", "No such file or directory", "Operation not permitted"}
    assert {found[name] for name in denied} <= refused, found
    assert (found["read"], found["repository"]) == ([".git", "link"], [])
    assert (found["user namespace"], found["mount"]) == (-1, -1)
    assert (folder / "own" / "file").exists()
    assert not (folder / "readable" / "file").exists()


def test_how_it_ended_is_told_by_its_init(inside):
    _, _, code, status = inside
    assert os.WTERMSIG(int(status)) == signal.SIGKILL
    assert code == -signal.SIGKILL & 0xFF


def test_the_first_sandbox_in_which_a_child_can_compile_is_taken(monkeypatch, tmp_path):
    tried = []

    def is_tried(one: sandbox.Sandbox, home: str, works: object) -> bool:
        tried.append((one.namespaces, one.reads))
        return one.namespaces in ((), namespaces.LEVELS[3]) and not one.reads

    monkeypatch.setattr(sandbox, "_tried", is_tried)
    monkeypatch.setattr(sandbox, "version", lambda: 4)
    found = sandbox.strongest_sandbox(str(tmp_path), "", gpu=False)
    assert (found.namespaces, found.landlock, found.reads) == (namespaces.LEVELS[3], 4, False)
    assert found.missing() == ["mount", "pid", "reads"]
    # First whether it can compile at all; then all that confines its reading.
    assert tried[:2] == [((), False), (namespaces.LEVELS[0], True)]


def test_only_the_outermost_folders_are_kept():
    assert without_inner(["/usr/lib", "/usr", "/usrlocal", "/opt/a/b", "/opt/a"]) == ["/usr", "/opt/a", "/usrlocal"]
    assert without_inner(["/usr", "/"]) == ["/"]
