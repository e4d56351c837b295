"""Starts the fork servers of one torch environment, with its environment variables, and opens
channels to them.

The servers end with the process that started them.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchgate.model.paths import PACKAGE
from patchgate.probe.protocol import LOADED, QUESTIONS
from patchgate.runner.cache_keys import environment_digest
from patchgate.runner.environment_variables import inherited_variables
from patchgate.runner.leftovers import temporary_files_below

# Seconds that a server has to end by itself, before it is killed.
_PATIENCE = 5
#: (torch release, question) -> a new channel to the release's server, for that question. Raises
#: OSError if the server has ended.
Connect = Callable[[str, str], socket.socket]


@dataclass(frozen=True)
class Server:
    """A running fork server. It ends with the process that started it."""

    torch: str
    process: subprocess.Popen[bytes]
    folder: tempfile.TemporaryDirectory[str]
    #: Sockets that send new channels to the server, by the state of torch that a question needs
    #: (`LOADED`). Channels have no address, and the server's children do not have them.
    controls: Mapping[str, socket.socket]

    @property
    def log(self) -> str:
        return f"{self.folder.name}/log"

    def connect(self, do: str) -> socket.socket:
        """A new channel, for one question."""
        ours, theirs = socket.socketpair()
        with theirs:
            control = self.controls[QUESTIONS[do].loaded]
            socket.send_fds(control, [b"."], [theirs.fileno()])
        return ours

    def stop(self) -> None:
        for control in self.controls.values():
            control.close()
        try:
            self.process.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):  # the server removes the folder itself
            self.folder.cleanup()


def start_server(torch: str, python: str) -> Server:
    """Start a server and return at once; the first question waits until the server is warm."""
    folder = tempfile.TemporaryDirectory(prefix="run-")
    home = Path(folder.name)
    # No module, path or argument that a patch can see has our name.
    name = f"m{secrets.token_hex(4)}"
    _copy_probe(home / "lib" / name)
    environment = inherited_variables() | {
        "PYTHONPATH": str(home / "lib"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        # A server that has used a GPU cannot fork; a case on a real device asks for the GPU by
        # name.
        "CUDA_VISIBLE_DEVICES": "",
        "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"),
        "TRITON_CACHE_DIR": str(home / "triton"),
    }
    # A question waits while the server warms up, and fails at once if the server has died.
    controls = {}
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open(home / "log", "wb"))
        ends = []
        for loaded in LOADED:
            controls[loaded], theirs = socket.socketpair()
            ends.append(stack.enter_context(theirs).fileno())
        process = subprocess.Popen(
            [python, "-m", f"{name}.probe", *map(str, ends), folder.name],
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=folder.name,
            # An interrupt stops the gate, which stops its servers.
            start_new_session=True,
        )
    return Server(torch, process, folder, controls)


def _copy_probe(package: Path) -> None:
    """Copy the probe's modules, without the rest of patchgate, into a package of another name."""
    for file in (PACKAGE / "probe").rglob("*.py"):
        copy = package / file.relative_to(PACKAGE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(
            file.read_text(encoding="utf-8").replace(PACKAGE.name, package.name), encoding="utf-8"
        )


@dataclass(frozen=True)
class Servers:
    """The running servers of some environments, by torch release.

    Threads may ask them at the same time.
    """

    by_torch: Mapping[str, Server]
    identities: Mapping[str, str]  #: digests of the environments

    @property
    def logs(self) -> dict[str, str]:
        return {torch: server.log for torch, server in self.by_torch.items()}

    def connect(self, torch: str, do: str) -> socket.socket:
        """A new channel to the server of a torch, for one question.

        Raises OSError if the torch has no running server.
        """
        if torch not in self.by_torch:
            raise OSError(f"no server of torch {torch}")
        return self.by_torch[torch].connect(do)

    def are_serving(self) -> bool:
        """True if each of the servers accepts channels."""
        with contextlib.suppress(OSError):
            for torch in self.by_torch:
                self.connect(torch, "observe").close()
            return True
        return False


@contextlib.contextmanager
def running_servers(rows: Mapping[str, str]) -> Iterator[Servers]:
    """Run servers of these environments until the context, or this process, ends."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(temporary_files_below())
        by_torch = {}
        for torch, python in rows.items():
            by_torch[torch] = start_server(torch, python)
            stack.callback(by_torch[torch].stop)
        yield Servers(
            by_torch, {torch: environment_digest(python) for torch, python in rows.items()}
        )
