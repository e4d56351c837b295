"""The fork server: it has torch and Inductor warm, or nothing of torch, and forks a child for every
request.

It ends a child that runs too long, reads its reply and reports how it ended. It never initialises
CUDA, runs no parallel region and starts no compile worker, because none of these survives a fork.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any, NoReturn

from patchgate.probe.process.child_cleanup import NAMED, hand_over, kill_children, remove_folder
from patchgate.probe.process.cpu_wait_clock import CpuWaitClock
from patchgate.probe.process.message_schema import REPLY_BYTES, refusal, reply_fault
from patchgate.probe.process.opened_files import opened_files
from patchgate.probe.process.reply import exit_failure, line_in_patch
from patchgate.probe.process.sandbox import Sandbox, can_be_entered, headers_of, strongest_sandbox
from patchgate.probe.protocol import KILLED, QUESTIONS, Failure, Request
from patchgate.probe.serve.child import Ends, answer, answer_saved, save_request
from patchgate.probe.serve.warm_up import warm_up
from patchgate.probe.serve.zygote import close_all_but

# Bytes of a child's output that a failure shows.
_OUTPUT_BYTES = 4000
# Bytes of the name of a step.
_STAGE_BYTES = 16
# Bytes of what faulthandler writes: a few threads, the innermost frame first.
_TRACE_BYTES = 1 << 16
# A child that runs late is asked for its traceback, which ends it; so much later it is killed.
_TRACEBACK_SECONDS = 5
# A disk with less is full.
_FREE_BYTES = 64 << 20


@dataclass
class _Child:
    pid: int
    folder: str  #: All that it may write to.
    request: Request  #: As it came from the host.
    connection: socket.socket  #: To the host.
    ends: Ends  #: As the child's own, but for the reading end of the pipe.
    clock: CpuWaitClock
    killed_for_memory: int  #: Processes that the kernel had killed when it began.
    sandbox: Sandbox
    reply: bytearray = field(default_factory=bytearray)
    is_late: bool = False
    is_read: bool = False  #: Its reply was read to its end, or it said too much.
    below: float = 0.0  #: CPU seconds of processes that it started, as it says itself.

    @property
    def seconds(self) -> float:
        return float(self.request["limits"]["seconds"])

    def innermost(self) -> int:
        """The process that answers: with an own namespace of processes the first child of its
        init.
        """
        pid = self.pid
        for _ in range(2 if "pid" in self.sandbox.namespaces else 0):
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as listed:
                pid = int(listed.read().split()[0])
        return pid


class Server:
    """Takes one JSON request a channel, forks, and sends one JSON reply."""

    def __init__(self, control: socket.socket, home: str, *, torch: bool = True) -> None:
        """`control` brings a new channel for every request; without `torch` nothing of that is
        loaded.
        """
        self._control, self._home, self._has_torch = control, home, torch
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, _Child] = {}  # by pidfd
        self._sandboxes: dict[bool, Sandbox] = {}  # by whether a child uses the GPU
        self._removing: list[subprocess.Popen[bytes]] = []  # folders of children that have ended
        self._helpers: set[int | None] = (
            set()
        )  # the zygote, and makers of a header, also when they have ended

    def serve(self) -> None:
        """Serve until the host closes its end of the control channel."""
        if self._has_torch:
            self._zygote = warm_up(answer_saved)
            self._helpers.add(self._zygote.pid)
        self._warm_up = time.process_time()
        self._selector.register(self._control, selectors.EVENT_READ, self._start)
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
        """Fork a child for a new request. False where the host has gone."""
        _, channels, _, _ = socket.recv_fds(control, 1, 1)
        if not channels:
            return False
        connection = socket.socket(fileno=channels[0])
        request = _read_request(connection)
        refused = refusal(request) or self._unconfined(request)
        if refused:
            # The fault is not the patch's: host and probe do not fit together.
            _send(connection, {"failure": _failure("machine", "request", refused)})
            return True
        try:
            self._fork(connection, request)
        except OSError as error:  # no memory, no process, no space
            _send(
                connection,
                {"failure": _failure("machine", "start", f"no child could be started: {error}")},
            )
        return True

    def _sandbox(self, request: Request) -> Sandbox:
        """The sandbox for the child of a request; found out once, since it takes a trial."""
        gpu = request.get("profile", {}).get("kind") == "real"
        if gpu not in self._sandboxes:
            headers = f"{self._home}/headers"
            if self._has_torch:
                import torch._inductor.codecache as codecache

                headers = codecache._HEADER_DIR
            self._sandboxes[gpu] = strongest_sandbox(self._home, headers, gpu=gpu)
        return self._sandboxes[gpu]

    def _unconfined(self, request: Request) -> str | None:
        """Why a request that is to be confined in full is refused."""
        if not request.get("confined") or not request.get("patch"):
            return None
        missing = self._sandbox(request).missing()
        return f"a patch cannot be confined here: missing {', '.join(missing)}" if missing else None

    def _fork(self, connection: socket.socket, request: Request) -> None:
        folder = tempfile.mkdtemp(dir=self._home)
        made = {name: f"{folder}/{name}" for name in NAMED if name in request}
        if "trace" in made:
            os.mkdir(made["trace"])
        # Without a name: no link can lead elsewhere.
        files = [_unnamed_file(folder) for _ in range(5)]
        sandbox = self._sandbox(request)
        if self._has_torch:
            from patchgate.probe.serve.known_headers import make_header

            self._helpers.add(make_header(request, headers_of(request, sandbox)))
        reading, writing = os.pipe()
        ends = Ends(writing, *files)
        killed_for_memory = _killed_for_memory()
        is_fork = not request.get("fresh") and QUESTIONS[request["do"]].loaded != "torch"
        if not is_fork:
            save_request({**request, **made}, folder, sandbox)
        pid = (self._zygote.fork(folder, ends) if _fits_zygote(request) else 0) or os.fork()
        if pid == 0:
            self._become_child({**request, **made}, folder, ends, sandbox, is_fork=is_fork)
        os.close(writing)
        os.set_blocking(reading, False)
        pidfd = os.pidfd_open(pid)
        clock = CpuWaitClock(pid)
        own_ends = Ends(reading, *files)
        child = _Child(
            pid, folder, request, connection, own_ends, clock, killed_for_memory, sandbox
        )
        self._children[pidfd] = child
        self._selector.register(pidfd, selectors.EVENT_READ, self._finish)
        self._selector.register(reading, selectors.EVENT_READ, lambda _: self._read(child))

    def _become_child(
        self, request: Request, folder: str, ends: Ends, sandbox: Sandbox, *, is_fork: bool
    ) -> NoReturn:
        # It has nothing else of the server's: no channel, and no end of another child's.
        close_all_but(*ends)
        for name, value in request.get("env", {}).items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if is_fork:
            answer(request, folder, ends, sandbox)
        # A device cannot be used in the fork of a process that has looked for one.
        for end in ends:
            os.set_inheritable(end, True)
        os.execv(
            sys.executable, [sys.executable, "-m", answer_saved.__module__, folder, *map(str, ends)]
        )

    def _end_late_children(self) -> None:
        for child in self._children.values():
            seconds = child.clock.seconds()
            if not child.is_late and seconds > child.seconds:
                child.is_late = True
                with contextlib.suppress(OSError, IndexError):  # it may have ended meanwhile
                    os.kill(child.innermost(), signal.SIGUSR1)
            if seconds > child.seconds + _TRACEBACK_SECONDS:
                _kill(child.pid)

    def _read(self, child: _Child) -> None:
        """Read on in a child's reply; one that says too much is ended."""
        if child.is_read:
            return
        with contextlib.suppress(BlockingIOError):
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
        self._end_reading(child)  # a process that it left may hold the other end
        _kill(child.pid)  # whatever the patch has started in the child's group
        _, status, used = os.wait4(child.pid, 0)
        # What a patch has detached from its group becomes this process's child (see `main`).
        self._removing = [process for process in self._removing if process.poll() is None]
        kept = {each.pid for each in self._children.values()} | {
            each.pid for each in self._removing
        }
        kill_children(kept.union(filter(None, self._helpers)))
        is_its_word, opened = bool(child.reply), opened_files(child.ends.opened)
        try:
            reply = _reply(child, status)
            if "expected" in reply:
                reply["confinement"] = child.sandbox.report()
        except Exception as error:  # of ours, and no reason to leave the other children alone
            reply = {"failure": _failure("machine", "reply", f"{type(error).__name__}: {error}")}
        finally:
            for file in child.ends[1:]:
                os.close(file)
            self._removing += filter(None, [remove_folder(child.folder)])
        if (
            is_its_word
            and reply.get("failure", {}).get("cause") == "machine"
            and not self._is_unfit(child.sandbox)
        ):
            reply["failure"]["cause"] = "raised"
        cpu = {"child": used.ru_utime + used.ru_stime, "below": child.below}
        warm_up = {"warm_up": self._warm_up} if self._has_torch else {}
        _send(child.connection, {**reply, "cpu": cpu | warm_up, "opened": opened})

    def _is_unfit(self, sandbox: Sandbox) -> bool:
        """True if the machine has failed, as a child says: the disk is full, or there is no sandbox
        any more.

        Asked once the child's own files are gone, since only then does it show whose fault it is.
        """
        for process in self._removing:
            process.wait()
        usage = os.statvfs(self._home)
        is_full = usage.f_bavail * usage.f_frsize <= _FREE_BYTES or (
            usage.f_files > 0 and usage.f_favail == 0
        )
        return is_full or not can_be_entered(sandbox, self._home)


