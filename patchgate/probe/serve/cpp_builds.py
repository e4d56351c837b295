"""Saves children time in building C++: a header is precompiled once for all of them, and a module's
kernels are built in one compile unit.

A unit with torch's headers takes half a second and more even without a kernel. Torch itself builds
other headers, and kernels that cannot be built together.
"""

from __future__ import annotations

import ast
import fcntl
import json
import os
import re
import select
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

from torch._inductor import codecache, cpp_builder
from torch._inductor.codecache import CppPythonBindingsCodeCache, PyCodeCache

from patchgate.probe.process.namespaces import close_all_but, end_with_parent
from patchgate.probe.process.sandbox import CACHES
from patchgate.probe.protocol import Request
from patchgate.probe.simulate.device_context import device_context

# The maximum number of seconds until the process that makes a header reports its name.
_PATIENCE = 60
# The maximum number of seconds that making a header takes, even on a busy machine.
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
# The permissions of a file that Inductor writes, so that other children can read it.
_READABLE = 0o644
# Text of torch's request for a precompiled header -> the name of the header's file.
_names: dict[str, str] = {}
_asked: set[str] = set()


def make_header(request: Request, folder: str) -> set[int]:
    """Fork a process that makes the header, before the first child that builds C++ for a profile.
    Return a set with its pid, or an empty set if none is needed. Called in the server.
    """
    asked = f"{folder} {request.get('profile')}"
    if asked in _asked or not builds_kernels(request):
        return set()
    _asked.add(asked)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        end_with_parent()
        close_all_but(writing)  # no other descriptor of the server's stays open
        with suppress(BaseException):
            _make(request, folder, writing)
        os._exit(0)
    os.close(writing)
    # No name arrives if there is no compiler, or if this torch has other functions.
    with open(reading, "rb", buffering=0) as names, suppress(ValueError):
        if select.select([names], [], [], _PATIENCE)[0]:
            _names.update(json.loads(names.read()))
    return {pid}


def _make(request: Request, folder: str, writing: int) -> None:
    """Have torch make the header of an empty kernel. Write the header's name to the pipe `writing`
    as soon as it is known.
    """
    precompile = codecache._precompile_header.__wrapped__
    compile_cpp = codecache._worker_compile_cpp
    text = ""

    def ask(header: str, line: str, **command: Any) -> str:
        nonlocal text
        text = _text(header, line, command)
        return str(precompile(header, line, **command))

    def report(lock: str, builders: Any) -> None:
        name = os.path.basename(lock).replace(".lock", ".h")
        os.write(writing, json.dumps({text: name}).encode())
        os.close(writing)
        compile_cpp(lock, builders)

    with (
        device_context(request["profile"]),
        mock.patch.multiple(
            codecache,
            _HEADER_DIR=folder,
            _HEADER_LOCK_DIR=f"{folder}/locks",
            _worker_compile_cpp=report,
            _precompile_header=ask,
        ),
    ):
        codecache.CppPythonBindingsCodeCache.load_pybinding_async([], "")


def use_header(folder: str) -> None:
    """From now on, take headers of known names from the folder if they are complete. Called in a
    child that builds C++.
    """
    precompile, is_made = codecache._precompile_header, cache(partial(_is_made, folder))

    def known_header(header: str, line: str, **command: Any) -> str:
        name = _names.get(_text(header, line, command), "")
        return f"{folder}/{name}" if is_made(name) else str(precompile(header, line, **command))

    codecache._precompile_header = known_header


def _is_made(folder: str, name: str) -> bool:
    """True if a header is complete.

    The process that makes the header holds a lock. A patch may take the lock and never release it.
    """
    compiled, ends = f"{folder}/{name}.gch", time.monotonic() + _MAKING
    with suppress(OSError), open(f"{folder}/locks/{name[:-2]}.lock", "rb") as lock:
        while time.monotonic() < ends:
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return os.path.exists(compiled)
            time.sleep(0.05)
        return time.time() - os.path.getmtime(compiled) > _MAKING
    return os.path.exists(compiled)


def builds_kernels(request: Request) -> bool:
    """True if a child builds C++ in a folder that others use too."""
    # The caches of the question "cached" are used only once, and it builds no kernel.
    is_shared = CACHES[0] in request.get("env", {}) and request["do"] != "cached"
    return is_shared and request["profile"]["kind"] == "codegen"


def _text(header: str, line: str, command: Mapping[str, Any]) -> str:
    variables = {name: os.environ.get(name) for name in _COMPILER}
    return f"{header} {line} {sorted(command.items())!r} {variables}"


