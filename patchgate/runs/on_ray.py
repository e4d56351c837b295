"""A sweep over the machines of a Ray cluster: one task a row and share, tried again where a worker is lost.

Decides what a task asks of the cluster, and what is said of one that never came back. Ray is an optional extra.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from patchgate.checks.machine import judge_environment
from patchgate.inputs.devices import load_profile
from patchgate.inputs.patch import load_patch
from patchgate.model.errors import UsageError
from patchgate.model.paths import ROOT, shown
from patchgate.runner.environments import NotInstallable
from patchgate.runner.run import load_verdicts
from patchgate.runs.remote import Order, Parcel, carry_out, files_at, unpack
from patchgate.runs.scheduling import shares
from patchgate.runs.sweep import Done, Job, Sweep, material

LOCAL = "ray"  # the cluster of this machine, or of $RAY_ADDRESS
RETRIES = 3


def sweep_on(
    address: str,
    sweep: Sweep,
    jobs: Sequence[Job],
    broken: dict[str, str],
    judge: Callable[[Order], Parcel] = carry_out,
) -> Iterator[Done]:
    """What becomes of the jobs, in the order in which the cluster is done; what is known here is not sent.

    `broken` are rows that have no environment, each with the reason. Raises UsageError for a cluster that cannot.
    """
    left = []
    for job in jobs:
        known = _known(sweep, job, broken)
        if known is not None:
            yield known
        else:
            left.append(job)
    if left:
        yield from _sent(address, sweep, left, judge)


def _known(sweep: Sweep, job: Job, broken: dict[str, str]) -> Done | None:
    if job.torch in broken:
        return Done(job=job, verdicts=[judge_environment(job.torch, broken[job.torch])], has_results=False)
    try:
        return sweep.known(job) if job.torch in sweep.environments.rows else None
    except NotInstallable:
        return None


def _sent(address: str, sweep: Sweep, jobs: Sequence[Job], judge: Callable[[Order], Parcel]) -> Iterator[Done]:
    ray = _connected(address)
    try:
        task = ray.remote(judge).options(max_retries=RETRIES, **_needs(ray, sweep))
        pending = {task.remote(order): mine for order, mine in _orders(sweep, jobs, len(ray.nodes()))}
        while pending:
            (ready, *_), _ = ray.wait(list(pending))
            yield from _received(ray, ready, pending.pop(ready), sweep)
    finally:
        ray.shutdown()


def _connected(address: str) -> Any:
    try:
        import ray
    except ImportError:
        advice = "pip install 'patchgate[ray]'"
        raise UsageError("Ray is not installed", where="--on", got=address, next=advice) from None
    # Workers import the very patchgate that is here: its version alone would not tell an edited one.
    environment = {"working_dir": str(ROOT), "excludes": ["/.*", "build", "docs"]}
    try:
        ray.init(
            address="auto" if address == LOCAL else address,
            runtime_env=environment,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        told = str(error).strip().splitlines()
        advice = "ray start --head, then --on ray; or --on ray://HOST:10001"
        raise UsageError("no cluster", where="--on", got=told[0] if told else address, next=advice) from None
    return ray


def _needs(ray: Any, sweep: Sweep) -> dict[str, float]:
    """CPUs for the cases at once, and a GPU where one is judged on; a cluster without them would wait for ever."""
    real = any(load_profile(device)["kind"] == "real" for device in sweep.devices)
    needs = {"num_cpus": float(sweep.workers), "num_gpus": 1.0 if real else 0.0}
    there = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(node.get("CPU", 0) >= needs["num_cpus"] and node.get("GPU", 0) >= needs["num_gpus"] for node in there):
        got = "; ".join(f"{node.get('CPU', 0):g} CPUs, {node.get('GPU', 0):g} GPUs" for node in there)
        asked = f"{sweep.workers} CPUs{' and a GPU' if real else ''}"
        raise UsageError(f"no node has {asked}", where="--on", got=got, next="-n 1, or larger nodes")
    return needs


def _orders(sweep: Sweep, jobs: Sequence[Job], machines: int) -> Iterator[tuple[Order, list[Job]]]:
    """One a share, as even as what the jobs cost before allows."""
    names = {load_patch(job.patch).id: job.patch for job in jobs}
    left = {(load_patch(job.patch).id, job.torch): job for job in jobs}
    torches = list(dict.fromkeys(job.torch for job in jobs))
    now = material()
    for share in shares(torches, list(names), machines, sweep.history.costs()):
        mine = [left[patch, share.torch] for patch in share.patches if (patch, share.torch) in left]
        if mine:
            order = Order(
                torch=share.torch,
                patches={shown(job.patch): files_at(job.patch) for job in mine},
                home=shown(sweep.folder),
                material=now,
                devices=sweep.devices,
                python=sweep.environments.rows.get(share.torch),
                workloads=sweep.workloads,
                nightly=sweep.nightly,
                limits=sweep.limits,
                workers=sweep.workers,
            )
            yield order, mine


def _received(ray: Any, ready: Any, jobs: Sequence[Job], sweep: Sweep) -> Iterator[Done]:
    """The jobs of one share with their results put in place; each is the machine's trouble where none came."""
    try:
        parcel: Parcel = ray.get(ready)
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.ObjectLostError) as error:
        problem = f"its worker was lost {RETRIES + 1} times ({type(error).__name__})"
        yield from (Done(job=job, verdicts=[judge_environment(job.torch, problem)], has_results=False) for job in jobs)
        return
    if parcel.problem:
        advice = "give every node this checkout, or none of its own"
        raise UsageError("a worker cannot judge", where="--on", got=parcel.problem, next=advice)
    unpack(parcel, sweep.folder)
    for job, one in zip(jobs, parcel.done, strict=True):
        verdicts = load_verdicts(sweep.results(job)) if one.has_results else one.verdicts
        yield replace(one, job=job, verdicts=verdicts)
