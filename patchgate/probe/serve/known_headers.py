"""Spares each child the key of the precompiled C++ header, for which the compiler reads every header of torch.

The server finds it out once, as torch does. What a child asks for otherwise is looked for as torch does it.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from torch._inductor import codecache

from patchgate.probe.process.sandbox import CACHES
from patchgate.probe.protocol import Request
from patchgate.probe.simulate.device_context import device_context

# Variables by which g++ and clang++ find programs, headers and settings.
_COMPILER = ("PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "LD_PRELOAD")
# What torch asks for, as text -> the file's name.
_names: dict[str, str] = {}
_asked: set[str] = set()


def find_names(request: Request) -> None:
    """In the server, before the first child that builds C++ for a profile: a fork asks torch for a header."""
    profile = str(request.get("profile"))
    if profile in _asked or not _builds(request):
        return
    _asked.add(profile)
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "names.json")
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                found.write_text(json.dumps(_ask_torch(request, folder)), encoding="utf-8")
            os._exit(0)
        os.waitpid(pid, 0)
        with contextlib.suppress(OSError, ValueError):  # no compiler here, or another torch
            _names.update(json.loads(found.read_text(encoding="utf-8")))


def _ask_torch(request: Request, folder: str) -> dict[str, str]:
    """The name of the header that an empty kernel is compiled with; nothing is compiled."""
    names: dict[str, str] = {}
    precompile = codecache._precompile_header.__wrapped__

    def record(header: str, line: str, **command: Any) -> str:
        path = str(precompile(header, line, **command))
        names[_text(header, line, command)] = os.path.basename(path)
        return path

    os.environ[CACHES[0]] = folder
    with (
        device_context(request["profile"]),
        mock.patch.object(codecache, "_HEADER_DIR", folder),
        mock.patch.object(codecache, "_HEADER_LOCK_DIR", folder),
        mock.patch.object(codecache, "_worker_compile_cpp", lambda *args: None),
        mock.patch.object(codecache, "_precompile_header", record),
    ):
        codecache.CppPythonBindingsCodeCache.load_pybinding_async([], "")
    return names


def use_names(request: Request, folder: str, is_finished: Callable[[Path], bool]) -> None:
    """In a child that builds C++: a header of a known name that `is_finished` in the folder is taken as it is."""
    if not (_names and _builds(request)):
        return
    precompile = codecache._precompile_header

    def known_header(header: str, line: str, **command: Any) -> str:
        name = _names.get(_text(header, line, command), "")
        compiled = Path(folder, f"{name}.gch")
        return f"{folder}/{name}" if is_finished(compiled) else str(precompile(header, line, **command))

    codecache._precompile_header = known_header


def _builds(request: Request) -> bool:
    return CACHES[0] in request.get("env", {}) and bool(request["profile"]["kind"] == "codegen")


def _text(header: str, line: str, command: Mapping[str, Any]) -> str:
    variables = {name: os.environ.get(name) for name in _COMPILER}
    return f"{header} {line} {sorted(command.items())!r} {variables}"
