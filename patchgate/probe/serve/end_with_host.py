"""The parent process of the fork server: ends it and its children when the host has gone. It imports no torch."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys

from patchgate.probe.process.child_cleanup import kill_children, remove_folder
from patchgate.probe.serve.server import Server

# From linux/prctl.h.
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main() -> None:
    """`python -m patchgate.probe FD HOME`: serve the requests that the control channel FD brings, until it closes.

    This process stays small and only watches: once the host has gone, or was killed, it ends the server and all that
    came of it at once, also while torch is imported, and removes the folder HOME. After an exception of the server's
    the folder stays, with the log.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    control, home = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        Server(control, home).serve()
        os._exit(0)
    poll, pidfd = select.poll(), os.pidfd_open(pid)
    poll.register(control, select.POLLRDHUP)
    poll.register(pidfd, select.POLLIN)
    ready = dict(poll.poll())
    kill_children(set())
    if pidfd not in ready or control.fileno() in ready:
        removing = remove_folder(home)
        if removing:
            removing.wait()
