"""A small stack of residual blocks over two ranks, tensor-parallel and sequence-parallel.

Mathematically the two forms are equal; their outputs are written as variants, as `metamorphic`
does. Each rank is a process; they communicate through a file and the loopback. The patch runs in
the ranks only, so this process reports reliably how they end.
"""

from __future__ import annotations

import contextlib
import copy
import faulthandler
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, cast

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.nn.functional as F

from patchgate.probe.compile.observe import environment
from patchgate.probe.numerics.outputs import reproducible, save_outputs, tensors
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.patch.load import built_outside
from patchgate.probe.process.namespaces import end_with_parent
from patchgate.probe.process.reply import exception_failure, exit_failure, write_reply
from patchgate.probe.protocol import Failure, Profile, Ranks, Sample, Stage

RANKS = 2
_POLL_SECONDS = 0.02
# Bound before a patch can replace them.
_now, _open = time.monotonic, os.open
# NCCL's multicast (NVLS) needs rights that a container may lack, and two ranks gain nothing by it.
_LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", "NCCL_NVLS_ENABLE": "0"}
# Kind of device -> blocks, rows, hidden size and inner size of all ranks together.
_SIZES = {"codegen": (2, 32, 128, 256), "real": (4, 4096, 2048, 8192)}


class _Stack(torch.nn.Module):
    """h = h + silu(rms_norm(h, w) @ a) @ b, where a rank has some columns of a and the same rows of
    b.

    Tensor-parallel, every rank has all rows of h, and an all-reduce sums the products.
    Sequence-parallel, a rank has some rows: they are gathered before the products, and the sums are
    scattered afterwards.
    """

    def __init__(self, weights: dict[str, torch.Tensor], *, rank: int, sequence: bool) -> None:
        super().__init__()
        self.w = torch.nn.ParameterList(weights["w"])
        self.a = torch.nn.ParameterList(
            t.chunk(RANKS, dim=1)[rank].contiguous() for t in weights["a"]
        )
        self.b = torch.nn.ParameterList(
            t.chunk(RANKS, dim=0)[rank].contiguous() for t in weights["b"]
        )
        self.sequence, self.group = sequence, dist.group.WORLD.group_name

    def forward(self, h: Any) -> Any:
        *norms, last = self.w
        for w, a, b in zip(norms, self.a, self.b, strict=True):
            x = F.rms_norm(h, h.shape[-1:], w)
            x = funcol.all_gather_tensor(x, 0, self.group) if self.sequence else x
            x = F.silu(x @ a) @ b
            if self.sequence:
                h = h + funcol.reduce_scatter_tensor(x, "sum", 0, self.group)
            else:
                h = h + funcol.all_reduce(x, "sum", self.group)
        return F.rms_norm(h, h.shape[-1:], last)


def run_ranks(request: Sample, stage: Stage) -> Ranks:
    """Write the outputs of both ranks in both forms to the file `outputs`."""
    # Counting initialises no device; a fork could not use an initialised device.
    devices = RANKS if request["profile"]["backend"] == "cpu" else torch.cuda.device_count()
    if devices < RANKS:
        return {"unmeasured": f"this machine has {devices}"}
    # Each attempt has its own folder, because a killed attempt leaves its folder behind.
    folder = tempfile.mkdtemp(prefix="ranks-", dir=os.path.dirname(request["outputs"]))
    failure = _in_ranks(
        lambda rank: _one_rank(rank, folder, request, stage), folder, request.get("patch")
    )
    if failure:
        return {"failure": cast(Failure, failure)}
    first, second = (
        torch.load(f"{folder}/rank{rank}.pt", weights_only=True) for rank in range(RANKS)
    )
    rows = torch.cat((first.pop("sequence"), second["sequence"]))
    forms = {
        "tensor-parallel and sequence-parallel": ([first["plain"]], [rows]),
        "tensor-parallel on either rank": ([first["plain"]], [second["plain"]]),
    }
    save_outputs(
        {"forms": forms, **{name: [tensor] for name, tensor in first.items()}}, request["outputs"]
    )
    return {"environment": environment()}


