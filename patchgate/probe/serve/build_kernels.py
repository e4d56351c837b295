"""Builds the C++ kernels of a generated module in one compile unit, before the module is loaded and
asks for each.

A unit with torch's headers takes half a second and more even without a kernel. What cannot be built
together torch builds one by one.
"""

from __future__ import annotations

import ast
import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from torch._inductor import codecache, cpp_builder
from torch._inductor.codecache import CppPythonBindingsCodeCache, PyCodeCache

_INCLUDE = re.compile(r"[ \t]*#[ \t]*include\b.*", re.ASCII)
# Of other directives, those that end with the loop below them.
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
# The library is stored under the name of every kernel, and gives the one by whose name it was
# loaded.
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
_CHOICE = (
    '        if (std::strstr(library.dli_fname, "{name}")) return '
    "unit_{place}::PyInit_kernel_{place}();"
)


def build_kernels_together() -> None:
    """From now on a module's kernels are built before it is loaded; nothing is where a patch
    replaces the building.
    """
    load, build, compile_cpp = (
        PyCodeCache.load_by_key_path,
        cpp_builder.CppBuilder.build,
        codecache._worker_compile_cpp,
    )

    def load_by_key_path(key: str, path: str, *args: Any, **more: Any) -> Any:
        if cpp_builder.CppBuilder.build is build and codecache._worker_compile_cpp is compile_cpp:
            with contextlib.suppress(
                Exception
            ):  # what is wrong with a kernel torch says when it builds it
                _build(_builders(path))
        return load(key, path, *args, **more)

    PyCodeCache.load_by_key_path = staticmethod(load_by_key_path)


def _builders(path: str) -> dict[str, Any]:
    """The file of torch's lock -> what builds the kernel, for those of a module that are not built
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
    with _locked(sorted(builders)):
        targets = {
            Path(each.get_target_file_path()): each.get_command_line() for each in builders.values()
        }
        # Some another process has built by now.
        lines = {
            path: line
            for path, line in targets.items()
            if not path.exists() and not _has_directives(path)
        }
        if len(lines) < 2:
            return
        with tempfile.TemporaryDirectory() as folder:
            unit, library = Path(folder, "unit.cpp"), Path(folder, "unit.so")
            (command,) = {
                line.replace(str(_source(path)), str(unit)).replace(str(path), str(library))
                for path, line in lines.items()
            }
            unit.write_text(_unit(lines), encoding="utf-8")
            cpp_builder.run_compile_cmd(command, cwd=folder)
            for path in lines:
                os.replace(shutil.copy(library, path.with_suffix(".unit")), path)


@contextlib.contextmanager
def _locked(paths: Iterable[str]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for path in paths:
            fcntl.flock(stack.enter_context(open(path, "a", encoding="utf-8")), fcntl.LOCK_EX)
        yield


def _source(library: Path) -> Path:
    return library.with_suffix(".cpp")


def _has_directives(library: Path) -> bool:
    """True if a kernel's source says to the compiler what would hold for the next source too."""
    text = _source(library).read_text("utf-8")
    usual = {line.strip() for line in CppPythonBindingsCodeCache.suffix_template.splitlines()}
    lines = [
        line
        for line in text.splitlines()
        if line.strip().startswith("#") and line.strip() not in usual
    ]
    return "_Pragma" in text or not all(
        _INCLUDE.fullmatch(line) or _LOOP.fullmatch(line) for line in lines
    )


def _unit(libraries: Iterable[Path]) -> str:
    """The source of all: what any of them includes, each kernel in a namespace, and what chooses
    among them.
    """
    sources = [_source(path) for path in libraries]
    includes = {
        line: None for path in sources for line in _INCLUDE.findall(path.read_text("utf-8"))
    }
    kernels = [_KERNEL.format(place=place, source=path) for place, path in enumerate(sources)]
    choices = [_CHOICE.format(place=place, name=path.stem) for place, path in enumerate(sources)]
    return "\n".join([*includes, *kernels, _ENTRY.format(choices="\n".join(choices))])
