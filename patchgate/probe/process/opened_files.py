"""Notes the files that a child reads outside its Python environment: an answer is not kept if its
key does not cover one of these files.

Python reports each file that it opens, but not the files that C code and other processes open. If
code outside the environment starts a process or loads a library without a path, `?` is noted.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

#: The note in place of a path that is not known.
UNSEEN = "?"
# The most bytes of all paths that are read.
_BYTES = 1 << 16
_OUT_OF_SIGHT = {"ctypes.dlopen", "os.exec", "os.posix_spawn", "os.system", "subprocess.Popen"}
_LISTS = {"os.listdir", "os.scandir"}
# The place of a library's path among the arguments of an event.
_LIBRARIES = {"ctypes.dlopen": 0, "import": 1}
_STANDARD_LIBRARY = os.path.dirname(os.__file__)
# Files below these describe the machine.
_KERNEL = ("/proc", "/sys", "/dev")
# A patch may replace anything once it runs.
_getframe, _write, _fsdecode, _fsencode = sys._getframe, os.write, os.fsdecode, os.fsencode
_abspath = os.path.abspath


def note_opened_files(file: int, own: Iterable[str]) -> None:
    """From now on, note in `file` each file that this process, or a fork of it, opens to read or
    loads as a library, and each folder that it lists.

    Files below `own`, which are folders of the child, and files of the interpreter and its packages
    are left out.
    """
    places = (*_packages(), *_KERNEL, *own)
    covered = tuple(
        {f"{place}{os.sep}" for one in places for place in (one, os.path.realpath(one))}
    )
    noted: set[str] = set()
    read = {"open", *_LIBRARIES, *_LISTS, *_OUT_OF_SIGHT}

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in read:  # tracing lines causes an event for each call
            return
        name = _read_by(event, arguments, covered)
        if name and name not in noted and not f"{name}{os.sep}".startswith(covered):
            noted.add(name)
            _write(file, _fsencode(name) + b"\0")

    sys.addaudithook(note)


def _packages() -> Iterator[str]:
    """The folders of the interpreter's own modules and of installed packages, and the archive in
    which Python looks for its own modules first.
    """
    paths = sysconfig.get_paths()
    yield from (paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    yield from site.getsitepackages()
    archive = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    yield from (path for path in sys.path if os.path.basename(path) == archive)


def _read_by(event: str, arguments: tuple[Any, ...], covered: tuple[str, ...]) -> str:
    """The file or folder that an event reads; empty if there is none, or if it is already open."""
    path: Any = None
    if event == "open":
        path, _, flags = arguments
        if isinstance(flags, int) and flags & os.O_ACCMODE == os.O_WRONLY:
            return ""
    elif event in _LIBRARIES:
        path = arguments[_LIBRARIES[event]]
        path = path if path and os.sep in _fsdecode(path) else None
    elif event in _LISTS and not _caller(_getframe(2)).startswith(covered):
        path = arguments[0] or "."  # imports of torch look for modules everywhere
    if path is not None:
        return "" if isinstance(path, int) else _abspath(_fsdecode(path))
    if event in _OUT_OF_SIGHT and not _caller(_getframe(2)).startswith(covered):
        return UNSEEN
    return ""


def _caller(frame: FrameType | None) -> str:
    """The file of the innermost code that does not belong to Python itself."""
    while frame is not None and frame.f_code.co_filename.startswith(
        (_STANDARD_LIBRARY, "<frozen ")
    ):
        frame = frame.f_back
    return frame.f_code.co_filename if frame else ""


def opened_files(file: int) -> list[str]:
    """Read the noted files, in the server. A child wrote the paths, so they may be anything."""
    data = os.pread(file, _BYTES + 1, 0)
    names = sorted({os.fsdecode(name) for name in data.split(b"\0") if name})
    return names if len(data) <= _BYTES else [UNSEEN]
