"""Gives a child its own namespaces of users, mounts, processes, System V's memory and networks, if
the kernel offers them.

A child has a root with only the paths that it may read or write; it sees no other process, and no
network but a loopback. bubblewrap does this for a program that it starts; a forked child must do it
itself.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

# Flags of linux/sched.h and linux/mount.h, and system calls.
_FLAGS = {
    "user": 0x10000000,
    "mount": 0x20000,
    "pid": 0x20000000,
    "ipc": 0x8000000,
    "net": 0x40000000,
}
_NOSUID_NODEV, _BIND, _PRIVATE, _READ_ONLY, _RECURSIVE, _DETACH = 2 | 4, 4096, 1 << 18, 1, 16384, 2
_PIVOT_ROOT, _MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 155, 442, -100, 0x8000
_SIOCSIFFLAGS, _UP = 0x8914, 0x41
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
#: Levels from the strongest to none. Root may enter the other namespaces without one of users.
LEVELS: tuple[tuple[str, ...], ...] = (
    tuple(_FLAGS),
    ("mount", "pid", "ipc", "net"),
    ("user", "mount", "ipc", "net"),
    ("user", "ipc", "net"),
    (),
)
#: Folders that every program may write to: a child gets empty ones.
SHARED = ("/tmp", "/dev/shm")
# The size of each of these folders, in bytes.
_SHARED_BYTES = 256 << 20
# The kernel's file with a namespace's last process number; how many numbers a draw chooses from.
_LAST_PROCESS, _PROCESSES = Path("/proc/sys/kernel/ns_last_pid"), 8000
# The most links on the way to one path, as in Linux.
_LINKS = 40
#: The C library; `libc.syscall` returns the kernel's result.
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def system_call(number: int, *arguments: object) -> int:
    """Make a system call, and return the kernel's result."""
    return int(libc.syscall(ctypes.c_long(number), *arguments))


