"""A fork server: it has loaded the whole compiler, only torch, or nothing of torch, and forks a
child for every request.

It reads the child's reply, ends a child that runs too long and reports how it ended. It never
initialises CUDA, runs a parallel region or starts a compile worker: none of these survives a fork.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from patchgate.probe.process.child_cleanup import NAMED, hand_over, kill_children, remove_folder
from patchgate.probe.process.cpu_wait_clock import CpuWaitClock, children_of
from patchgate.probe.process.message_schema import REPLY_BYTES, refusal, reply_fault
from patchgate.probe.process.namespaces import close_all_but
from patchgate.probe.process.opened_files import opened_files
from patchgate.probe.process.reply import exit_failure, failure, line_in_patch
from patchgate.probe.process.sandbox import Sandbox, can_be_entered, headers_of, strongest_sandbox
from patchgate.probe.protocol import KILLED, Request
from patchgate.probe.serve.child import Ends, answer, save_request

# The last bytes of a child's output that a failure shows.
_OUTPUT_BYTES = 4000
# The size in bytes of the name of a step.
_STAGE_BYTES = 16
# The bytes that are read of faulthandler's output: a few threads, the innermost frame first.
_TRACE_BYTES = 1 << 16
# A child that exceeds its time limit gets a signal on which it writes its traceback and ends. If it
# still runs after these seconds, it is killed.
_TRACEBACK_SECONDS = 5
# A disk with fewer free bytes counts as full.
_FREE_BYTES = 64 << 20


@dataclass
class _Child:
    pid: int
    folder: str  #: The only folder that it may write to.
    request: Request  #: As it came from the host.
    connection: socket.socket  #: To the host.
    ends: Ends  #: The child's ends, with the reading end of the pipe in place of the writing end.
    clock: CpuWaitClock
    killed_for_memory: int  #: `_killed_for_memory()` when the child began.
    sandbox: Sandbox
    reply: bytearray = field(default_factory=bytearray)
    is_late: bool = False
    is_read: bool = False  #: True if the reply was read to its end or is too long.
    below: float = 0.0  #: CPU seconds of the child's own children, as the child reports.

    def innermost(self) -> int:
        """Return the process that answers. If it has a process namespace of its own, this is the
        first child of the namespace's init.
        """
        pid = self.pid
        for _ in range(2 if "pid" in self.sandbox.namespaces else 0):
            pid = children_of(pid)[0]
        return pid


class Server:
    """Takes one JSON request from each channel, forks, and sends one JSON reply."""

    def __init__(
        self,
        control: socket.socket,
        home: str,
        loaded: str,
        warm_up: float = 0.0,
        helpers: Collection[int] = (),
    ) -> None:
        """`control` brings a new channel for every request. `loaded` is one of `LOADED`; loading
        it took `warm_up` seconds of CPU time. `helpers` are processes that this process has started
        and needs.
        """
        self._control, self._home, self._loaded, self._warm_up = control, home, loaded, warm_up
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, _Child] = {}  # by pidfd
        self._sandboxes: dict[bool, Sandbox] = {}  # by whether a child uses the GPU
        self._removing: list[subprocess.Popen[bytes]] = []  # folders of children that have ended
        self._helpers = {*helpers}  # including makers of headers, even ended ones
        self._selector.register(control, selectors.EVENT_READ, self._start)
        for pid in helpers:
            self._watch(os.pidfd_open(pid), lambda _: False)

    def _watch(self, file: int, act: Callable[[Any], bool | None]) -> None:
        self._selector.register(file, selectors.EVENT_READ, act)

    def serve(self) -> None:
        """Serve until the host closes its end of the control channel, or a helper ends."""
        try:
            while True:
                for key, _ in self._selector.select(timeout=0.05 if self._children else None):
                    if key.data(key.fileobj) is False:
                        return
                self._end_late_children()
        finally:
            for child in self._children.values():
                _kill(child.pid)

    def _start(self, control: socket.socket) -> bool:
        """Fork a child for a new request. Return False if the host is gone."""
        _, channels, _, _ = socket.recv_fds(control, 1, 1)
        if not channels:
            return False
        connection = socket.socket(fileno=channels[0])
        request = _read_request(connection)
        refused = refusal(request) or self._unconfined(request)
        if refused:
            # Host and probe do not match, which is not the patch's fault.
            _send(connection, {"failure": failure("machine", refused, "request")})
            return True
        try:
            self._fork(connection, request)
        except OSError as error:  # no memory, no process, no space
            why = f"no child could be started: {error}"
            _send(connection, {"failure": failure("machine", why, "start")})
        return True

    def _sandbox(self, request: Request) -> Sandbox:
        """Return the sandbox for a request's child, chosen once with and once without a GPU."""
        gpu = request.get("profile", {}).get("kind") == "real"
        if gpu not in self._sandboxes:
            headers = f"{self._home}/headers"
            if self._loaded == "compiler":
                import torch._inductor.codecache as codecache

                headers = codecache._HEADER_DIR
            self._sandboxes[gpu] = strongest_sandbox(self._home, headers, gpu=gpu)
        return self._sandboxes[gpu]

    def _unconfined(self, request: Request) -> str | None:
        """Return the reason why a request for full confinement is refused, or None."""
        if not request.get("confined") or not request.get("patch"):
            return None
        missing = self._sandbox(request).missing()
        return f"a patch cannot be confined here: missing {', '.join(missing)}" if missing else None

    def _fork(self, connection: socket.socket, request: Request) -> None:
        folder = tempfile.mkdtemp(dir=self._home)
        made = {name: f"{folder}/{name}" for name in NAMED if name in request}
        if "trace" in made:
            os.mkdir(made["trace"])
        # The files have no names, so no link can lead elsewhere.
        files = [_unnamed_file(folder) for _ in range(5)]
        sandbox = self._sandbox(request)
        if self._loaded == "compiler":
            from patchgate.probe.serve.cpp_builds import make_header

            self._helpers |= make_header(request, headers_of(request, sandbox))
        reading, writing = os.pipe()
        killed_for_memory = _killed_for_memory()
        pid = os.fork()
        if pid == 0:
            self._become_child({**request, **made}, folder, Ends(writing, *files), sandbox)
        os.close(writing)
        os.set_blocking(reading, False)
        pidfd = os.pidfd_open(pid)
        ends, clock = Ends(reading, *files), CpuWaitClock(pid)
        child = _Child(pid, folder, request, connection, ends, clock, killed_for_memory, sandbox)
        self._children[pidfd] = child
        self._watch(pidfd, self._finish)
        self._watch(reading, lambda _: self._read(child))

    def _become_child(
        self, request: Request, folder: str, ends: Ends, sandbox: Sandbox
    ) -> NoReturn:
        # The child inherits nothing else from the server: no channel, and no file of another
        # child.
        close_all_but(*ends)
        variables = request.get("env", {})
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        # Torch may read variables as it is imported.
        sets_variables = bool(variables or request.get("environment"))
        if not (request.get("fresh") or (self._loaded == "torch" and sets_variables)):
            answer(request, folder, ends, sandbox, self._loaded)
        # A fork cannot use a device if the server has looked for one.
        save_request(request, folder, sandbox)
        for end in ends:
            os.set_inheritable(end, True)
        command = [sys.executable, "-m", answer.__module__, folder, *map(str, ends)]
        os.execv(sys.executable, command)

    def _end_late_children(self) -> None:
        for child in self._children.values():
            late = child.clock.seconds() - child.request["limits"]["seconds"]
            if not child.is_late and late > 0:
                child.is_late = True
                with suppress(OSError, IndexError):  # the child may have ended meanwhile
                    os.kill(child.innermost(), signal.SIGUSR1)
            if late > _TRACEBACK_SECONDS:
                _kill(child.pid)

    def _read(self, child: _Child) -> None:
        """Read more of a child's reply; end a child whose reply is too long."""
        if child.is_read:
            return
        with suppress(BlockingIOError):
            while len(child.reply) <= REPLY_BYTES:
                data = os.read(child.ends.reply, 1 << 18)
                if not data:
                    break
                child.reply += data
            else:
                _kill(child.pid)
            self._end_reading(child)

    def _end_reading(self, child: _Child) -> None:
        if not child.is_read:
            child.is_read = True
            self._selector.unregister(child.ends.reply)
            os.close(child.ends.reply)

    def _finish(self, pidfd: int) -> None:
        child = self._children.pop(pidfd)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        self._read(child)
        self._end_reading(child)  # a process left by the child may hold the other end
        _kill(child.pid)  # whatever the patch has started in the child's group
        _, status, used = os.wait4(child.pid, 0)
        # A process that a patch has detached from its group becomes this process's child (see
        # `main`).
        self._removing = [process for process in self._removing if process.poll() is None]
        removing = {process.pid for process in self._removing}
        kill_children({each.pid for each in self._children.values()} | removing | self._helpers)
        opened = opened_files(child.ends.opened)
        try:
            reply = _reply(child, status)
            if "expected" in reply:
                reply["confinement"] = child.sandbox.report()
        except Exception as error:  # a fault of the server, which goes on for the other children
            why = f"{type(error).__name__}: {error}"
            reply = {"failure": failure("machine", why, "reply")}
        finally:
            for file in child.ends[1:]:
                os.close(file)
            self._removing.append(remove_folder(child.folder))
        failed = reply.get("failure", {})
        if child.reply and failed.get("cause") == "machine" and not self._is_unfit(child.sandbox):
            failed["cause"] = "raised"
        cpu = {"child": used.ru_utime + used.ru_stime, "below": child.below}
        warm_up = {"warm_up": self._warm_up} if self._loaded == "compiler" else {}
        _send(child.connection, {**reply, "cpu": cpu | warm_up, "opened": opened})

    def _is_unfit(self, sandbox: Sandbox) -> bool:
        """True if the machine has failed, as a child claims: the disk is full, or the child's
        sandbox can no longer be entered.

        The disk is checked after the child's own files are deleted, because they may have filled
        it.
        """
        for process in self._removing:
            process.wait()
        usage = os.statvfs(self._home)
        no_inodes = usage.f_files > 0 and usage.f_favail == 0
        is_full = no_inodes or usage.f_bavail * usage.f_frsize <= _FREE_BYTES
        return is_full or not can_be_entered(sandbox, self._home)


