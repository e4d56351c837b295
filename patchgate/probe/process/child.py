"""One child, forked or started afresh: sets its own limits, answers one request, and never returns.

Decides its limits and what it may write. Refuses to know what the request
means.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import resource
import signal
import sys
import tempfile
from typing import Any, NoReturn

import torch._inductor.codecache as codecache

from patchgate.probe.answers import ANSWERS
from patchgate.probe.patch.apply import Request
from patchgate.probe.process.reply import describe, leave
from patchgate.probe.process.sandbox import CACHES, confine

_PR_SET_PDEATHSIG = 1
_OUTPUT_LIMIT = 512 << 20


def answer(request: Request, folder: str) -> NoReturn:
    """Answer `request`; leave `reply.json`, `stage`, `output` and `trace` in `folder`, and end."""
    _detach(folder)
    stage_fd = os.open(f"{folder}/stage", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)

    def stage(name: str) -> None:
        os.pwrite(stage_fd, name.ljust(16).encode(), 0)

    try:
        _limit(request["limits"])
        _keep_caches_apart(request, folder)
        _confine(request, folder)
        stage("start")
        reply: dict[str, Any] = ANSWERS[request["do"]](request, stage)
    except BaseException as error:  # the patch may raise anything, SystemExit included
        reply = {"failure": describe(error, request.get("patch"))}
    leave(reply, f"{folder}/reply.json")


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
    # So the server ends a child that hangs: it writes its traceback, and the signal's default then ends it.
    faulthandler.register(signal.SIGUSR1, trace, all_threads=False, chain=True)


def _limit(limits: dict[str, Any]) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_OUTPUT_LIMIT, _OUTPUT_LIMIT))
    if limits.get("bytes"):
        # Private memory that this process may add to what it inherited from the server.
        allowed = _private_bytes() + int(limits["bytes"])
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))


def _keep_caches_apart(request: Request, folder: str) -> None:
    """Each child has caches of its own, unless the request names them: what a patch leaves there is found by source."""
    named = request.get("env", {})
    os.environ.update({name: f"{folder}/{name.lower()}" for name in CACHES if name not in named})


def _confine(request: Request, folder: str) -> None:
    """Temporary files go into the child's folder; nothing else may be written but caches and outputs.

    A real device's driver keeps files of its own in places that only it knows, so there nothing is confined.
    """
    if request.get("profile", {}).get("kind") == "real":
        return
    os.environ["TMPDIR"] = tempfile.tempdir = f"{folder}/tmp"
    os.mkdir(tempfile.tempdir)
    caches = [os.environ[name] for name in CACHES if name in os.environ]
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


if __name__ == "__main__":
    with open(f"{sys.argv[1]}/request.json", encoding="utf-8") as told:
        answer(json.load(told), sys.argv[1])
