"""One child of the server, forked or started anew: it limits and confines itself, answers one request, and ends.

It must not return into the server's loop.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
from typing import NoReturn

from patchgate.probe.process.reply import exception_failure, write_reply
from patchgate.probe.process.sandbox import CACHES, confine_child, limit_resources
from patchgate.probe.protocol import Request
from patchgate.probe.serve.answers import handler_of

# From linux/prctl.h.
_PR_SET_PDEATHSIG = 1


def answer(request: Request, folder: str) -> NoReturn:
    """Answer `request`: write `reply.json`, `stage`, `output` and `trace` to `folder`, and end."""
    _detach(folder)
    stage_fd = os.open(f"{folder}/stage", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)

    def stage(name: str) -> None:
        os.pwrite(stage_fd, name.ljust(16).encode(), 0)

    try:
        limit_resources(request["limits"])
        # Each child has caches of its own unless the request names them: entries that a patch leaves there would be
        # found by their source.
        named = request.get("env", {})
        os.environ.update({name: f"{folder}/{name.lower()}" for name in CACHES if name not in named})
        confine_child(request, folder)
        # Last, so that no module of the project stands in for one of Python's; and not in the unconfined server.
        sys.path += request.get("import_path", [])
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


if __name__ == "__main__":
    with open(f"{sys.argv[1]}/request.json", encoding="utf-8") as request:
        answer(json.load(request), sys.argv[1])
