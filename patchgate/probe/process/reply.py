"""Writes the reply of a process, and describes a failure, which is an exception or the end of a
process without a reply.

A patch may replace anything after this module is imported, so everything that writing a reply needs
is bound here.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn

from patchgate.probe.patch.stubs import StandsIn, are_used, is_missed_by, missing_packages

_write, _exit, _dumps = os.write, os._exit, json.dumps
# (file, line, function) of one call on the stack.
_Frame = tuple[str, int, str]
# This machine's folder of packages, left out so that a failure reads the same everywhere.
_INSTALLED = re.compile(r"/[^\s'\"()]*/site-packages/")
# Torch's name for the device of a project that has given it no name, and a part of its error for a
# device that is named but has no module.
_NO_DEVICE = "privateuseone"
_NO_DEVICE_MODULE = "you should register a module by `torch._register_device_module`"
# The most characters of a description for the host; its end, with the exception, is kept.
_DETAIL = 6000
# Texts by which torch, the kernel and C++ report a lack of memory.
_NO_MEMORY = re.compile(r"(can't|cannot) allocate memory|not enough memory|std::bad_alloc", re.I)
# Signals that come from the machine (an operator, the kernel's out-of-memory killer), not from the
# patch.
_MACHINE_SIGNALS = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT}
# The folder of our own frames, and the files that only compare finished results.
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_COMPARES = (
    f"{_OURS}/numerics/sample_differences.py",
    f"{_OURS}/numerics/numeric_metrics.py",
)


class DoesNotApply(Exception):
    """A hunk of a diff has no place in this torch, or changes what cannot be changed in memory.

    `place` is file:line of the hunk in the diff.
    """

    def __init__(self, problem: str, place: str) -> None:
        super().__init__(problem)
        self.place = place


def write_reply(reply: Mapping[str, Any], pipe: int) -> NoReturn:
    """Write `reply` to the file descriptor `pipe`, and end the process."""
    try:
        # A patch's text may hold half a surrogate pair, which the host could not print.
        data = _dumps(reply, ensure_ascii=False).encode(errors="replace")
        while data:
            data = data[_write(pipe, data) :]
    finally:
        _exit(0)


def line_in_patch(trace: str, patch: str | None) -> str | None:
    """The file:line of the innermost frame of the patch in faulthandler's output
    (innermost first).
    """
    match = re.search(rf'File "{re.escape(patch)}", line (\d+)', trace) if patch else None
    return f"{patch}:{match[1]}" if match else None


def one_line(error: BaseException, length: int = 200) -> str:
    """An exception as one line of at most `length` characters."""
    return f"{type(error).__name__}: {error}".partition("\n")[0][:length]


def failure(cause: str, signature: str, stage: str = "", **known: Any) -> dict[str, Any]:
    """A `Failure` with only the `known` fields filled in."""
    named = {"cause": cause, "signature": signature, "stage": stage}
    return {**named, "detail": "", "where": None, "raised_at": None, "missing": [], **known}


def exit_failure(status: int) -> dict[str, str]:
    """Cause and signature for a process that ended without a reply; `status` comes from
    `os.waitpid`.
    """
    if os.WIFSIGNALED(status):
        number = signal.Signals(os.WTERMSIG(status))
        cause = "machine" if number in _MACHINE_SIGNALS else "crashed"
        return {"cause": cause, "signature": f"killed by {number.name}"}
    signature = f"the process exited with status {os.WEXITSTATUS(status)}"
    return {"cause": "exited", "signature": signature}


def exception_failure(error: BaseException, patch: str | None) -> dict[str, Any]:
    """The failure for an exception, without its stage.

    `where` is the innermost line of the patch in the traceback, or the patch if there is none;
    `raised_at` is the innermost line of all, if it differs from `where`. Both avoid `traceback` and
    `linecache`, which a patch may replace.
    """
    chain = list(_chain(error))
    root = chain[-1]
    text = _INSTALLED.sub("", _text_of(root).strip().split("\n")[0])
    text = text[: 1000 if isinstance(root, ImportError) else 200]  # missing names are named in full
    if isinstance(root, subprocess.CalledProcessError):
        # The command is long, and its output is what matters.
        printed = root.stderr or root.output or b""
        if isinstance(printed, bytes):
            printed = printed.decode(errors="replace")
        text = f"{text[:80]}...: {printed}"[:400]
    frames = [frame for one in chain for frame in _frames(one.__traceback__)]
    where = _place([frame for frame in frames if frame[0] == patch]) or patch
    if isinstance(root, SyntaxError) and root.filename and root.filename == patch:
        where = f"{_short(root.filename)}:{root.lineno}"
    if isinstance(root, DoesNotApply):
        where = root.place  # the file that ran was made from the diff
    is_ours = not frames or frames[-1][0].startswith(_OURS)  # such as for a SyntaxError
    raised_at = None if is_ours else _place(frames)
    signature = f"{type(root).__name__}: {text}" if text else type(root).__name__
    is_comparison = bool(frames) and frames[-1][0] in _COMPARES
    if is_comparison:
        signature = f"a comparison of patchgate failed, please report it: {signature}"
    stood_in = next((one for one in chain if isinstance(one, StandsIn)), None)
    if stood_in not in (None, root):
        signature += f"; {stood_in}"
    is_missing = lacks_a_module(error)
    return {
        "cause": "missing" if is_missing else "machine" if is_comparison else _cause(root),
        "signature": signature,
        "detail": "\n".join(_described(chain))[-_DETAIL:],
        "where": where,
        "raised_at": None if raised_at == where else raised_at,
        "missing": _missing(root, stood_in, is_missing),
    }


def _missing(root: BaseException, stood_in: StandsIn | None, is_missing: bool) -> list[str]:
    """The packages that are not installed, or the name that torch lacks."""
    if stood_in is not None and stood_in.missing:
        return list(stood_in.missing)
    with suppress(Exception):  # a patch may have replaced functions that this needs
        return missing_packages() if is_missing else _missing_of_torch(root)
    return []


def _missing_of_torch(error: BaseException) -> list[str]:
    """The name that torch lacks, if the error is about such a name.

    An exception of a class of the patch's own is not examined.
    """
    if type(error) is not AttributeError or error.obj is not sys.modules.get("torch"):
        return []
    return [f"torch.{error.name}"]


def lacks_a_module(error: BaseException) -> bool:
    """True if a missing module may be the reason for the error: a stand-in had to decide
    something, or the project's own code failed.
    """
    if not are_used():
        return False
    chain = list(_chain(error))
    frames = [frame for one in chain for frame in _frames(one.__traceback__)]
    said = f"{type(chain[-1]).__name__}: {_text_of(chain[-1])}"
    is_about_torch = re.search(r"'(?:torch|triton)\b", said)
    is_import = re.search(r"(?:Import|ModuleNotFound)Error: ", said) and not is_about_torch
    return (
        any(isinstance(one, StandsIn) for one in chain)
        or bool(is_import)
        or (bool(frames) and is_missed_by(frames[-1][0]))
        or _NO_DEVICE in said
        or f"{StandsIn.__name__}: " in said
    )


def lacks_a_device(error: BaseException) -> bool:
    """True if the error names a device that a missing package may register."""
    return are_used() and _NO_DEVICE_MODULE in _text_of(error)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, then its causes, because Dynamo and Inductor wrap errors.

    Each is yielded once.
    """
    seen: set[int] = set()
    inner: Any = error
    while isinstance(inner, BaseException) and id(inner) not in seen:
        seen.add(id(inner))
        yield inner
        inner = getattr(inner, "inner_exception", None) or inner.__cause__


