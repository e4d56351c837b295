"""Writes the reply of a process, and describes failures: of an exception, and of a process that ended without a reply.

A patch may replace anything once this module is imported, so what writing a reply needs is bound here.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import traceback
from collections.abc import Mapping
from typing import Any, NoReturn

_write, _exit, _dumps = os.write, os._exit, json.dumps
# How torch, the kernel and C++ say that memory is short, in lower case.
_MEMORY_WORDS = ("can't allocate memory", "cannot allocate memory", "not enough memory", "std::bad_alloc")
# Signals that come from the machine (an operator, the kernel's out-of-memory killer), not from the patch.
_MACHINE_SIGNALS = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT}


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
    """file:line of the innermost frame of the patch in what faulthandler wrote (innermost first)."""
    match = re.search(rf'File "{re.escape(patch)}", line (\d+)', trace) if patch else None
    return f"{patch}:{match[1]}" if match else None


def exit_failure(status: int) -> dict[str, str]:
    """Cause and signature for a process that ended without a reply; `status` is that of `os.waitpid`."""
    if os.WIFSIGNALED(status):
        number = signal.Signals(os.WTERMSIG(status))
        cause = "machine" if number in _MACHINE_SIGNALS else "crashed"
        return {"cause": cause, "signature": f"killed by {number.name}"}
    return {"cause": "exited", "signature": f"exited with status {os.WEXITSTATUS(status)} before it was done"}


def exception_failure(error: BaseException, patch: str | None) -> dict[str, Any]:
    """The failure that an exception means, but for its stage."""
    root = error
    # Dynamo and Inductor wrap what went wrong; the user needs the innermost error.
    while (inner := getattr(root, "inner_exception", None) or root.__cause__) is not None:
        root = inner
    text = str(root).strip().split("\n")[0][:200]
    if isinstance(root, subprocess.CalledProcessError):
        # The command is long, and what it printed is what matters.
        printed = root.stderr or root.output or b""
        text = f"{text[:80]}...: {printed.decode(errors='replace') if isinstance(printed, bytes) else printed}"[:400]
    frames = traceback.extract_tb(root.__traceback__) or traceback.extract_tb(error.__traceback__)
    in_patch = [frame for frame in frames if patch and frame.filename == patch]
    frame = (in_patch or list(frames) or [None])[-1]  # type: ignore[list-item]
    where = f"{_short(frame.filename)}:{frame.lineno}" if frame else None
    if isinstance(root, SyntaxError) and root.filename and root.filename == patch:
        where = f"{_short(root.filename)}:{root.lineno}"
    if isinstance(root, DoesNotApply):
        where = root.place  # the file that ran was made from the diff
    return {
        "cause": _cause(root),
        "signature": f"{type(root).__name__}: {text}" if text else type(root).__name__,
        "detail": "".join(traceback.format_exception(error))[-6000:],
        "where": where,
    }


def _cause(error: BaseException) -> str:
    if isinstance(error, MemoryError) or any(word in str(error).lower() for word in _MEMORY_WORDS):
        return "out-of-memory"
    if isinstance(error, SystemExit):
        return "exited"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "machine"
    return "raised"


def _short(filename: str) -> str:
    """A path as a reader knows it: `torch/...` for torch's files, others as they are."""
    marker = "/site-packages/"
    return filename.split(marker, 1)[1] if marker in filename else filename