def _unnamed_file(folder: str) -> int:
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.dup(file.fileno())


def _killed_for_memory() -> int:
    """Return how many processes the kernel has killed for lack of memory since it was booted."""
    with suppress(OSError, ValueError):
        lines = Path("/proc/vmstat").read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
    return 0


def _read_request(connection: socket.socket) -> Any:
    """Return the request on a channel; None if it is not JSON."""
    with suppress(OSError, ValueError):
        return json.loads(connection.makefile("rb").readline())
    return None


def _send(connection: socket.socket, reply: dict[str, Any]) -> None:
    with suppress(OSError), connection:
        connection.sendall(json.dumps(reply).encode() + b"\n")


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _end_of(file: int, size: int) -> str:
    """Return the last `size` bytes of a file as text."""
    return os.pread(file, size, max(0, os.fstat(file).st_size - size)).decode(errors="replace")


def _reply(child: _Child, status: int) -> dict[str, Any]:
    """Return the child's own reply, or a failure that says how the child ended."""
    reply = _parsed(child) if child.reply else {"failure": _without_reply(child, status)}
    if isinstance(reply.get("failure"), dict):
        # The patch may have written anything into the file.
        stage = "".join(filter(str.isprintable, _end_of(child.ends.stage, _STAGE_BYTES))).strip()
        trace = _end_of(child.ends.trace, _TRACE_BYTES)
        # If C++ aborts, it prints the reason to the output.
        detail = "\n".join(filter(None, [trace, _end_of(child.ends.output, _OUTPUT_BYTES)]))
        patch = child.request.get("patch")
        known = failure("", "", detail=detail, where=line_in_patch(trace, patch) or patch)
        reply["failure"] = known | reply["failure"] | {"stage": stage or "start"}
    fault = reply_fault(child.request["do"], reply)
    if not fault and "failure" not in reply:
        fault = hand_over(child.folder, child.request)
    return {"failure": failure("tampered", _INVALID + fault, "reply")} if fault else reply


