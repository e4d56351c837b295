"""`python -m patchgate.probe FD FD HOME`: starts the fork servers inside a torch environment.

It ends them and their children when the host has gone, and imports no torch.
"""

from __future__ import annotations

import os
import select
import socket
import sys

from patchgate.probe.process.child_cleanup import kill_children, remove_folder
from patchgate.probe.process.namespaces import end_with_parent, libc
from patchgate.probe.serve.server import Server

# From linux/prctl.h.
_PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    """Serve the requests that two control channels bring, until they close.

    Those of the first in a process that has torch warm, those of the second where nothing of torch
    is loaded. This process stays small and only watches: once the host has gone, or was killed, it
    ends the servers and all that came of them at once, also while torch is imported, and removes
    the folder HOME. After an exception of a server's the folder stays, with the log.
    """
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    controls, home = [socket.socket(fileno=int(number)) for number in sys.argv[1:3]], sys.argv[3]
    servers = [os.pidfd_open(_serve(controls, home, at)) for at in range(len(controls))]
    poll = select.poll()
    for control in controls:
        poll.register(control, select.POLLRDHUP)
    for server in servers:
        poll.register(server, select.POLLIN)
    ready = dict(poll.poll())
    kill_children(set())
    if not ready.keys() & servers or any(control.fileno() in ready for control in controls):
        removing = remove_folder(home)
        if removing:
            removing.wait()


def _serve(controls: list[socket.socket], home: str, at: int) -> int:
    """The process that serves one of the channels, the first one with torch."""
    pid = os.fork()
    if pid == 0:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        end_with_parent()
        control = controls.pop(at)
        for other in controls:
            other.close()
        Server(control, home, torch=at == 0).serve()
        os._exit(0)
    return pid


main()
