"""The fork server: torch and Inductor imported and warm, a fresh child for every request.

Decides when a child has run too long and how it ended. Refuses to know what
requests mean. It never initialises CUDA, runs no parallel region and starts
no compile worker, because none of these survives a fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import inspect
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

from patchgate.probe.process.cpu_wait_clock import Clock
from patchgate.probe.process.reply import ended, place_in_patch

_TAIL = 4000
# What faulthandler writes of a few threads: the innermost frame comes first.
_TRACE = 1 << 16
_PR_SET_CHILD_SUBREAPER = 36
# For a child that is told to say where it hangs, and to end; one that does not is killed.
_LAST_WORDS_SECONDS = 5


def warm_up() -> None:
    """Import what a compile imports and generate code for one small CPU graph."""
    # NVML answers without creating a context, which a forked child could not use.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    import torch
    import torch._inductor.codegen.triton
    import torch._inductor.compile_fx
    import torch._inductor.decomposition as decomposition
    import torch._inductor.fx_passes.joint_graph as joint_graph
    import torch._inductor.fx_passes.post_grad
    import torch._inductor.lowering
    import torch._inductor.runtime.triton_heuristics
    import torch._inductor.select_algorithm

    with contextlib.suppress(ImportError):
        import triton.compiler
        import triton.language  # noqa: F401

    from patchgate.probe.compile import observe, sentinel
    from patchgate.probe.compile.capture import capture
    from patchgate.probe.simulate import cpu_build

    if cpu_build.is_cpu_only():
        cpu_build.register_cuda()
    torch.set_num_threads(1)
    # Torch 2.10 takes no device here.
    joint_graph.lazy_init(*[torch.device("cpu")] * len(inspect.signature(joint_graph.lazy_init).parameters))
    profile = {"kind": "codegen", "backend": "cpu", "isa": "avx2", "threads": 1}
    capture(sentinel.build, dtype=torch.float32, dynamic=False, profile=profile)
    torch._dynamo.reset()
    # A copy of the table that the first compile made would hide a decomposition that is replaced later.
    decomposition.fast_random_decomps.cache_clear()
    observe.environment()
    # A collection in a child would write to, and so copy, every page that it shares with this process.
    gc.collect()
    gc.freeze()


@dataclass
class _Job:
    pid: int
    folder: str
    connection: socket.socket
    clock: Clock
    seconds: float
    patch: str | None = None
    late: bool = False


class Server:
    """Accepts one JSON request a connection, forks, and sends one JSON reply."""

    def __init__(self, listener: socket.socket, home: str) -> None:
        self._listener, self._home = listener, home
        self._selector = selectors.DefaultSelector()
        self._jobs: dict[int, _Job] = {}

    def serve(self, until: int) -> None:
        """Serve until the file descriptor `until` closes: nobody is left to ask."""
        warm_up()
        self._selector.register(self._listener, selectors.EVENT_READ, self._start)
        self._selector.register(until, selectors.EVENT_READ, None)
        try:
            while True:
                for key, _ in self._selector.select(timeout=0.05 if self._jobs else None):
                    if key.data is None:
                        return
                    key.data(key.fileobj)
                self._kill_late()
        finally:
            for job in self._jobs.values():
                _kill(job.pid)

    def _start(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        request = _question(connection)
        if request is None:
            connection.close()
            return
        folder = tempfile.mkdtemp(prefix="child-", dir=self._home)
        pid = os.fork()
        if pid == 0:
            self._become_child(request, folder)
        ended = os.pidfd_open(pid)
        seconds = request["limits"]["seconds"]
        self._jobs[ended] = _Job(pid, folder, connection, Clock(pid), seconds, request.get("patch"))
        self._selector.register(ended, selectors.EVENT_READ, self._finish)

    def _become_child(self, request: dict[str, Any], folder: str) -> None:
        self._selector.close()
        self._listener.close()
        for job in self._jobs.values():
            job.connection.close()
        for name, value in request.get("env", {}).items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if request.get("fresh"):
            # A device cannot be used in the fork of a process that has looked for one.
            with open(f"{folder}/request.json", "w", encoding="utf-8") as file:
                json.dump(request, file)
            os.execv(sys.executable, [sys.executable, "-m", "patchgate.probe.process.child", folder])
        from patchgate.probe.process.child import answer

        answer(request, folder)

    def _kill_late(self) -> None:
        for job in self._jobs.values():
            seconds = job.clock.seconds()
            if not job.late and seconds > job.seconds:
                job.late = True
                with contextlib.suppress(ProcessLookupError):
                    os.kill(job.pid, signal.SIGUSR1)
            if seconds > job.seconds + _LAST_WORDS_SECONDS:
                _kill(job.pid)

    def _finish(self, ended: int) -> None:
        job = self._jobs.pop(ended)
        self._selector.unregister(ended)
        os.close(ended)
        _kill(job.pid)  # whatever the patch has started in the child's group
        _, status = os.waitpid(job.pid, 0)
        self._kill_orphans()
        reply = _reply(job, status)
        with contextlib.suppress(OSError):
            job.connection.sendall(json.dumps(reply).encode() + b"\n")
        job.connection.close()
        shutil.rmtree(job.folder, ignore_errors=True)

    def _kill_orphans(self) -> None:
        """What a patch has detached from its group becomes this process's child (see `main`), and ends here."""
        ours = {job.pid for job in self._jobs.values()}
        for _ in range(100):
            orphans = set(_children()) - ours
            if not orphans:
                return
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as told:
        return [int(pid) for pid in told.read().split()]


def _question(connection: socket.socket) -> dict[str, Any] | None:
    """The request on a connection; None when what came is none."""
    with contextlib.suppress(OSError, ValueError):
        request = json.loads(connection.makefile("rb").readline())
        if isinstance(request, dict) and isinstance(request.get("limits"), dict) and "seconds" in request["limits"]:
            return request
    return None


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _read(path: str, most: int = _TAIL) -> str:
    """The end of a file."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _reply(job: _Job, status: int) -> dict[str, Any]:
    """The child's own reply, or a failure made from how it ended."""
    stage = _read(f"{job.folder}/stage").strip() or "start"
    reply: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError), open(f"{job.folder}/reply.json", encoding="utf-8") as file:
        reply = json.load(file)
    if not reply:
        reply = {"failure": _how_it_ended(job, status)}
    if "failure" in reply:
        trace = _read(f"{job.folder}/trace", _TRACE)
        told = {"detail": trace or _read(f"{job.folder}/output"), "where": place_in_patch(trace, job.patch)}
        reply["failure"] = told | reply["failure"] | {"stage": stage}
    return reply


def _how_it_ended(job: _Job, status: int) -> dict[str, Any]:
    if job.late:
        return {"cause": "hung", "signature": "did not end within the time limit"}
    return ended(status)


def main() -> None:
    """`python -m patchgate.probe FD HOME`: serve the listening socket FD until standard input closes.

    Then HOME is taken away, because whoever made it may have been killed; after a fault of ours it stays, with the log.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    listener, home = sys.argv[1:3]
    Server(socket.socket(fileno=int(listener)), home).serve(until=0)
    shutil.rmtree(home, ignore_errors=True)
