"""The ranks of one group, each a process of its own: starts them, waits, and tells what went wrong in one.

Decides that they meet over a file and the loopback, and how a rank's end is
told. The patch runs in the ranks alone, so what is said of their end is believed.
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

from patchgate.probe.process.reply import describe, ended, leave
from patchgate.probe.simulate.fake_device import Profile

RANKS = 2
_PR_SET_PDEATHSIG = 1
_LOOK_SECONDS = 0.02
# Bound before a patch can replace it.
_now = time.monotonic
# NCCL's multicast asks for rights on the machine that a container need not have, and two ranks gain nothing by it.
_LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", "NCCL_NVLS_ENABLE": "0"}


def missing(profile: Profile) -> str | None:
    """Why there can be no ranks on the device, if so. Wakes no device: a fork could not use it afterwards."""
    found = RANKS if profile["backend"] == "cpu" else torch.cuda.device_count()
    return None if found >= RANKS else f"this machine has {found}"


def in_ranks(work: Callable[[int], None], folder: str, patch: str | None) -> dict[str, Any] | None:
    """Do `work` in a process for each rank; the failure that came first, or None when all are done."""
    running = {_start(work, rank, folder, patch): rank for rank in range(RANKS)}
    # Where does it hang? Only the ranks can tell, and they have been told how to.
    faulthandler.unregister(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, lambda *_: _end_telling(running))
    failures: list[dict[str, Any]] = []
    while running and not failures:
        time.sleep(_LOOK_SECONDS)
        for pid, rank in list(running.items()):
            seen, status = os.waitpid(pid, os.WNOHANG)
            if seen:
                del running[pid]
                failures += _failure(f"{folder}/rank{rank}.json", rank, status)
    _end(running, signal.SIGKILL)
    # A rank that has lost the other one fails too, and later.
    return min(failures, key=lambda failure: failure.pop("at"), default=None)


def _end_telling(pids: Iterable[int]) -> NoReturn:
    """End as a child that hangs does: when every rank has written where it is."""
    _end(pids, signal.SIGUSR1)
    os._exit(1)


def _end(pids: Iterable[int], number: signal.Signals) -> None:
    # One after the other, since their tracebacks go to one file. One that has just ended may be in `pids` still.
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, number)
            os.waitpid(pid, 0)


def _start(work: Callable[[int], None], rank: int, folder: str, patch: str | None) -> int:
    """The process of a rank; the environment tells it which one it is, as a launcher does."""
    pid = os.fork()
    if not pid:
        _be(work, rank, folder, patch)
    return pid


def _be(work: Callable[[int], None], rank: int, folder: str, patch: str | None) -> NoReturn:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.environ |= _LOOPBACK | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS)}
    reply: dict[str, Any] = {}
    try:
        work(rank)
    except BaseException as error:  # the patch may raise anything, SystemExit included
        reply = {"at": _now(), "failure": describe(error, patch)}
    leave(reply, f"{folder}/rank{rank}.json")


def _failure(path: str, rank: int, status: int) -> list[dict[str, Any]]:
    """What a rank that has ended tells of its failure; one that crashed tells nothing, and was not made to."""
    try:
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
    except (OSError, ValueError):
        told = {"at": 0.0, "failure": ended(status)}
    if "failure" not in told:
        return []
    failure = told["failure"]
    return [failure | {"at": told["at"], "signature": f"rank {rank}: {failure['signature']}"}]


def join_group(rank: int, profile: Profile, folder: str) -> dist.Store:
    """Become a member of the group of all ranks, on a device of one's own."""
    store = dist.FileStore(f"{folder}/store", RANKS)
    backend = "gloo" if profile["backend"] == "cpu" else "nccl"
    if backend == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(backend, store=store, rank=rank, world_size=RANKS)
    return store


def await_others(rank: int, store: dist.Store) -> None:
    """Nobody leaves while another may still be reading from it."""
    store.set(f"done {rank}", "")
    store.wait([f"done {other}" for other in range(RANKS)])
