"""The confinement of a child that runs a patch: Linux's Landlock, its own namespaces, and limits.

The kernel enforces them, also against C code; parts that this kernel or container lacks are left
out and reported. `runner/start_server.py` chooses the environment variables of a child.
"""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchgate.probe.patch.module_name import place_in_package, top_level
from patchgate.probe.process.namespaces import (
    LEVELS,
    SHARED,
    change_root,
    check,
    end_with_parent,
    enter,
    libc,
    resolved,
    system_call,
    without_inner,
)
from patchgate.probe.protocol import Limits, Request

# Bytes of the largest file that a child may write: in general, and on a real device, where inputs
# are larger. The limit also holds for the output of a patch.
_FILE_BYTES, _DEVICE_FILE_BYTES = 512 << 20, 8 << 30
#: Environment variables that name the caches of torch and of Triton.
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
# System calls, flags and access rights of linux/landlock.h and linux/prctl.h.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH, _NO_NEW_PRIVS = 1, 1, 38
_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
# The rights to remove and to make files of every kind.
_CHANGES = sum(1 << bit for bit in range(4, 13))
# Rights since version 2 of Landlock (link and rename) and since version 3 (truncate).
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_TCP = 1 << 0 | 1 << 1
_SCOPES = 1 << 0 | 1 << 1  # abstract sockets, signals
# _LINUX_CAPABILITY_VERSION_3, for capset.
_CAPABILITIES = 0x20080522
_DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
# The devices of a real GPU, as patterns.
_GPUS = ("/dev/nvidia*", "/dev/dri", "/dev/kfd")
# Files of /etc that programs and libraries read at their start; no passwords and no keys.
_ETC = """
    alternatives group host.conf hosts ld.so.cache ld.so.conf ld.so.conf.d ld.so.preload localtime
    nsswitch.conf os-release passwd resolv.conf ssl/openssl.cnf ssl/certs
"""
_SYSTEM = "/usr /lib /lib64 /lib32 /bin /sbin /nix/store /gnu/store /proc /sys"
# The place of programs that were installed by hand; a child reads only those in use.
_INSTALLED = "/opt"
# Folders that belong to programs, next to their `bin` folder.
_PREFIX = ("lib", "lib64", "libexec", "include")
# The line that names the whole patch, in a part that a search has written.
_PART = re.compile(r"^run_subset\('(/[^']+\.py)'", re.MULTILINE)
# Keys of a request that name files to read.
_NAMED = ("unpatched", "patched", "libraries", "queue")
# The arguments with which the compiler is tried.
_COMPILE = ("-E", "-x", "c++", "-o", "/dev/null", "-")


def version() -> int:
    """The kernel's Landlock version; 0 if it has none."""
    return max(0, system_call(_CREATE_RULESET, None, 0, _VERSION_FLAG))


@dataclass(frozen=True)
class Sandbox:
    """The parts of the sandbox that confine a child on this machine."""

    namespaces: tuple[str, ...] = ()  #: the child's own namespaces; one of `LEVELS`
    landlock: int = 0  #: the kernel's version of Landlock, 0 for none
    reads: bool = False  #: true if reading is confined too
    #: paths that every child reads: the interpreter, torch, programs and libraries; no links
    system: tuple[str, ...] = ()
    links: dict[str, str] = field(
        default_factory=dict
    )  #: link on the way to a path of `system` -> its target
    #: folder of precompiled C++ headers, shared by all cache folders of a machine
    headers: str = ""
    devices: tuple[str, ...] = _DEVICES  #: device nodes that a child may use

    def report(self) -> dict[str, Any]:
        return {"namespaces": list(self.namespaces), "landlock": self.landlock, "reads": self.reads}

    def missing(self) -> list[str]:
        """The parts of a full sandbox that this one lacks."""
        namespaces = [name for name in LEVELS[0] if name not in self.namespaces and name != "user"]
        return namespaces + ["Landlock"] * (not self.landlock) + ["reads"] * (not self.reads)

    def confine(
        self, base: str, writable: Iterable[str], readable: Iterable[str], *, tcp: bool
    ) -> None:
        """Limit this process to these paths, and take root's privileges from it. A new root is made
        over the folder `base`.
        """
        writes = [*writable, *self.devices]
        reads = [*self.system, *readable] if self.reads else ["/"]
        if "mount" in self.namespaces:
            change_root(base, writes, reads, self.namespaces, self.links)
            # Everything in the new root may be read.
            writes, reads = [*writes, *SHARED], ["/"]
        libc.capset(struct.pack("=Ii", _CAPABILITIES, 0), bytes(24))
        libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
        if self.landlock:
            _restrict(self.landlock, writes, reads, tcp=tcp or "net" in self.namespaces)


