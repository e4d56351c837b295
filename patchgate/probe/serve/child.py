"""One child of the server, forked or started anew: it limits and confines itself, answers one request, and ends.

It must not return into the server's loop.
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
from typing import NoReturn

import torch._inductor.codecache as codecache

from patchgate.probe.process.reply import exception_failure, write_reply
from patchgate.probe.process.sandbox import CACHES, confine
from patchgate.probe.protocol import Limits, Request
from patchgate.probe.serve.answers import handler_of

# From linux/prctl.h.
_PR_SET_PDEATHSIG = 1
# Bytes of the largest file that a child may write: what a patch prints goes to a file.
_FILE_BYTES = 512 << 20


def answer(request: Request, folder: str) -> NoReturn:
    """Answer `request`: write `reply.json`, `stage`, `output` and `trace` to `folder`, and end."""
    _detach(folder)
    stage_fd = os.open(f"{folder}/stage", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)

    def stage(name: str) -> None:
        os.pwrite(stage_fd, name.ljust(16).encode(), 0)

    try:
        _limit(request["limits"])
        # Each child has caches of its own unless the request names them: entries that a patch leaves there would be
        # found by their source.
        named = request.get("env", {})
        os.environ.update({name: f"{folder}/{name.lower()}" for name in CACHES if name not in named})
        _confine(request, folder)
        stage("start")
        reply = handler_of(request["do"])(request, stage)
    except BaseException as error:  # the patch may raise anything, SystemExit included
        reply = {"failure": exception_failure(error, request.get("patch"))}
    write_reply(reply, f"{folder}/reply.json")


def _detach(folder: str) -> None:
    """Own process group, no terminal, and all output into a file: what the patch prints cannot be taken for a reply."""
    os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    output = os.open(f"{folder}/output", os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    trace = open(f"{folder}/trace", "w")  # noqa: SIM115 - faulthandler writes to it until the process ends
    faulthandler.enable(trace, all_threads=False)
    # The server ends a child that hangs so: the traceback is written, then the signal's default action ends it.
    faulthandler.register(signal.SIGUSR1, trace, all_threads=False, chain=True)


def _limit(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
    if limits["bytes"]:
        # Private memory that this process may add to what it inherited from the server.
        allowed = _private_bytes() + limits["bytes"]
        resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))


def _confine(request: Request, folder: str) -> None:
    """Put temporary files into the child's folder, and allow writing only there, in caches and to outputs.

    Nothing is confined on a real device: its driver writes files in places of its own.
    """
    if request.get("profile", {}).get("kind") == "real":
        return
    os.environ["TMPDIR"] = tempfile.tempdir = f"{folder}/tmp"
    os.mkdir(tempfile.tempdir)
    caches = [os.environ[name] for name in CACHES if name in os.environ]
    # Precompiled headers are shared by all cache folders of a machine. The unpatched side runs first and makes them;
    # a patch may wait for their lock, and not write them.
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
    with open(f"{sys.argv[1]}/request.json", encoding="utf-8") as request:
        answer(json.load(request), sys.argv[1])
