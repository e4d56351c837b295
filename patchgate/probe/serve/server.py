"""The fork server: it has torch and Inductor imported and warm, and forks a child for every request.

It ends a child that runs too long, and reports how a child ended. It never initialises CUDA, runs no parallel region
and starts no compile worker, because none of these survives a fork.
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
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from patchgate.probe.process.cpu_wait_clock import CpuWaitClock
from patchgate.probe.process.reply import exit_failure, line_in_patch
from patchgate.probe.protocol import Failure, Request, refusal

# Bytes of a child's output that a failure shows.
_OUTPUT_BYTES = 4000
# Bytes of what faulthandler writes: a few threads, the innermost frame first.
_TRACE_BYTES = 1 << 16
# From linux/prctl.h.
_PR_SET_CHILD_SUBREAPER = 36
# A child that runs late is asked for its traceback, which ends it; so much later it is killed.
_TRACEBACK_SECONDS = 5


@contextlib.contextmanager
def _keeping_bytecode() -> Iterator[None]:
    """Within it, what is imported is compiled once for every later server of this environment.

    uv installs torch without bytecode, and to compile its sources takes more than half of the time of a warm-up.
    """
    unchanged, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        yield
    finally:
        sys.dont_write_bytecode = unchanged


@_keeping_bytecode()
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

    from patchgate.probe.compile import sentinel
    from patchgate.probe.compile.capture import capture
    from patchgate.probe.compile.observe import environment
    from patchgate.probe.simulate import cpu_build

    if cpu_build.is_cpu_only():
        cpu_build.register_cuda()
    torch.set_num_threads(1)
    # Torch 2.10 takes no device here, later releases take one.
    joint_graph.lazy_init(*[torch.device("cpu")] * len(inspect.signature(joint_graph.lazy_init).parameters))
    profile = {"kind": "codegen", "backend": "cpu", "isa": "avx2", "threads": 1}
    capture(sentinel.build, dtype=torch.float32, dynamic=False, profile=profile)
    torch._dynamo.reset()
    # A copy of the table that the first compile made would hide a decomposition that is replaced later.
    decomposition.fast_random_decomps.cache_clear()
    environment()
    # A collection in a child would write to, and so copy, every page that it shares with this process.
    gc.collect()
    gc.freeze()


@dataclass
class _Child:
    pid: int
    folder: str  #: Where it writes its reply, its step ("stage"), its output and its traceback.
    connection: socket.socket  #: To the host.
    clock: CpuWaitClock
    seconds: float  #: Its time limit.
    patch: str | None
    is_late: bool = False


class Server:
    """Accepts one JSON request a connection, forks, and sends one JSON reply."""

    def __init__(self, listener: socket.socket, home: str) -> None:
        self._listener, self._home = listener, home
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, _Child] = {}  # by pidfd

    def serve(self, until: int) -> None:
        """Serve until the file descriptor `until` closes, which the host holds open."""
        warm_up()
        self._selector.register(self._listener, selectors.EVENT_READ, self._start)
        self._selector.register(until, selectors.EVENT_READ, None)
        try:
            while True:
                for key, _ in self._selector.select(timeout=0.05 if self._children else None):
                    if key.data is None:
                        return
                    key.data(key.fileobj)
                self._end_late_children()
        finally:
            for child in self._children.values():
                _kill(child.pid)

    def _start(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        request = _read_request(connection)
        refused = refusal(request)
        if refused:
            # The fault is not the patch's: host and probe do not fit together.
            failure: Failure = {
                "cause": "machine",
                "stage": "request",
                "signature": refused,
                "detail": "",
                "where": None,
            }
            _send(connection, {"failure": failure})
            return
        folder = tempfile.mkdtemp(prefix="child-", dir=self._home)
        pid = os.fork()
        if pid == 0:
            self._become_child(request, folder)
        pidfd = os.pidfd_open(pid)
        limit, patch = request["limits"]["seconds"], request.get("patch")
        self._children[pidfd] = _Child(pid, folder, connection, CpuWaitClock(pid), limit, patch)
        self._selector.register(pidfd, selectors.EVENT_READ, self._finish)

    def _become_child(self, request: Request, folder: str) -> None:
        self._selector.close()
        self._listener.close()
        for child in self._children.values():
            child.connection.close()
        for name, value in request.get("env", {}).items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if request.get("fresh"):
            # A device cannot be used in the fork of a process that has looked for one.
            with open(f"{folder}/request.json", "w", encoding="utf-8") as file:
                json.dump(request, file)
            os.execv(sys.executable, [sys.executable, "-m", "patchgate.probe.serve.child", folder])
        from patchgate.probe.serve.child import answer

        answer(request, folder)

    def _end_late_children(self) -> None:
        for child in self._children.values():
            seconds = child.clock.seconds()
            if not child.is_late and seconds > child.seconds:
                child.is_late = True
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGUSR1)
            if seconds > child.seconds + _TRACEBACK_SECONDS:
                _kill(child.pid)

    def _finish(self, pidfd: int) -> None:
        child = self._children.pop(pidfd)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        _kill(child.pid)  # whatever the patch has started in the child's group
        _, status = os.waitpid(child.pid, 0)
        self._kill_orphans()
        _send(child.connection, _reply(child, status))
        shutil.rmtree(child.folder, ignore_errors=True)

    def _kill_orphans(self) -> None:
        """End what a patch has detached from its group: it becomes this process's child (see `main`)."""
        known = {child.pid for child in self._children.values()}
        for _ in range(100):
            with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as listed:
                orphans = {int(pid) for pid in listed.read().split()} - known
            if not orphans:
                return
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)


def _read_request(connection: socket.socket) -> Any:
    """The request on a connection; None when it is no JSON."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads(connection.makefile("rb").readline())
    return None


def _send(connection: socket.socket, reply: dict[str, Any]) -> None:
    with contextlib.suppress(OSError), connection:
        connection.sendall(json.dumps(reply).encode() + b"\n")


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _end_of(path: str, size: int) -> str:
    """The last `size` bytes of a file; nothing where there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _reply(child: _Child, status: int) -> dict[str, Any]:
    """The child's own reply, or a failure that says how it ended."""
    reply: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError), open(f"{child.folder}/reply.json", encoding="utf-8") as file:
        reply = json.load(file)
    if not reply:
        late = {"cause": "hung", "signature": "did not end within the time limit"}
        reply = {"failure": late if child.is_late else exit_failure(status)}
    if "failure" in reply:
        stage = _end_of(f"{child.folder}/stage", _OUTPUT_BYTES).strip() or "start"
        trace = _end_of(f"{child.folder}/trace", _TRACE_BYTES)
        detail = trace or _end_of(f"{child.folder}/output", _OUTPUT_BYTES)
        known = {"detail": detail, "where": line_in_patch(trace, child.patch)}
        reply["failure"] = known | reply["failure"] | {"stage": stage}
    return reply


def main() -> None:
    """`python -m patchgate.probe FD HOME`: serve the listening socket FD until standard input closes.

    Then the folder HOME is removed, because the host may have been killed. After an exception here it stays, with the
    log.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    listener, home = sys.argv[1:3]
    Server(socket.socket(fileno=int(listener)), home).serve(until=0)
    shutil.rmtree(home, ignore_errors=True)
