"""`python -m patchgate.probe FD FD FD HOME`: starts the fork servers inside a torch environment.

This process ends the servers and their children once the host is gone. It imports no torch itself.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time

from patchgate.probe.process.child_cleanup import kill_children, remove_folder
from patchgate.probe.process.namespaces import adopt_orphans, end_with_parent
from patchgate.probe.protocol import LOADED
from patchgate.probe.serve.server import Server
from patchgate.probe.serve.warm_up import import_compiler, import_torch


def main() -> None:
    """Start a server for each state of torch, one for each control channel, and watch them.

    This process stays small. When the host has ended, this process at once ends the servers and all
    their processes, even during an import of torch, and removes the folder HOME. If a server ends
    before the host, the folder stays, with the log.
    """
    adopt_orphans()
    home = sys.argv[-1]
    channels = [socket.socket(fileno=int(number)) for number in sys.argv[1:-1]]
    controls = dict(zip(LOADED, channels, strict=True))
    servers = [os.pidfd_open(_start(loaded, controls, home)) for loaded in ("torch", "nothing")]
    poll = select.poll()
    for control in channels:
        poll.register(control, select.POLLRDHUP)
    for server in servers:
        poll.register(server, select.POLLIN)
    ready = dict(poll.poll())
    kill_children(set())
    if not ready.keys() & servers or any(each.fileno() in ready for each in channels):
        remove_folder(home).wait()


def _start(loaded: str, controls: dict[str, socket.socket], home: str, before: float = 0.0) -> int:
    """Fork the server for the channel `loaded`, which names the part of torch that it loads.

    The `torch` server forks the `compiler` server. `before` is the CPU seconds that the parent had
    used before the fork.
    """
    pid = os.fork()
    if pid:
        return pid
    adopt_orphans()
    end_with_parent()
    helpers = set()
    if loaded == "torch":
        import_torch()
        helpers = {_start("compiler", controls, home, time.process_time())}
    elif loaded == "compiler":
        import_compiler()
    for other in controls.keys() - {loaded}:
        controls[other].close()
    Server(controls[loaded], home, loaded, before + time.process_time(), helpers).serve()
    os._exit(0)


main()
