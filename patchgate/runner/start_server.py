"""Starts the fork servers of one torch environment, with its environment variables, and opens channels to them.

They end with the process that started them.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgate.model.paths import PACKAGE
from patchgate.probe.protocol import WITHOUT_TORCH
from patchgate.runner.cache_keys import environment_digest

# What a torch process needs to run; secrets of the caller's environment do not travel to a patch.
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_HOME")
# Seconds in which a worker says who it is.
_PATIENCE = 10
#: Torch release, question -> a new channel to its server for that. Raises OSError where the server has ended.
Connect = Callable[[str, str], socket.socket]


@dataclass(frozen=True)
class Server:
    """A running fork server; it ends when the process that started it does."""

    torch: str
    process: subprocess.Popen[bytes]
    folder: tempfile.TemporaryDirectory[str]
    control: socket.socket  #: brings it new channels; it has no address, and no child of the server has it
    without_torch: socket.socket  #: brings them to the one that has nothing of torch loaded

    @property
    def log(self) -> str:
        return f"{self.folder.name}/log"

    def connect(self, torch: str, do: str) -> socket.socket:
        """A new channel, for one question."""
        ours, theirs = socket.socketpair()
        with theirs:
            control = self.without_torch if do == WITHOUT_TORCH else self.control
            socket.send_fds(control, [b"."], [theirs.fileno()])
        return ours

    def stop(self) -> None:
        self.control.close()
        self.without_torch.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):  # it removes the folder itself
            self.folder.cleanup()


def start_server(torch: str, python: str) -> Server:
    """Start it and return at once; whoever asks first waits until it is warm."""
    folder = tempfile.TemporaryDirectory(prefix="run-")
    home = Path(folder.name)
    # No module, path or argument that a patch can see names us.
    name = f"m{secrets.token_hex(4)}"
    _copy_probe(home / "lib" / name)
    environment = {variable: os.environ[variable] for variable in _PASSED_ON if variable in os.environ}
    environment |= {
        "PYTHONPATH": str(home / "lib"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        # A server that has seen a GPU cannot fork; a case on a real device asks for it by name.
        "CUDA_VISIBLE_DEVICES": "",
        "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"),
        "TRITON_CACHE_DIR": str(home / "triton"),
    }
    # A question waits while the server warms up, and fails at once when it has died.
    (control, theirs), (without_torch, theirs_too) = socket.socketpair(), socket.socketpair()
    with open(home / "log", "wb") as log, theirs, theirs_too:
        process = subprocess.Popen(
            [python, "-m", f"{name}.probe", str(theirs.fileno()), str(theirs_too.fileno()), folder.name],
            pass_fds=[theirs.fileno(), theirs_too.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=folder.name,
            # Whoever interrupts a run stops the gate, and the gate its servers.
            start_new_session=True,
        )
    return Server(torch, process, folder, control, without_torch)


def _copy_probe(package: Path) -> None:
    """The probe's modules in a package of another name; none of our own dependencies is importable over there."""
    for file in (PACKAGE / "probe").rglob("*.py"):
        copy = package / file.relative_to(PACKAGE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(file.read_text(encoding="utf-8").replace(PACKAGE.name, package.name), encoding="utf-8")


class Broker:
    """Gives the workers of a run channels to its servers, which they have not started themselves.

    They ask over a socket without a place in any file system, and with a key that no server and no child of one has.
    """

    def __init__(self, servers: Iterable[Server]) -> None:
        self._servers = {server.torch: server for server in servers}
        self._key, name = secrets.token_hex(16), secrets.token_hex(16)
        self.address = {"name": name, "key": self._key}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"\0{name}")
        self._listener.listen(64)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._introduce, args=[connection], daemon=True).start()

    def _introduce(self, connection: socket.socket) -> None:
        """Hand over channels for as long as who asks has the key and asks on."""
        with contextlib.suppress(OSError, KeyError), connection, connection.makefile("rb") as requests:
            connection.settimeout(_PATIENCE)
            if not hmac.compare_digest(requests.readline(64).strip(), self._key.encode()):
                return
            connection.settimeout(None)
            while torch := requests.readline(64).decode().strip():
                with self._servers[torch].connect(torch, requests.readline(64).decode().strip()) as channel:
                    socket.send_fds(connection, [b"."], [channel.fileno()])

    def close(self) -> None:
        self._listener.close()


@contextlib.contextmanager
def shared_servers(rows: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Servers of these environments, and what a worker needs to ask them: "broker", "logs" and "identities"."""
    with contextlib.ExitStack() as stack:
        servers = []
        for torch, python in rows.items():
            servers.append(start_server(torch, python))
            stack.callback(servers[-1].stop)
        broker = Broker(servers)
        stack.callback(broker.close)
        yield {
            "broker": broker.address,
            "logs": {server.torch: server.log for server in servers},
            "identities": {torch: environment_digest(python) for torch, python in rows.items()},
        }


def are_serving(shared: Mapping[str, Any]) -> bool:
    """Whether each of the servers takes channels."""
    connect = connect_through(shared["broker"])
    with contextlib.suppress(OSError):
        for torch in shared["logs"]:
            connect(torch, "").close()
        return True
    return False


def connect_through(address: Mapping[str, str]) -> Connect:
    """In a worker: channels by the broker of this address."""
    broker: list[socket.socket] = []
    one_by_one = threading.Lock()

    def connect(torch: str, do: str) -> socket.socket:
        with one_by_one:
            if not broker:
                broker.append(socket.socket(socket.AF_UNIX))
                broker[0].connect(f"\0{address['name']}")
                broker[0].sendall(f"{address['key']}\n".encode())
            broker[0].sendall(f"{torch}\n{do}\n".encode())
            _, channels, _, _ = socket.recv_fds(broker[0], 1, 1)
        if not channels:
            raise OSError(f"no server of torch {torch}")
        return socket.socket(fileno=channels[0])

    return connect
