"""A process in the strongest sandbox of this machine tries from within, in a child, what it may see
and do.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
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
    "home": tried(os.listdir, os.path.expanduser("~/.ssh")),
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


ROOT = Path(namespaces.__file__).parents[3]
REFUSED = {
    "Permission denied",
    "Read-only file system",
    "No such file or directory",
    "Operation not permitted",
}
#: Parts that this machine is to lack -> the attempts that are not refused then.
WAYS: dict[tuple[str, ...], set[str]] = {
    (): set(),
    ("landlock",): {"parent"},  # a signal to its own init, which ignores it
    ("namespaces",): set(),
    ("root",): set(),
    ("root", "landlock"): {"parent"},
    ("root", "namespaces"): set(),
}


@pytest.fixture
def inside(tmp_path: Path) -> Callable[..., tuple[dict[str, Any], int, str]]:
    """Runs a confined process; what it reports, its exit code, and what its init was told."""

    def run(*missing: str) -> tuple[dict[str, Any], int, str]:
        for folder in (
            tmp_path,
            *tmp_path.parents,
        ):  # an ordinary user passes through those that pytest has made
            if folder == Path(tempfile.gettempdir()):
                break
            folder.chmod(folder.stat().st_mode | 0o755)
        for name in ("own", "readable/.git", "other", "root", "home/.ssh"):
            (tmp_path / name).mkdir(parents=True)
        for name in ("", "own", "root"):
            (tmp_path / name).chmod(0o777)
        (tmp_path / "readable" / ".git" / "config").write_text("token")
        (tmp_path / "other" / "secret").write_text("token")
        (tmp_path / "home" / ".ssh" / "key").write_text("token")
        (tmp_path / "readable" / "link").symlink_to(tmp_path / "other" / "secret")
        # Root's own interpreter may lie in its home, where nobody else can read.
        python = "/usr/bin/python3" if "root" in missing else sys.executable
        with open(tmp_path / "ended", "w+b") as ended:
            command = [
                sys.executable,
                str(ROOT / "benchmarks" / "corpus" / "machine_without.py"),
                *missing,
                "--",
                python,
                "-c",
                INSIDE,
            ]
            arguments = [str(tmp_path / name) for name in ("own", "readable")]
            done = subprocess.run(
                [*command, *arguments, str(ended.fileno())],
                capture_output=True,
                pass_fds=[ended.fileno()],
                env=os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path / "home")},
            )
            status = os.pread(ended.fileno(), 16, 0).decode()
        if not done.stdout and missing:
            pytest.skip(f"no process could be started there: {done.stderr.decode()[-200:]}")
        found = json.loads(done.stdout)
        if found["missing"] and not missing:
            pytest.skip(f"this machine has no {', '.join(found['missing'])}")
        return found, done.returncode, status

    return run


def test_a_confined_process_sees_itself_and_writes_what_is_its_own(inside, tmp_path):
    found, _, _ = inside()
    is_drawn = os.access("/proc/sys/kernel/ns_last_pid", os.W_OK)
    assert 1000 < found["pid"] < 10_000 if is_drawn else found["pid"] == 2
    assert found["processes"] == [1, found["pid"]]
    assert (found["networks"], found["shared memory"]) == (["lo"], [])
    assert (found["temporary"], found["repository"]) == (True, [])
    assert (found["user namespace"], found["mount"]) == (-1, -1)
    assert (tmp_path / "own" / "file").exists()
    assert not (tmp_path / "readable" / "file").exists()


@pytest.mark.parametrize("missing", WAYS)
def test_what_is_not_its_own_is_refused_by_what_is_left_of_a_sandbox(inside, missing):
    if "root" in missing and os.getuid():
        pytest.skip("only root can become an ordinary user")
    found, _, _ = inside(*missing)
    allowed = ("own", "nothing", "interpreter")
    assert {name: found[name] for name in allowed} == dict.fromkeys(allowed, True), found
    denied = (
        "written",
        "link",
        "beside",
        "home",
        "passwords",
        "kernel",
        "device",
        "other memory",
        "parent",
    )
    assert {name for name in denied if found[name] not in REFUSED} == WAYS[missing], found


def test_how_it_ended_is_reported_by_its_init(inside):
    _, code, status = inside()
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
    assert without_inner(["/usr/lib", "/usr", "/usrlocal", "/opt/a/b", "/opt/a"]) == [
        "/usr",
        "/opt/a",
        "/usrlocal",
    ]
    assert without_inner(["/usr", "/"]) == ["/"]
