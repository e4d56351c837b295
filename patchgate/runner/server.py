"""Starts the fork server of one torch environment, outside that environment.

Decides its interpreter, its environment variables and its end. Refuses to
know what it is asked.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from patchgate.model.paths import PACKAGE

# What a torch process needs to run; secrets of the caller's environment do not travel to a patch.
_PASSED_ON = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
)


@dataclass(frozen=True)
class Server:
    """A running fork server; it ends when the process that started it does."""

    torch: str
    process: subprocess.Popen[bytes]
    folder: tempfile.TemporaryDirectory[str]

    @property
    def socket(self) -> str:
        return f"{self.folder.name}/socket"

    @property
    def log(self) -> str:
        return f"{self.folder.name}/log"

    def stop(self) -> None:
        if self.process.stdin:
            self.process.stdin.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()


def start_server(torch: str, python: str) -> Server:
    """Start it and return at once; whoever asks first waits until it is warm."""
    folder = tempfile.TemporaryDirectory(prefix="patchgate-")
    home = Path(folder.name)
    # A link to the package alone: none of our own dependencies becomes importable over there.
    (home / "lib").mkdir()
    (home / "lib" / "patchgate").symlink_to(PACKAGE, target_is_directory=True)
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    environment |= {
        "PYTHONPATH": str(home / "lib"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        # A server that has seen a GPU cannot fork; a case on a real device asks for it by name.
        "CUDA_VISIBLE_DEVICES": "",
        "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"),
        "TRITON_CACHE_DIR": str(home / "triton"),
    }
    # Listening from here on: a question waits while the server warms up, and fails at once when it has died.
    with open(home / "log", "wb") as log, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home / "socket"))
        listener.listen(64)
        process = subprocess.Popen(
            [python, "-m", "patchgate.probe", str(listener.fileno()), folder.name],
            pass_fds=[listener.fileno()],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=folder.name,
        )
    return Server(torch, process, folder)
