"""Runs a command as on a machine that lacks something.

`python benchmarks/corpus/machine_without.py [landlock] [namespaces] [root] -- COMMAND`. A filter of system calls
refuses what the kernel of such a machine, or the runtime of its container, refuses; without `root` the command runs as
an ordinary user, with a folder of its own for what it writes.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import tempfile

# linux/prctl.h, linux/seccomp.h, linux/bpf_common.h and the tables of system calls.
_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD_NUMBER, _IS_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ERRNO, _ALLOW, _EPERM, _ENOSYS = 0x00050000, 0x7FFF0000, 1, 38
_UNSHARE = {"x86_64": 272, "aarch64": 97}
_LANDLOCK_CREATE_RULESET = 444
_NOBODY = 65534


def refuse(number: int, errno: int) -> None:
    """Let this process and its children no longer make a system call."""
    steps = [
        (_LOAD_NUMBER, 0, 0, 0),
        (_IS_EQUAL, 0, 1, number),
        (_RETURN, 0, 0, _ERRNO | errno),
        (_RETURN, 0, 0, _ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_SET_SECCOMP, _FILTER, program, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def main(words: list[str]) -> None:
    missing, command = words[: words.index("--")], words[words.index("--") + 1 :]
    if "root" in missing:
        home = tempfile.mkdtemp(prefix="ordinary-")
        os.chown(home, _NOBODY, _NOBODY)
        os.environ |= {"TMPDIR": home, "HOME": home, "XDG_CACHE_HOME": home, "USER": "nobody", "LOGNAME": "nobody"}
        os.setgroups([])
        os.setresgid(*[_NOBODY] * 3)
        os.setresuid(*[_NOBODY] * 3)
    if "landlock" in missing:
        refuse(_LANDLOCK_CREATE_RULESET, _ENOSYS)
    if "namespaces" in missing:
        refuse(_UNSHARE[platform.machine()], _EPERM)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
