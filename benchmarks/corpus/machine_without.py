"""Runs a command as on a machine that lacks something.

`python benchmarks/corpus/machine_without.py [landlock] [namespaces] [root] -- COMMAND`. A filter of
system calls refuses what the kernel of such a machine, or the runtime of its container, refuses;
without `root` the command runs as an ordinary user, with a folder of its own for what it writes,
which is removed afterwards.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import sys
import tempfile
from typing import NoReturn

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


def main(words: list[str]) -> int:
    """Run the command, and remove its folder; the exit code is that of the command."""
    missing, command = words[: words.index("--")], words[words.index("--") + 1 :]
    with tempfile.TemporaryDirectory(
        prefix="patchgate-ordinary-", ignore_cleanup_errors=True
    ) as home:
        child = os.fork()
        if child == 0:
            _become(missing, command, home)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the command too
        signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _become(missing: list[str], command: list[str], home: str) -> NoReturn:
    """Give up what is missing, then be the command."""
    try:
        if "root" in missing:
            os.chown(home, _NOBODY, _NOBODY)
            os.environ |= {
                "TMPDIR": home,
                "HOME": home,
                "XDG_CACHE_HOME": home,
                "USER": "nobody",
                "LOGNAME": "nobody",
            }
            os.setgroups([])
            os.setresgid(*[_NOBODY] * 3)
            os.setresuid(*[_NOBODY] * 3)
        if "landlock" in missing:
            refuse(_LANDLOCK_CREATE_RULESET, _ENOSYS)
        if "namespaces" in missing:
            refuse(_UNSHARE[platform.machine()], _EPERM)
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(127)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