def strongest_sandbox(home: str, headers: str, *, gpu: bool) -> Sandbox:
    """The strongest sandbox in which a child can still compile, or with `gpu` use the GPU, if an
    unconfined child can.
    """
    gpus = [path for pattern in _GPUS for path in glob.glob(pattern)] if gpu else []
    devices = (*_DEVICES, *gpus)
    links: dict[str, str] = {}
    places = without_inner(resolved(path, links) for path in _system())
    system = tuple(filter(os.path.exists, places))
    works = _finds_gpu if gpu else _compiles
    free = Sandbox(devices=devices, headers=headers)
    # If the test fails without a sandbox too, the sandbox is not the cause: drop the test.
    wanted = works if _tried(free, home, works) else (lambda: True)
    for reads in (True, False):
        for level in LEVELS:
            for landlock in dict.fromkeys((version(), 0)):
                sandbox = Sandbox(level, landlock, reads, system, links, headers, devices)
                confines = landlock or ("mount" in level if reads else level)
                if confines and _tried(sandbox, home, wanted):
                    return sandbox
    return free


def can_be_entered(sandbox: Sandbox, home: str) -> bool:
    return _tried(sandbox, home, lambda: True)


def _tried(sandbox: Sandbox, home: str, works: Callable[[], bool]) -> bool:
    """True if `works` succeeds in a child in this sandbox."""
    folder = tempfile.mkdtemp(dir=home)
    pid = os.fork()
    if pid == 0:
        ended = 1
        with suppress(BaseException):
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            end_with_parent()
            enter(sandbox.namespaces, None)
            os.makedirs(f"{home}/root", exist_ok=True)
            sandbox.confine(f"{home}/root", [folder], [], tcp=True)
            os.environ["TMPDIR"] = folder
            ended = 0 if works() else 1
        os._exit(ended)
    status = os.waitpid(pid, 0)[1]
    with suppress(OSError):
        os.rmdir(folder)
    return status == 0


def _compiles() -> bool:
    """True if the compiler finds its headers, and a device can be read."""
    os.close(os.open("/dev/urandom", os.O_RDONLY))
    command = [os.environ.get("CXX", "g++"), *_COMPILE]
    source = b"#include <vector>\n"
    return subprocess.run(command, input=source, capture_output=True, timeout=60).returncode == 0


def _finds_gpu() -> bool:
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # the server itself sees none
    return bool(ctypes.CDLL("libcuda.so.1").cuInit(0) == 0)


def _restrict(known: int, writable: Iterable[str], readable: Iterable[str], *, tcp: bool) -> None:
    """Have Landlock let this process write only below `writable`, and read only there and below
    `readable`.

    From the kernel's version 4 on, TCP is closed unless `tcp` is true. From version 6 on, signals
    to other processes and sockets without a file are closed too.
    """
    reads = _READ_FILE | _READ_DIR
    handled = reads | _WRITE_FILE | _CHANGES
    if known >= 2:
        handled |= _REFER
    if known >= 3:
        handled |= _TRUNCATE
    # struct landlock_ruleset_attr: file system, network, scopes; older kernels know fewer fields.
    fields = [handled]
    if known >= 4:
        fields.append(0 if tcp else _TCP)
    if known >= 6:
        fields.append(_SCOPES)
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    rules = system_call(_CREATE_RULESET, attributes, len(attributes), 0)
    for path in readable:
        _allow(rules, path, reads)
    for path in writable:
        _allow(rules, path, handled)
    check(system_call(_RESTRICT_SELF, rules, 0), "landlock_restrict_self")
    os.close(rules)


