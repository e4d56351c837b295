"""One child, forked or started afresh: sets its own limits, answers one request, and never returns.

Decides how a failure inside the child is described. Refuses to know what the
request means. The patch may do anything after this module has started, so
what the reply needs is bound here, before.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import faulthandler
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from typing import Any, NoReturn

import torch._inductor.codecache as codecache

from patchgate.probe.answers import ANSWERS
from patchgate.probe.applying import Request
from patchgate.probe.confine import confine

_write, _exit, _dumps, _replace = os.write, os._exit, json.dumps, os.replace
_PR_SET_PDEATHSIG = 1
_OUTPUT_LIMIT = 512 << 20
_MEMORY_WORDS = ("can't allocate memory", "cannot allocate memory", "not enough memory", "std::bad_alloc")


def answer(request: Request, folder: str) -> NoReturn:
    """Answer `request`; leave `reply.json`, `stage`, `output` and `trace` in `folder`, and end."""
    _detach(folder)
    stage_fd = os.open(f"{folder}/stage", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)

    def stage(name: str) -> None:
        os.pwrite(stage_fd, name.ljust(16).encode(), 0)

    try:
        _limit(request["limits"])
        _confine(request, folder)
        stage("start")
        reply: dict[str, Any] = ANSWERS[request["do"]](request, stage)
    except BaseException as error:  # the patch may raise anything, SystemExit included
        reply = {"failure": _describe(error, request.get("patch"))}
    _leave(reply, folder)


def _leave(reply: dict[str, Any], folder: str) -> NoReturn:
    try:
        # Half a surrogate pair, which only a patch's own text has, could not be printed outside.
        data = _dumps(reply, ensure_ascii=False).encode(errors="replace")
        descriptor = os.open(f"{folder}/reply.tmp", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        while data:
            data = data[_write(descriptor, data) :]
        _replace(f"{folder}/reply.tmp", f"{folder}/reply.json")
    finally:
        _exit(0)


def _detach(folder: str) -> None:
    """Own process group, no terminal, all output into a file: nothing the patch prints gets out."""
    os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    output = os.open(f"{folder}/output", os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    trace = open(f"{folder}/trace", "w")  # noqa: SIM115 - faulthandler writes to it until the end
    faulthandler.enable(trace, all_threads=False)
    # The server asks for a traceback before it kills a child that hangs.
    faulthandler.register(signal.SIGUSR1, trace, all_threads=False)


def _limit(limits: dict[str, Any]) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_OUTPUT_LIMIT, _OUTPUT_LIMIT))
    if limits.get("bytes"):
        # Private memory that this process may add to what it inherited from the server.
        allowed = _private_bytes() + int(limits["bytes"])
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))


def _confine(request: Request, folder: str) -> None:
    """Temporary files go into the child's folder; nothing else may be written but caches and outputs.

    A real device's driver keeps files of its own in places that only it knows, so there nothing is confined.
    """
    if request.get("profile", {}).get("kind") == "real":
        return
    os.environ["TMPDIR"] = tempfile.tempdir = f"{folder}/tmp"
    os.mkdir(tempfile.tempdir)
    caches = [os.environ[name] for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR") if name in os.environ]
    # Compiled once a machine and compiler, whatever the cache folder. The unpatched side runs first and makes it;
    # a patch may wait for it, and not touch it.
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


def _describe(error: BaseException, patch: str | None) -> dict[str, Any]:
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


if __name__ == "__main__":
    with open(f"{sys.argv[1]}/request.json", encoding="utf-8") as told:
        answer(json.load(told), sys.argv[1])
