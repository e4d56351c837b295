"""Runs the ranks of one process group, each a process of its own, and reports the first that
failed.

They meet over a file and the loopback. The patch runs in the ranks alone, so this process's word on
their end holds.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import json
import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from patchgate.probe.process.reply import exception_failure, exit_failure, write_reply
from patchgate.probe.protocol import Profile

RANKS = 2
_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.02
# Bound before a patch can replace it.
_now, _open = time.monotonic, os.open
# NCCL's multicast (NVLS) needs rights on the machine that a container may not have; two ranks gain
# nothing by it.
_LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", "NCCL_NVLS_ENABLE": "0"}


def missing(profile: Profile) -> str | None:
    """Why there can be no ranks on the device, or None.

    Initialises no device: a fork could not use it afterwards.
    """
    devices = RANKS if profile["backend"] == "cpu" else torch.cuda.device_count()
    return None if devices >= RANKS else f"this machine has {devices}"


def in_ranks(work: Callable[[int], None], folder: str, patch: str | None) -> dict[str, Any] | None:
    """Run `work` in a process for each rank; the failure that came first, or None when all are
    done.
    """
    running = {_start(work, rank, folder, patch): rank for rank in range(RANKS)}
    # The server's signal to a child that hangs goes to the ranks, which write where they are.
    faulthandler.unregister(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, lambda *_: _end_with_tracebacks(running))
    failures: list[dict[str, Any]] = []
    while running and not failures:
        time.sleep(_POLL_SECONDS)
        for pid, rank in list(running.items()):
            ended_pid, status = os.waitpid(pid, os.WNOHANG)
            if ended_pid:
                del running[pid]
                failures += _failure(f"{folder}/rank{rank}.json", rank, status)
    _end(running, signal.SIGKILL)
    # A rank that has lost the other one fails too, but later.
    return min(failures, key=lambda failure: failure.pop("at"), default=None)


def _end_with_tracebacks(pids: Iterable[int]) -> NoReturn:
    """End as a child that hangs does, once every rank has written its traceback."""
    _end(pids, signal.SIGUSR1)
    os._exit(1)


def _end(pids: Iterable[int], number: signal.Signals) -> None:
    # One after the other, since their tracebacks go to one file. One that has just ended may be in
    # `pids` still.
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, number)
            os.waitpid(pid, 0)


def _start(work: Callable[[int], None], rank: int, folder: str, patch: str | None) -> int:
    """Fork the process of a rank."""
    pid = os.fork()
    if not pid:
        _run_rank(work, rank, folder, patch)
    return pid


def _run_rank(work: Callable[[int], None], rank: int, folder: str, patch: str | None) -> NoReturn:
    """Work with the environment variables that a launcher sets, and leave a reply in `folder`."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.environ |= _LOOPBACK | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS)}
    reply: dict[str, Any] = {}
    try:
        work(rank)
    except BaseException as error:  # the patch may raise anything, SystemExit included
        reply = {"at": _now(), "failure": exception_failure(error, patch)}
    write_reply(reply, _open(f"{folder}/rank{rank}.json", os.O_CREAT | os.O_WRONLY | os.O_TRUNC))


def _failure(path: str, rank: int, status: int) -> list[dict[str, Any]]:
    """The failure in the reply of a rank that has ended, if any; one that crashed left no reply."""
    try:
        with open(path, encoding="utf-8") as file:
            reply = json.load(file)
    except (OSError, ValueError):
        reply = {"at": 0.0, "failure": exit_failure(status)}
    if "failure" not in reply:
        return []
    failure = reply["failure"]
    return [failure | {"at": reply["at"], "signature": f"rank {rank}: {failure['signature']}"}]


def join_group(rank: int, profile: Profile, folder: str) -> dist.Store:
    """Join the group of all ranks, on a device of this rank's own."""
    store = dist.FileStore(f"{folder}/store", RANKS)
    backend = "gloo" if profile["backend"] == "cpu" else "nccl"
    if backend == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(backend, store=store, rank=rank, world_size=RANKS)
    return store


def await_others(rank: int, store: dist.Store) -> None:
    """Wait for all ranks: none may leave while another still reads from it."""
    store.set(f"done {rank}", "")
    store.wait([f"done {other}" for other in range(RANKS)])