def check(result: int, call: str) -> None:
    """Raise the OSError of a failed call of the C library."""
    if result != 0:
        raise OSError(ctypes.get_errno(), call)


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Have the kernel make this process the parent of orphaned descendants."""
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def close_all_but(*kept: int) -> None:
    """Close every file descriptor of this process except these and the standard ones."""
    first = 3
    for descriptor in sorted(kept):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))


def enter(level: Sequence[str], ended: int | None) -> None:
    """Enter new namespaces. With a namespace of processes, return in the only child of its init.

    The caller and init wait for that child and end with its status; init writes the status to the
    file descriptor `ended`. Raises OSError if the kernel refuses.
    """
    if not level:
        return
    user, group = os.getuid(), os.getgid()
    check(libc.unshare(sum(_FLAGS[name] for name in level)), "unshare")
    if "user" in level:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        # No namespace of users may be made inside: its root could change these mounts.
        with suppress(OSError):
            Path("/proc/sys/user/max_user_namespaces").write_text("0")
    if "net" in level:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as loopback:
            fcntl.ioctl(loopback, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _UP))
    if "pid" in level:
        # The signal asks the innermost process for its traceback; the outer processes ignore it.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        for is_init in (False, True):
            if is_init:
                _draw_next_process()
            pid = os.fork()
            if pid:
                _await(pid, ended if is_init else None)
            end_with_parent()


def _draw_next_process() -> None:
    """Give the next process of this namespace a random number of four digits. Without this, each
    child is process 2, and a cache key that contains the number looks the same in each.
    """
    with suppress(OSError):  # a container may mount /proc/sys read-only
        drawn = int.from_bytes(os.urandom(4), "little") % _PROCESSES
        _LAST_PROCESS.write_text(str(1000 + drawn))


def _await(pid: int, ended: int | None) -> NoReturn:
    """Wait for the process `pid`, reap others that end before it, and exit with its status."""
    libc.prctl(_PR_SET_DUMPABLE, 0)  # processes inside must not see its memory
    while True:
        found, status = os.waitpid(-1, 0)
        if found == pid:
            if ended is not None:
                os.pwrite(ended, str(status).encode(), 0)
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def change_root(
    base: str,
    writable: Iterable[str],
    readable: Iterable[str],
    level: Sequence[str],
    known: Mapping[str, str],
) -> None:
    """Change to a new root in this process's own mount namespace. The root has only these paths,
    all read-only except for `writable`.

    The root is made over the folder `base`, with the links that are `known`. Paths that do not
    exist, or that this user cannot reach, are left out.
    """
    _mount(b"none", "/", b"", _RECURSIVE | _PRIVATE)
    links = dict(known)
    writes = [resolved(path, links) for path in writable]
    kernel = ["/sys"] if "pid" in level else ["/sys", "/proc"]
    reads = [resolved(path, links) for path in (*kernel, *readable)]
    held = [(path, _held(path)) for path in sorted({*writes, *without_inner(reads)}, key=len)]
    _mount(b"none", base, b"tmpfs", _NOSUID_NODEV, "mode=755")
    if held[0][0] == "/":  # everything may be read, except shared folders and devices
        _bind(held.pop(0)[1], f"{base}/")
    # In a shared folder, a file opens for writing only if its owner is the opener or the folder's.
    for place, mode in (("/dev", "755"), *((place, "1777") for place in SHARED)):
        os.makedirs(base + place, exist_ok=True)
        _mount(b"none", base + place, b"tmpfs", _NOSUID_NODEV, f"mode={mode},size={_SHARED_BYTES}")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"{base}/dev/{name}")
    for link, target in links.items():
        with suppress(FileExistsError):
            os.makedirs(os.path.dirname(base + link), exist_ok=True)
            os.symlink(target, base + link)
    for path, handle in held:
        _bind(handle, base + path)
        if os.path.isdir(f"{base}{path}/.git"):  # a runner of CI leaves its token there
            _mount(b"none", f"{base}{path}/.git", b"tmpfs", _NOSUID_NODEV)
    if "pid" in level:
        os.makedirs(f"{base}/proc", exist_ok=True)
        _mount(b"proc", f"{base}/proc", b"proc", _NOSUID_NODEV)
    _set_read_only(base, True)
    for path in (*SHARED, *writes):
        _set_read_only(base + path, False)
    os.chdir(base)
    check(system_call(_PIVOT_ROOT, b".", b"."), "pivot_root")
    check(libc.umount2(b".", _DETACH), "umount2")
    os.chdir("/")


def resolved(path: str, links: dict[str, str]) -> str:
    """The real place of a path; the links on the way to it are added to `links`."""
    at, rest = "", [part for part in os.path.abspath(path).split("/") if part]
    for _ in range(_LINKS):
        while rest and not os.path.islink(f"{at}/{rest[0]}"):
            at += f"/{rest.pop(0)}"
        if not rest:
            break
        link = f"{at}/{rest.pop(0)}"
        links[link] = os.readlink(link)
        inside = os.path.normpath(os.path.join(at or "/", links[link]))
        at, rest = "", [*filter(None, inside.split("/")), *rest]
    return at or "/"


def without_inner(paths: Iterable[str]) -> list[str]:
    """The paths that are not below another of these paths."""
    outer: list[str] = []
    for path in sorted(set(paths), key=len):
        if not any(path.startswith(f"{other.rstrip('/')}/") for other in outer):
            outer.append(path)
    return outer


def _held(path: str) -> int | None:
    with suppress(OSError):
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    return None


def _bind(handle: int | None, target: str) -> None:
    if handle is None:
        return
    if os.path.isdir(f"/proc/self/fd/{handle}"):
        os.makedirs(target, exist_ok=True)
    elif not os.path.lexists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT, 0o600))
    _mount(f"/proc/self/fd/{handle}".encode(), target, b"", _BIND | _RECURSIVE)
    os.close(handle)


def _mount(source: bytes, target: str, kind: bytes, flags: int, data: str = "") -> None:
    path, options = os.fsencode(target), data.encode() or None
    check(libc.mount(source, path, kind, ctypes.c_ulong(flags), options), f"mount {target}")


def _set_read_only(path: str, value: bool) -> None:
    """Make a folder and all mounts below it read-only, or only the mount there writable."""
    to_set, to_clear, below = (_READ_ONLY, 0, _AT_RECURSIVE) if value else (0, _READ_ONLY, 0)
    attributes = struct.pack("=4Q", to_set, to_clear, 0, 0)
    where = (_AT_FDCWD, os.fsencode(path), below)
    result = system_call(_MOUNT_SETATTR, *where, attributes, ctypes.c_size_t(len(attributes)))
    check(result, f"mount_setattr {path}")
