"""Spares children the precompiled C++ header: its name, for which all headers of torch are read,
and its making.

The server has a fork of its own ask torch for it, and make it. What a child wants otherwise is made
as torch does it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import time
from collections.abc import Mapping
from functools import cache, partial
from typing import Any
from unittest import mock

from torch._inductor import codecache

from patchgate.probe.process.namespaces import end_with_parent
from patchgate.probe.process.sandbox import CACHES
from patchgate.probe.protocol import Request
from patchgate.probe.serve.zygote import close_all_but
from patchgate.probe.simulate.device_context import device_context

# Seconds within which a compiler reads the headers.
_PATIENCE = 60
# Seconds that a header takes to be made, also on a busy machine.
_MAKING = 20
# Variables by which g++ and clang++ find programs, headers and settings.
_COMPILER = (
    "PATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "LD_PRELOAD",
)
# What torch asks for, as text -> the file's name.
_names: dict[str, str] = {}
_asked: set[str] = set()


def make_header(request: Request, folder: str) -> int | None:
    """In the server, before the first child that builds C++ for a profile: the fork that makes the
    header there.
    """
    asked = f"{folder} {request.get('profile')}"
    if asked in _asked or not builds_kernels(request):
        return None
    _asked.add(asked)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        end_with_parent()
        close_all_but(writing)  # it has nothing else of the server's
        with contextlib.suppress(BaseException):
            _make(request, folder, writing)
        os._exit(0)
    os.close(writing)
    with (
        open(reading, "rb", buffering=0) as names,
        contextlib.suppress(ValueError),
    ):  # no compiler, or another torch
        if select.select([names], [], [], _PATIENCE)[0]:
            _names.update(json.loads(names.read()))
    return pid


def _make(request: Request, folder: str, writing: int) -> None:
    """Ask for the header of an empty kernel; its name goes to the pipe `writing` as soon as it is
    known.
    """
    precompile, compile_cpp, text = (
        codecache._precompile_header.__wrapped__,
        codecache._worker_compile_cpp,
        "",
    )

    def ask(header: str, line: str, **command: Any) -> str:
        nonlocal text
        text = _text(header, line, command)
        return str(precompile(header, line, **command))

    def report(lock: str, builders: Any) -> None:
        os.write(
            writing, json.dumps({text: os.path.basename(lock).replace(".lock", ".h")}).encode()
        )
        os.close(writing)
        compile_cpp(lock, builders)

    with (
        device_context(request["profile"]),
        mock.patch.object(codecache, "_HEADER_DIR", folder),
        mock.patch.object(codecache, "_HEADER_LOCK_DIR", f"{folder}/locks"),
        mock.patch.object(codecache, "_worker_compile_cpp", report),
        mock.patch.object(codecache, "_precompile_header", ask),
    ):
        codecache.CppPythonBindingsCodeCache.load_pybinding_async([], "")


def use_header(folder: str) -> None:
    """In a child that builds C++: a header of a known name is taken from the folder, once it is
    made.
    """
    precompile, is_made = codecache._precompile_header, cache(partial(_is_made, folder))

    def known_header(header: str, line: str, **command: Any) -> str:
        name = _names.get(_text(header, line, command), "")
        return f"{folder}/{name}" if is_made(name) else str(precompile(header, line, **command))

    codecache._precompile_header = known_header


def _is_made(folder: str, name: str) -> bool:
    """True if a header is whole.

    Whoever makes it holds its lock; a patch may hold that too, and for ever.
    """
    compiled, ends = f"{folder}/{name}.gch", time.monotonic() + _MAKING
    with contextlib.suppress(OSError), open(f"{folder}/locks/{name[:-2]}.lock", "rb") as lock:
        while time.monotonic() < ends:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return os.path.exists(compiled)
            time.sleep(0.05)
        return time.time() - os.path.getmtime(compiled) > _MAKING
    return os.path.exists(compiled)


def builds_kernels(request: Request) -> bool:
    """True if a child builds C++ in a folder that others use too."""
    if (
        request["do"] == "cached"
    ):  # its caches lie in a folder that is used once, and no kernel is built
        return False
    return CACHES[0] in request.get("env", {}) and bool(request["profile"]["kind"] == "codegen")


def _text(header: str, line: str, command: Mapping[str, Any]) -> str:
    variables = {name: os.environ.get(name) for name in _COMPILER}
    return f"{header} {line} {sorted(command.items())!r} {variables}"