def _fits_zygote(request: Request) -> bool:
    """True if a fork of the zygote is what a new interpreter would be: torch may read variables as
    it is imported.
    """
    has_variables = request.get("env") or request.get("environment")
    is_for_torch = QUESTIONS[request["do"]].loaded == "torch"
    return is_for_torch and not (request.get("fresh") or has_variables)


def _unnamed_file(folder: str) -> int:
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.dup(file.fileno())


def _killed_for_memory() -> int:
    """How many processes the kernel has killed because memory was short, since it began."""
    with (
        contextlib.suppress(OSError, ValueError),
        open("/proc/vmstat", encoding="ascii") as counters,
    ):
        return next((int(line.split()[1]) for line in counters if line.startswith("oom_kill ")), 0)
    return 0


def _failure(cause: str, stage: str, signature: str) -> Failure:
    return {
        "cause": cause,
        "stage": stage,
        "signature": signature,
        "detail": "",
        "where": None,
        "raised_at": None,
        "missing": [],
    }


def _read_request(connection: socket.socket) -> Any:
    """The request on a channel; None when it is no JSON."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads(connection.makefile("rb").readline())
    return None


def _send(connection: socket.socket, reply: dict[str, Any]) -> None:
    with contextlib.suppress(OSError), connection:
        connection.sendall(json.dumps(reply).encode() + b"\n")


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _end_of(file: int, size: int) -> str:
    """The last `size` bytes of a file."""
    return os.pread(file, size, max(0, os.fstat(file).st_size - size)).decode(errors="replace")


def _reply(child: _Child, status: int) -> dict[str, Any]:
    """The child's own reply, or a failure that says how it ended."""
    own_status = _end_of(child.ends.ended, 16)
    reply = _parsed(child) if child.reply else None
    if reply is None:
        late = {"cause": "hung", "signature": "did not end within the time limit"}
        ended = exit_failure(int(own_status) if own_status.isdecimal() else status)
        if ended["cause"] == "machine":
            short = _killed_for_memory() > child.killed_for_memory
            ended["cause"] = "machine" if short else KILLED
            ended["signature"] += ", as the machine had no memory left" * short
        reply = {"failure": late if child.is_late else ended}
    if isinstance(reply.get("failure"), dict):
        # The patch may have written anything there.
        stage = (
            "".join(filter(str.isprintable, _end_of(child.ends.stage, _STAGE_BYTES))).strip()
            or "start"
        )
        trace = _end_of(child.ends.trace, _TRACE_BYTES)
        # C++ says why it aborts in the output.
        detail = "\n".join(filter(None, [trace, _end_of(child.ends.output, _OUTPUT_BYTES)]))
        patch = child.request.get("patch")
        where = line_in_patch(trace, patch) or patch
        known: dict[str, Any] = {"detail": detail, "where": where, "raised_at": None, "missing": []}
        reply["failure"] = known | reply["failure"] | {"stage": stage}
    fault = reply_fault(child.request["do"], reply) or (
        None if "failure" in reply else hand_over(child.folder, child.request)
    )
    return (
        {"failure": _failure("tampered", "reply", f"the reply is none: {fault}")}
        if fault
        else reply
    )


def _parsed(child: _Child) -> dict[str, Any]:
    """A reply as it came; what is none becomes a failure."""
    try:
        if len(child.reply) > REPLY_BYTES:
            raise ValueError(f"more than {REPLY_BYTES >> 20} MiB")
        reply = json.loads(child.reply)
        if not isinstance(reply, dict):
            raise ValueError(f"a {type(reply).__name__}")
        if (
            b"\\ud" in child.reply.lower()
        ):  # perhaps half a surrogate pair, which nobody could print
            reply = json.loads(json.dumps(reply, ensure_ascii=False).encode(errors="replace"))
        child.below = float(reply.pop("below", 0.0))
        return dict(reply)
    except (ValueError, RecursionError, TypeError) as error:
        return {
            "failure": {"cause": "tampered", "signature": f"the reply is none: {str(error)[:80]}"}
        }
