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
from typing import NamedTuple, NoReturn

from patchgate.probe.process.reply import exception_failure, write_reply
from patchgate.probe.process.sandbox import CACHES, confine_child, limit_resources
from patchgate.probe.protocol import Request
from patchgate.probe.serve.answers import handler_of

# From linux/prctl.h.
_PR_SET_PDEATHSIG = 1


class Ends(NamedTuple):
    """The file descriptors that a child has of the server: a pipe, and files without a name."""

    reply: int  #: the writing end of the pipe for its one reply
    stage: int  #: holds the name of the step that runs now
    trace: int  #: what faulthandler writes
    output: int  #: what the child prints


def answer(request: Request, folder: str, ends: Ends) -> NoReturn:
    """Answer `request` in the folder of the child, and end."""
    _detach(ends)

    def stage(name: str) -> None:
        os.pwrite(ends.stage, name.ljust(16).encode(), 0)

    try:
        limit_resources(request["limits"])
        _write_tracebacks(ends.trace)
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
    write_reply(reply, ends.reply)


def _detach(ends: Ends) -> None:
    """Own process group, no terminal, and all output into a file: what the patch prints cannot be taken for a reply."""
    os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(ends.output, 1)
    os.dup2(ends.output, 2)
    os.close(null)
    os.close(ends.output)


def _write_tracebacks(trace: int) -> None:
    """The server ends a child that hangs by a signal: the traceback is written, then its default action ends it."""
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    faulthandler.enable(trace, all_threads=False)
    faulthandler.register(signal.SIGUSR1, trace, all_threads=False, chain=True)


if __name__ == "__main__":
    with open(f"{sys.argv[1]}/request.json", encoding="utf-8") as file:
        answer(json.load(file), sys.argv[1], Ends(*map(int, sys.argv[2:])))
