"""What a process that answers leaves behind: its reply, or how its failure is told.

Decides cause, signature and place of a failure. The patch may do anything
after this module was imported, so what a reply needs is bound here, before.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import traceback
from typing import Any, NoReturn

from patchgate.probe.patch.apply_diff import DoesNotApply

_write, _exit, _dumps, _replace = os.write, os._exit, json.dumps, os.replace
_MEMORY_WORDS = ("can't allocate memory", "cannot allocate memory", "not enough memory", "std::bad_alloc")
# Signals that come from the machine, not from the patch.
_FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT}


def leave(reply: dict[str, Any], path: str) -> NoReturn:
    """Write `reply` to `path`, whole or not at all, and end."""
    try:
        # Half a surrogate pair, which only a patch's own text has, could not be printed outside.
        data = _dumps(reply, ensure_ascii=False).encode(errors="replace")
        descriptor = os.open(f"{path}.tmp", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        while data:
            data = data[_write(descriptor, data) :]
        _replace(f"{path}.tmp", path)
    finally:
        _exit(0)


def place_in_patch(trace: str, patch: str | None) -> str | None:
    """file:line of the innermost frame of the patch in what faulthandler wrote (innermost first)."""
    found = re.search(rf'File "{re.escape(patch)}", line (\d+)', trace) if patch else None
    return f"{patch}:{found[1]}" if found else None


def ended(status: int) -> dict[str, Any]:
    """The failure of a process that ended without a reply."""
    if os.WIFSIGNALED(status):
        number = signal.Signals(os.WTERMSIG(status))
        cause = "machine" if number in _FROM_OUTSIDE else "crashed"
        return {"cause": cause, "signature": f"killed by {number.name}"}
    return {"cause": "exited", "signature": f"exited with status {os.WEXITSTATUS(status)} before it was done"}


def describe(error: BaseException, patch: str | None) -> dict[str, Any]:
    """Cause, signature and place of an exception, for the outside."""
    root = error
    # Dynamo and Inductor wrap what went wrong; the user needs the innermost error.
    while (inner := getattr(root, "inner_exception", None) or root.__cause__) is not None:
        root = inner
    text = str(root).strip().split("\n")[0][:200]
    if isinstance(root, subprocess.CalledProcessError):
        # The command is long, and what it said is what matters.
        said = root.stderr or root.output or b""
        text = f"{text[:80]}...: {said.decode(errors='replace') if isinstance(said, bytes) else said}"[:400]
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
    """A path as a reader knows it: torch's files from `torch/` on, others as they were given."""
    marker = "/site-packages/"
    return filename.split(marker, 1)[1] if marker in filename else filename
