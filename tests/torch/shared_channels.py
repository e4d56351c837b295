"""Channels to the servers of one process for others: pytest-xdist's workers share a warm torch."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from patchgate.runner.start_server import Servers


@contextlib.contextmanager
def shared_channels(servers: Servers) -> Iterator[str]:
    """The name of an abstract socket, which gives channels for as long as the context lasts."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("")  # a name that nobody else has
        listener.listen(64)
        threading.Thread(target=_serve, args=[listener, servers], daemon=True).start()
        yield listener.getsockname().decode()


def _serve(listener: socket.socket, servers: Servers) -> None:
    with contextlib.suppress(OSError):  # closed
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_give, args=[connection, servers], daemon=True).start()


def _give(connection: socket.socket, servers: Servers) -> None:
    with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rb") as lines:
        torch, do = lines.readline(128).decode().rstrip().split("/", 1)
        with servers.connect(torch, do) as channel:
            socket.send_fds(connection, [b"."], [channel.fileno()])


def connect_through(name: str) -> Callable[[str, str], socket.socket]:
    """In a worker: asks for a channel to the server of a torch, for one question."""

    def connect(torch: str, do: str) -> socket.socket:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(name.encode())
            asking.sendall(f"{torch}/{do}\n".encode())
            _, channels, _, _ = socket.recv_fds(asking, 1, 1)
        if not channels:
            raise OSError(f"no server of torch {torch}")
        return socket.socket(fileno=channels[0])

    return connect
