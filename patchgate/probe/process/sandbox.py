"""What a child that runs a patch may do: the folders that it may write to, by Linux's Landlock, and its limits.

The kernel enforces both, against C code too. Where it has no Landlock nothing is confined, and `confine` says so. Which
environment variables reach a child at all is decided in `runner/server.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import struct
import tempfile

from patchgate.probe.protocol import Limits, Request

# Bytes of the largest file that a child may write: what a patch prints goes to a file.
_FILE_BYTES = 512 << 20
#: Environment variables that name the caches of torch and of Triton.
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
# System calls, flags and access rights of linux/landlock.h and linux/prctl.h.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH, _NO_NEW_PRIVS = 1, 1, 38
_WRITE_FILE = 1 << 1
# Remove and make files of every kind.
_CHANGES = sum(1 << bit for bit in range(4, 13))
# Known since version 2 (link and rename) and version 3.
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_SCOPE_SIGNAL = 1 << 1
# _LINUX_CAPABILITY_VERSION_3, for capset.
_CAPABILITIES = 0x20080522
# Writable for every process: devices such as /dev/null, and what the kernel shows of the process itself.
_ALWAYS = ("/dev", "/proc")


def version() -> int:
    """The kernel's Landlock version; 0 where there is none."""
    return max(0, int(_call(_CREATE_RULESET, None, 0, _VERSION_FLAG)))


def confine(folders: list[str]) -> bool:
    """Let this process and its children write only below `folders`, and take root's privileges from them.

    False where the kernel cannot confine. From version 6 on they can also signal no process outside.
    """
    # No capability is kept.
    _libc().capset(struct.pack("=Ii", _CAPABILITIES, 0), bytes(24))
    known = version()
    if not known:
        return False
    handled = _WRITE_FILE | _CHANGES | (_REFER if known >= 2 else 0) | (_TRUNCATE if known >= 3 else 0)
    # struct landlock_ruleset_attr: file system, network, scopes; older kernels know fewer fields.
    fields = [handled] + ([0] if known >= 4 else []) + ([_SCOPE_SIGNAL] if known >= 6 else [])
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    rules = int(_call(_CREATE_RULESET, attributes, len(attributes), 0))
    for folder in [*folders, *_ALWAYS]:
        if os.path.isdir(folder):
            _allow(rules, folder, handled)
    _libc().prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    confined = _call(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return confined


def _allow(rules: int, folder: str, access: int) -> None:
    beneath = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    _call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", access, beneath), 0)
    os.close(beneath)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    call = _libc().syscall
    call.restype = ctypes.c_long
    return int(call(ctypes.c_long(number), *arguments))


def limit_resources(limits: Limits) -> None:
    """What a child may use: no core dump, files of a bounded size, private memory on top of the server's."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
    if limits["bytes"]:
        # Private memory that this process may add to what it inherited from the server.
        allowed = _private_bytes() + limits["bytes"]
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))


def confine_child(request: Request, folder: str) -> None:
    """Put temporary files into the child's folder, and allow writing only there, in caches and to outputs.

    Nothing is confined on a real device: its driver writes files in places of its own.
    """
    if request.get("profile", {}).get("kind") == "real":
        return
    import torch._inductor.codecache as codecache

    os.environ["TMPDIR"] = tempfile.tempdir = f"{folder}/tmp"
    os.mkdir(tempfile.tempdir)
    caches = [os.environ[name] for name in CACHES if name in os.environ]
    # Precompiled headers are shared by all cache folders of a machine. The unpatched side runs first and makes them;
    # a patch may wait for their lock, and not write them.
    caches.append(codecache._HEADER_LOCK_DIR if request.get("patch") else codecache._HEADER_DIR)
    for cache in caches:
        os.makedirs(cache, exist_ok=True)
    outputs = [os.path.dirname(request["outputs"])] if "outputs" in request else []
    outputs += [request["trace"]] if "trace" in request else []
    confine([folder, *caches, *outputs])


def _private_bytes() -> int:
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return 0