_INCLUDE = re.compile(r"[ \t]*#[ \t]*include\b.*", re.ASCII)
# Directives that apply only to the loop that follows them.
_LOOP = re.compile(r"[ \t]*#[ \t]*pragma +(omp|GCC ivdep|GCC unroll)\b.*", re.ASCII)
_KERNEL = """
namespace unit_{place} {{
#define kernel kernel_{place}
#define PyInit_kernel PyInit_kernel_{place}
#include "{source}"
#undef kernel
#undef PyInit_kernel
}}
"""
# The library is stored once under the name of each kernel. Its entry returns the kernel under whose
# name the library was loaded.
_ENTRY = """
#include <dlfcn.h>
#include <cstring>
static const char address = 0;
PyMODINIT_FUNC PyInit_kernel(void) {{
    Dl_info library;
    if (dladdr(&address, &library)) {{
{choices}
    }}
    return nullptr;
}}
"""
_CHOICE = """
    if (std::strstr(library.dli_fname, "{name}")) return unit_{place}::PyInit_kernel_{place}();
"""


def write_apart() -> None:
    """From now on, give each temporary file of Inductor's a unique name.

    Torch names such a file by the ids of process and thread, which are the same in the namespaces
    of all children. Two children that write the same kernel would replace each other's file.
    """

    def write_atomic(path_: str, content: str | bytes, make_dirs: bool = False, **_: Any) -> None:
        folder = os.path.dirname(path_) or "."
        if make_dirs:
            os.makedirs(folder, exist_ok=True)
        descriptor, made = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=folder)
        data = content if isinstance(content, bytes) else content.encode()
        with open(descriptor, "wb") as file:
            file.write(data)
        os.chmod(made, _READABLE)
        os.replace(made, path_)

    codecache.write_atomic = write_atomic


def build_kernels_together() -> None:
    """From now on, build a module's kernels together before it is loaded. This has no effect if a
    patch replaces torch's functions that build.
    """
    load, build = PyCodeCache.load_by_key_path, cpp_builder.CppBuilder.build
    compile_cpp = codecache._worker_compile_cpp

    def load_by_key_path(key: str, path: str, *args: Any, **more: Any) -> Any:
        if cpp_builder.CppBuilder.build is build and codecache._worker_compile_cpp is compile_cpp:
            with suppress(Exception):  # torch reports faults of a kernel when it builds it
                _build(_builders(path))
        return load(key, path, *args, **more)

    PyCodeCache.load_by_key_path = staticmethod(load_by_key_path)


def _builders(path: str) -> dict[str, Any]:
    """Return the lock file of torch -> the builder, for each kernel of a module that is not built
    yet.
    """
    tasks: list[Any] = []
    for node in ast.walk(ast.parse(Path(path).read_text("utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "async_compile.cpp_pybinding":
            arguments, source = map(ast.literal_eval, node.args)
            CppPythonBindingsCodeCache.load_pybinding_async(
                arguments, source, submit_fn=tasks.append
            )
    return {lock: builder for lock, (builder,) in (task.args for task in tasks)}


def _build(builders: dict[str, Any]) -> None:
    with ExitStack() as stack:
        for path in sorted(builders):
            fcntl.flock(stack.enter_context(open(path, "a", encoding="utf-8")), fcntl.LOCK_EX)
        # Another process may have built some kernels before the locks were acquired.
        targets = {Path(each.get_target_file_path()): each for each in builders.values()}
        lines = {
            library: builder.get_command_line()
            for library, builder in targets.items()
            if not library.exists() and not _has_directives(_source(library).read_text("utf-8"))
        }
        if len(lines) < 2:
            return
        with tempfile.TemporaryDirectory() as folder:
            unit, library = Path(folder, "unit.cpp"), Path(folder, "unit.so")
            (command,) = {
                line.replace(str(_source(target)), str(unit)).replace(str(target), str(library))
                for target, line in lines.items()
            }
            unit.write_text(_unit(lines), encoding="utf-8")
            cpp_builder.run_compile_cmd(command, cwd=folder)
            for target in lines:
                os.replace(shutil.copy(library, target.with_suffix(".unit")), target)


def _source(library: Path) -> Path:
    return library.with_suffix(".cpp")


def _has_directives(text: str) -> bool:
    """True if a kernel's source has a directive that would also apply to the next source."""
    usual = {line.strip() for line in CppPythonBindingsCodeCache.suffix_template.splitlines()}
    lines = [line for line in text.splitlines() if line.strip().startswith("#")]
    return "_Pragma" in text or any(
        not (line.strip() in usual or _INCLUDE.fullmatch(line) or _LOOP.fullmatch(line))
        for line in lines
    )


def _unit(libraries: Iterable[Path]) -> str:
    """Return the source of the compile unit: the includes of all kernels, each kernel in a
    namespace of its own, and the entry that selects a kernel.
    """
    includes: dict[str, None] = {}
    kernels, choices = "", ""
    for place, path in enumerate(libraries):
        includes |= dict.fromkeys(_INCLUDE.findall(_source(path).read_text("utf-8")))
        kernels += _KERNEL.format(place=place, source=_source(path))
        choices += _CHOICE.format(place=place, name=path.stem)
    return "\n".join([*includes, kernels, _ENTRY.format(choices=choices)])