def _one_rank(rank: int, folder: str, request: Sample, stage: Stage) -> None:
    """Write this rank's results: both forms compiled, tensor-parallel also eager and in float64."""
    profile = request["profile"]
    apply_patch(request, stage)
    stage("run")
    store = _join_group(rank, profile, folder)
    device = (
        torch.device(profile["backend"], rank)
        if profile["backend"] != "cpu"
        else torch.device("cpu")
    )
    with reproducible(profile):
        with built_outside():
            weights, h = _weights_and_input(*_SIZES[profile["kind"]])
            split, rows = (
                _Stack(weights, rank=rank, sequence=each).to(device) for each in (False, True)
            )
        whole, own = h.to(device), h.chunk(RANKS)[rank].to(device)
        results = {
            "plain": torch.compile(split)(whole),
            "sequence": torch.compile(rows)(own),
            "eager": split(whole),
            "reference": copy.deepcopy(split).double()(whole.double()),
        }
        save_outputs(
            {name: tensors(result)[0] for name, result in results.items()},
            f"{folder}/rank{rank}.pt",
        )
    _await_others(rank, store)


def _weights_and_input(
    blocks: int, rows: int, hidden: int, inner: int
) -> tuple[dict[str, Any], torch.Tensor]:
    """Weights and input. They are made on the CPU, so that every rank and device has the same."""
    torch.manual_seed(0)
    weights = {
        "w": [1 + 0.05 * torch.randn(hidden) for _ in range(blocks + 1)],
        "a": [torch.randn(hidden, inner) * hidden**-0.5 for _ in range(blocks)],
        "b": [torch.randn(inner, hidden) * inner**-0.5 for _ in range(blocks)],
    }
    rounded = {name: [tensor.bfloat16() for tensor in listed] for name, listed in weights.items()}
    return rounded, torch.randn(rows, hidden).bfloat16()


def _in_ranks(work: Callable[[int], None], folder: str, patch: str | None) -> dict[str, Any] | None:
    """Run `work` in a process for each rank; return the first failure, or None if all succeed."""
    running: dict[int, int] = {}
    for rank in range(RANKS):
        pid = os.fork()
        if not pid:
            _run_rank(work, rank, folder, patch)
        running[pid] = rank
    # The server's signal to a child that hangs is passed on to the ranks, which write their
    # tracebacks.
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
    # The first failure counts: the other rank fails too, but later.
    return min(failures, key=lambda failure: failure.pop("at"), default=None)


def _end_with_tracebacks(pids: Iterable[int]) -> NoReturn:
    """End as a child that hangs does, after every rank has written its traceback."""
    _end(pids, signal.SIGUSR1)
    os._exit(1)


def _end(pids: Iterable[int], number: signal.Signals) -> None:
    # One process after the other, since their tracebacks go to one file. A process that has just
    # ended may still be in `pids`.
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, number)
            os.waitpid(pid, 0)


def _run_rank(work: Callable[[int], None], rank: int, folder: str, patch: str | None) -> NoReturn:
    """Run `work` with the environment variables of a launcher, and leave a reply in `folder`."""
    end_with_parent()
    os.environ |= _LOOPBACK | {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS)}
    reply: dict[str, Any] = {}
    try:
        work(rank)
    except BaseException as error:  # the patch may raise anything, SystemExit included
        reply = {"at": _now(), "failure": exception_failure(error, patch)}
    write_reply(reply, _open(f"{folder}/rank{rank}.json", os.O_CREAT | os.O_WRONLY | os.O_TRUNC))


def _failure(path: str, rank: int, status: int) -> list[dict[str, Any]]:
    """The failure of a rank that has ended, if it failed. A rank that crashed left no reply."""
    try:
        with open(path, encoding="utf-8") as file:
            reply = json.load(file)
    except (OSError, ValueError):
        reply = {"at": 0.0, "failure": exit_failure(status)}
    if "failure" not in reply:
        return []
    failure = reply["failure"]
    return [failure | {"at": reply["at"], "signature": f"rank {rank}: {failure['signature']}"}]


def _join_group(rank: int, profile: Profile, folder: str) -> dist.Store:
    """Join the group of all ranks; on GPUs, each rank uses a device of its own."""
    store = dist.FileStore(f"{folder}/store", RANKS)
    backend = "gloo" if profile["backend"] == "cpu" else "nccl"
    if backend == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(backend, store=store, rank=rank, world_size=RANKS)
    return store


def _await_others(rank: int, store: dist.Store) -> None:
    """Wait for all ranks, because no rank may end while another rank still reads from it."""
    store.set(f"done {rank}", "")
    store.wait([f"done {other}" for other in range(RANKS)])