def _without_reply(child: _Child, status: int) -> dict[str, str]:
    """Return the cause and signature of the failure of a child that sent no reply."""
    if child.is_late:
        return {"cause": "hung", "signature": "did not end within the time limit"}
    own_status = _end_of(child.ends.ended, 16)
    ended = exit_failure(int(own_status) if own_status.isdecimal() else status)
    if ended["cause"] == "machine":
        if _killed_for_memory() > child.killed_for_memory:
            ended["signature"] += ", as the machine had no memory left"
        else:
            ended["cause"] = KILLED
    return ended


_INVALID = "the reply is none: "


def _parsed(child: _Child) -> dict[str, Any]:
    """Parse a reply; an invalid one becomes a failure."""
    try:
        if len(child.reply) > REPLY_BYTES:
            raise ValueError(f"more than {REPLY_BYTES >> 20} MiB")
        reply = json.loads(child.reply)
        if not isinstance(reply, dict):
            raise ValueError(f"a {type(reply).__name__}")
        if b"\\ud" in child.reply.lower():  # perhaps half a surrogate pair, which cannot be printed
            reply = json.loads(json.dumps(reply, ensure_ascii=False).encode(errors="replace"))
        child.below = float(reply.pop("below", 0.0))
        return dict(reply)
    except (ValueError, RecursionError, TypeError) as error:
        return {"failure": {"cause": "tampered", "signature": _INVALID + str(error)[:80]}}