def _allow(rules: int, path: str, access: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # not on this machine
        return
    if not os.path.isdir(f"/proc/self/fd/{beneath}"):
        access &= _WRITE_FILE | _READ_FILE | _TRUNCATE
    system_call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", access, beneath), 0)
    os.close(beneath)


def largest_file(limits: Limits) -> int:
    """Bytes of the largest file that a child may leave. A child without a limit of memory is on a
    real device.
    """
    return _FILE_BYTES if limits["bytes"] else _DEVICE_FILE_BYTES


def limit_resources(limits: Limits, beside: int) -> None:
    """Limit a child: no core dump, files of a bounded size, and bounded private memory in addition
    to the larger of its present memory and `beside`, the bytes that it has yet to load.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file(limits),) * 2)
    if limits["bytes"]:
        allowed = max(beside, private_bytes()) + limits["bytes"]
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))


def confine_child(request: Request, folder: str, sandbox: Sandbox) -> str:
    """Give a child its folder, the caches that its request names, and read access to everything
    that torch and the patch need.

    Call it before torch starts a thread: Landlock confines the calling thread. Returns the folder
    of precompiled headers, to which only trusted children write.
    """
    readable = list(_read_by(request))
    # Each child has its own caches unless the request names them: in shared caches, later children
    # would find what a patch has left there for the same source.
    use_folder(folder, request.get("env", {}))
    writable = [folder, *(os.environ[name] for name in CACHES)]
    writable += [request[name] for name in ("built", "tuned") if request.get(name)]
    headers = headers_of(request, sandbox)
    writable += [headers] if is_trusted(request) else []
    # one folder for all children: no child sees the mounts of another
    base = f"{os.path.dirname(folder)}/root"
    for path in (base, headers, *writable):
        os.makedirs(path, exist_ok=True)
    sandbox.confine(base, writable, [headers, *readable], tcp=request["do"] == "ranks")
    os.chdir(folder)
    return headers


def use_folder(folder: str, kept: Collection[str] = ()) -> None:
    """Use a folder for temporary files, the home and the compiler's caches, except for those
    `kept`.
    """
    os.environ["TMPDIR"] = tempfile.tempdir = f"{folder}/tmp"
    os.environ["HOME"] = f"{folder}/home"
    os.environ.update({name: f"{folder}/{name.lower()}" for name in CACHES if name not in kept})
    for name in ("TMPDIR", "HOME"):
        os.makedirs(os.environ[name], exist_ok=True)


def headers_of(request: Request, sandbox: Sandbox) -> str:
    """The folder of all children's precompiled C++ headers, next to a folder of compiled C++ if the
    request names one.
    """
    cache = request.get("env", {}).get("TORCHINDUCTOR_CACHE_DIR") or request.get("libraries")
    return f"{os.path.dirname(cache)}/headers" if cache else sandbox.headers


def is_trusted(request: Request) -> bool:
    """True if only our own code runs in the child, which may then write the precompiled headers
    that all children read.
    """
    return not (request.get("patch") or request.get("foreign") or _plugin(request))


def _plugin(request: Request) -> str | None:
    """The file of the project that makes the request's device known to torch."""
    return request["profile"].get("plugin") if "profile" in request else None


def _read_by(request: Request) -> Iterator[str]:
    """The paths that a request reads: the files or packages of its patches, workload and device;
    the project; the outputs with and without the patch.
    """
    for each in (request, *(request.get("after") or ())):
        patch, paths = each.get("patch"), each.get("paths") or ()
        if patch:
            yield from (*paths, _or_alone(place_in_package(patch, paths)[1], patch))
        yield from _wholes(each)
    for path in filter(None, (request.get("workload_path"), _plugin(request))):
        yield _or_alone(place_in_package(path)[1], path)
    yield from (request[name] for name in _NAMED if request.get(name))
    yield from request.get("import_path", ())


def _or_alone(folder: str, path: str) -> str:
    """The given folder around a file; only the file if the folder is or contains the user's home,
    /tmp, /dev/shm or /opt.
    """
    return path if _holds_everything(folder) else folder


def _holds_everything(folder: str) -> bool:
    """True if a folder contains more than the patch's files: a home, shared files, or manually
    installed ones.
    """
    around = os.path.join(os.path.realpath(folder), "")
    return any(f"{place}/".startswith(around) for place in (*SHARED, *_homes(), _INSTALLED))


def _homes() -> set[str]:
    """The user's home folder."""
    import pwd

    found = {os.environ.get("HOME", "")}
    with suppress(KeyError):
        found.add(pwd.getpwuid(os.getuid()).pw_dir)
    return {os.path.realpath(home) for home in found if home}


def _wholes(loaded: Mapping[str, Any]) -> Iterator[str]:
    """The file that a patch declares itself a part of, or the package of that file.

    A search, or `patchgate parts`, writes such patches, but any other patch may declare this too.
    """
    wholes = [str(loaded.get("part_of") or "")]
    if loaded.get("patch"):
        with open(loaded["patch"], encoding="utf-8", errors="replace") as file:
            wholes += re.findall(_PART, file.read(1 << 20))[:1]
    for path in map(os.path.realpath, filter(None, wholes)):  # a link counts as its target
        if path.endswith(".py") and os.path.isfile(path):
            module, folder = place_in_package(path)
            yield os.path.join(folder, top_level(module)) if module else path


def _system() -> Iterator[str]:
    """The interpreter and its packages, programs and libraries of the system, and the folders of
    everything that is loaded.
    """
    yield from _SYSTEM.split()
    yield from (f"/etc/{name}" for name in _ETC.split())
    of_executable = os.path.dirname(os.path.dirname(os.path.realpath(sys.executable)))
    for prefix in (sys.prefix, sys.base_prefix, of_executable):
        # If the interpreter is installed in a home, only its own subfolders are read.
        parts = ("bin", *_PREFIX) if _holds_everything(prefix) else ("",)
        yield from (os.path.join(prefix, part) for part in parts)
    # The working directory is left out, because it has the server's files of other children.
    places = [each for each in sys.path if each not in ("", os.getcwd()) and os.path.isdir(each)]
    places.append(os.environ.get("CUDA_HOME", ""))
    places += os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    yield from (each for each in places if each and not _holds_everything(each))
    for programs in (*os.environ.get("PATH", "").split(os.pathsep), *_folders_of_compilers()):
        if programs.startswith("/") and not _holds_everything(programs):
            prefix = os.path.dirname(os.path.realpath(programs))
            yield from (programs, *(f"{prefix}/{part}" for part in _PREFIX))
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    # torch is included even if it is not loaded yet; it may be built in its own checkout.
    specs = map(importlib.util.find_spec, ("torch", "triton"))
    modules = filter(None, (*files, *(spec.origin for spec in specs if spec)))
    real = map(os.path.realpath, modules)
    yield from without_inner(_or_alone(os.path.dirname(file), file) for file in real)


def _folders_of_compilers() -> Iterator[str]:
    """The real folders of the compilers that torch may call; `PATH` may have links to them."""
    for name in (os.environ.get("CXX", "g++"), "gcc", "clang++", "cc", "c++"):
        program = shutil.which(name)
        if program:
            yield os.path.dirname(os.path.realpath(program))


def private_bytes() -> int:
    """Return the private memory of this process, without files and shared memory."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