def _text_of(error: BaseException) -> str:
    """The text of an exception; a patch may raise one that has no text."""
    try:
        return str(error)
    except Exception:
        return ""


def _frames(trace: TracebackType | None) -> Iterator[_Frame]:
    """The frames of a traceback, outermost first."""
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith("<frozen "):  # Python's own import system
            yield code.co_filename, trace.tb_lineno, code.co_name
        trace = trace.tb_next


def _place(frames: Sequence[_Frame]) -> str | None:
    """The file:line of the last frame."""
    return f"{_short(frames[-1][0])}:{frames[-1][1]}" if frames else None


def _described(chain: Sequence[BaseException]) -> Iterator[str]:
    """Lines like those of a traceback, without source text; the innermost exception last."""
    for error in chain:
        for file, line, name in _frames(error.__traceback__):
            yield f'  File "{file}", line {line}, in {name}'
        yield f"{type(error).__name__}: {_text_of(error)}"


def _cause(error: BaseException) -> str:
    if isinstance(error, MemoryError) or _NO_MEMORY.search(_text_of(error)):
        return "out-of-memory"
    if isinstance(error, SystemExit):
        return "exited"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "machine"
    return "raised"


def _short(filename: str) -> str:
    """A path as a reader knows it: `torch/...` for torch's files, others unchanged."""
    _, marker, below = filename.partition("/site-packages/")
    return below if marker else filename
