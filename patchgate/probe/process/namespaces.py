"""Namespaces of a child's own: users, mounts, processes, System V's memory and networks, where the
kernel gives them.

A child has a root that holds nothing but what it may read and write, sees no other process and no
network but a loopback. bubblewrap does the same for a program that it starts; a forked child has to
do it itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
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
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
#: From the strongest to none. Root may have the others without one of users.
LEVELS: tuple[tuple[str, ...], ...] = (
    tuple(_FLAGS),
    ("mount", "pid", "ipc", "net"),
    ("user", "mount", "ipc", "net"),
    ("user", "ipc", "net"),
    (),
)
#: Folders that every program of a machine can write to: a child has empty ones.
SHARED = ("/tmp", "/dev/shm")
# Of each of them.
_SHARED_BYTES = 256 << 20
# Links on the way to one path; Linux follows as many.
_LINKS = 40
#: Its `syscall` gives what the kernel does.
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends."""
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def enter(level: Sequence[str], ended: int | None) -> None:
    """Go into namespaces of an own; with those of processes, return in a new process, the only one
    besides its init.

    The caller and init wait for it and end as it does; init writes its status to the file
    descriptor `ended`. Raises OSError where the kernel refuses.
    """
    if not level:
        return
    user, group = os.getuid(), os.getgid()
    if libc.unshare(sum(_FLAGS[name] for name in level)) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    if "user" in level:
        for file, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{file}", "w", encoding="ascii") as written:
                written.write(text)
        # None inside: its root could change these mounts.
        with (
            contextlib.suppress(OSError),
            open("/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as limit,
        ):
            limit.write("0")
    if "net" in level:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as loopback:
            fcntl.ioctl(loopback, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _UP))
    if "pid" in level:
        # Asks the innermost process for its traceback.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        for is_init in (False, True):
            pid = os.fork()
            if pid:
                _await(pid, ended if is_init else None)
            end_with_parent()


def _await(pid: int, ended: int | None) -> NoReturn:
    """Wait for a process, whatever else ends meanwhile, and end as it did."""
    libc.prctl(_PR_SET_DUMPABLE, 0)  # its memory and files are nothing for the processes inside
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
    """Within an own namespace of mounts: a root that holds only these paths, all read-only but
    `writable`.

    It is made over the folder `base`, with the links that are `known`. Paths that are not there, or
    that this user cannot reach, are left out.
    """
    _mount(b"none", "/", b"", _RECURSIVE | _PRIVATE)
    links = dict(known)
    writes = [resolved(path, links) for path in writable]
    reads = [
        resolved(path, links)
        for path in ("/sys", *(() if "pid" in level else ("/proc",)), *readable)
    ]
    held = [(path, _held(path)) for path in sorted({*writes, *without_inner(reads)}, key=len)]
    _mount(b"none", base, b"tmpfs", _NOSUID_NODEV, "mode=755")
    if held[0][0] == "/":  # all may be read, but for what is shared and for devices
        _bind(held.pop(0)[1], f"{base}/")
    # Only its owner may have made what is opened for writing in a folder that is shared.
    for place, mode in (("/dev", "755"), *((place, "1777") for place in SHARED)):
        os.makedirs(base + place, exist_ok=True)
        _mount(b"none", base + place, b"tmpfs", _NOSUID_NODEV, f"mode={mode},size={_SHARED_BYTES}")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"{base}/dev/{name}")
    for link, target in links.items():
        with contextlib.suppress(FileExistsError):
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
    if (
        libc.syscall(ctypes.c_long(_PIVOT_ROOT), b".", b".") != 0
        or libc.umount2(b".", _DETACH) != 0
    ):
        raise OSError(ctypes.get_errno(), "pivot_root")
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
    """The paths that lie below no other."""
    outer: list[str] = []
    for path in sorted(set(paths), key=len):
        if not any(path.startswith(f"{other.rstrip('/')}/") for other in outer):
            outer.append(path)
    return outer


def _held(path: str) -> int | None:
    with contextlib.suppress(OSError):
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
    if (
        libc.mount(source, os.fsencode(target), kind, ctypes.c_ulong(flags), data.encode() or None)
        != 0
    ):
        raise OSError(ctypes.get_errno(), f"mount {target}")


def _set_read_only(path: str, value: bool) -> None:
    """Of a folder and all that is mounted below it; or of what is mounted there alone, if it is to
    be writable.
    """
    attributes = struct.pack("=4Q", _READ_ONLY if value else 0, 0 if value else _READ_ONLY, 0, 0)
    below = _AT_RECURSIVE if value else 0
    name, size = os.fsencode(path), ctypes.c_size_t(len(attributes))
    if libc.syscall(ctypes.c_long(_MOUNT_SETATTR), _AT_FDCWD, name, below, attributes, size) != 0:
        raise OSError(ctypes.get_errno(), f"mount_setattr {path}")
