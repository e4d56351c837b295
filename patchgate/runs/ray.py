"""A sweep over the machines of a Ray cluster: one task for each shard, tried again if a worker is
lost.

The machine that sweeps sends a task with everything that it needs; a worker judges it and sends its
folder of results back. Ray is the optional extra `ray`, and imported only here.
"""

from __future__ import annotations

import io
import logging
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from patchgate.inputs.patch import load_patch
from patchgate.model.errors import UsageError
from patchgate.model.paths import ROOT, display_path
from patchgate.model.records import record
from patchgate.runner.run_settings import Run, load_verdicts
from patchgate.runner.torch_environments import Environments
from patchgate.runs.content_key import input_digests, project_files
from patchgate.runs.history.store import History
from patchgate.runs.shards import shards_by_cost
from patchgate.runs.sweep import Job, JobResult, Sweep, without_environment

LOCAL = "ray"  # the cluster of this machine, or of $RAY_ADDRESS
RETRIES = 3
# A worker does not send back files and folders whose names begin with these.
_OWN = ("patches", "history.sqlite")


@record
class Task:
    """One shard: a torch and the patches to judge on it."""

    torch: str
    patches: Mapping[str, Mapping[str, bytes]]  #: path of each patch here -> its files, by path
    folder: str  #: folder of results here, as paths in the results shall name it
    digests: list[str]  #: `input_digests` here: a worker with another patchgate refuses the task
    template: Run  #: `Sweep.template` of this machine
    files: Mapping[str, bytes] = field(default_factory=dict)  #: the project's files, by path in it
    #: The interpreter on this machine. A worker that has none at this path makes an environment.
    python: str | None = None
    workers: int = 2


@record
class TaskResult:
    """The result that a worker sends back."""

    content: bytes = b""  #: the folder of results as a zip file
    results: tuple[JobResult, ...] = ()  #: in the order of the task's patches
    problem: str = ""  #: why nothing could be judged; otherwise empty


# -- on a worker


def run_task(task: Task) -> TaskResult:
    """Judge the patches of a task in a temporary folder."""
    if input_digests() != task.digests:
        return TaskResult(
            problem="a node has another version of patchgate than this machine, or other workloads "
            "or golden files"
        )
    with tempfile.TemporaryDirectory(prefix="patchgate-share-") as temporary:
        folder = Path(temporary).resolve()
        project = replace(task.template.project, root=str(folder / "patches"))
        if task.files:
            _write(folder / "patches", task.files)
        paths = {
            name: _write(folder / "patches" / str(number), files)
            for number, (name, files) in enumerate(task.patches.items())
        }
        rows = {task.torch: task.python} if task.python and Path(task.python).is_file() else {}
        with (
            closing(Environments(rows)) as environments,
            closing(History(folder / "history.sqlite")) as history,
        ):
            sweep = Sweep(
                folder=folder,
                environments=environments,
                history=history,
                progress=lambda line: None,
                template=replace(task.template, project=project),
                workers=task.workers,
            )
            results = [sweep.judge(Job(torch=task.torch, patch=path)) for path in paths.values()]
        our_names = {str(path): name for name, path in paths.items()} | {str(folder): task.folder}
        our_names[project.root] = task.template.project.root
        return TaskResult(content=_pack(folder, our_names), results=tuple(results))


def _write(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write a patch's files. Return the path of the patch: the folder of the files, or the first
    file.
    """
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder / next(iter(files)).partition("/")[0]


def _pack(folder: Path, our_names: Mapping[str, str]) -> bytes:
    """Pack every result into a zip file, with the worker's paths replaced by those of the sweeping
    machine. Longer paths are replaced first, because they contain shorter ones.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if not path.is_file() or name.parts[0].startswith(_OWN):
                continue
            content = path.read_bytes()
            if path.suffix == ".json":
                for theirs in sorted(our_names, key=len, reverse=True):
                    content = content.replace(theirs.encode(), our_names[theirs].encode())
            archive.writestr(name.as_posix(), content)
    return packed.getvalue()


# -- on the machine that sweeps


def sweep_on_cluster(
    address: str, sweep: Sweep, jobs: Sequence[Job], run: Callable[[Task], TaskResult] = run_task
) -> Iterator[JobResult]:
    """The results of the jobs, in the order in which the cluster finishes them; results that are
    known here are not computed again.

    `run` is a worker's work on a task. Raises UsageError for a cluster that cannot judge.
    """
    unknown, environments = [], sweep.environments
    for job in jobs:
        known = None
        if job.torch in environments.failed:
            known = without_environment(job, environments.failed[job.torch])
        elif job.torch in environments.rows:
            known = sweep.judged_before(job)
        if known is None:
            unknown.append(job)
        else:
            yield known
    if not unknown:
        return
    ray = _connect(address)
    try:
        remote = ray.remote(run).options(max_retries=RETRIES, **_requirements(ray, sweep))
        tasks = _tasks(sweep, unknown, len(ray.nodes()))
        pending = {remote.remote(task): shard for task, shard in tasks}
        while pending:
            (ready, *_), _ = ray.wait(list(pending))
            yield from _receive(ray, ready, pending.pop(ready), sweep)
    finally:
        ray.shutdown()


def _connect(address: str) -> Any:
    try:
        import ray
    except ImportError:
        raise UsageError(
            "Ray is not installed", where="--on", got=address, next="pip install 'patchgate[ray]'"
        ) from None
    # Workers import this very patchgate: its version alone would not show an edit.
    environment = {"working_dir": str(ROOT), "excludes": ["/.*", "build", "docs"]}
    try:
        ray.init(
            address="auto" if address == LOCAL else address,
            runtime_env=environment,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()
        raise UsageError(
            "no cluster",
            where="--on",
            got=reason[0] if reason else address,
            next="ray start --head, then --on ray; or --on ray://HOST:10001",
        ) from None
    return ray


def _requirements(ray: Any, sweep: Sweep) -> dict[str, float]:
    """The CPUs that the cases need at once, and a GPU if a real device is judged. Raises UsageError
    if no node has them: the task would wait for ever.
    """
    kinds = {sweep.template.profile(device)["kind"] for device in sweep.template.devices}
    cpus, gpus = float(sweep.workers), float("real" in kinds)
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    nodes = [(node.get("CPU", 0), node.get("GPU", 0)) for node in alive]
    if not any(has_cpus >= cpus and has_gpus >= gpus for has_cpus, has_gpus in nodes):
        wanted = f"{sweep.workers} CPUs{' and a GPU' if gpus else ''}"
        got = "; ".join(f"{has_cpus:g} CPUs, {has_gpus:g} GPUs" for has_cpus, has_gpus in nodes)
        advice = "-n 1, or larger nodes"
        raise UsageError(f"no node has {wanted}", where="--on", got=got, next=advice)
    return {"num_cpus": cpus, "num_gpus": gpus}


def _tasks(sweep: Sweep, jobs: Sequence[Job], machines: int) -> Iterator[tuple[Task, list[Job]]]:
    """One task for each shard, with its jobs; shards are as even as the earlier costs of jobs
    allow.
    """
    wanted = {(load_patch(job.patch).id, job.torch): job for job in jobs}
    patches, torches = (list(dict.fromkeys(names)) for names in zip(*wanted, strict=True))
    digests = input_digests()
    for shard in shards_by_cost(torches, patches, machines, sweep.history.costs()):
        members = [
            wanted[patch, shard.torch] for patch in shard.patches if (patch, shard.torch) in wanted
        ]
        if members:
            task = Task(
                torch=shard.torch,
                patches={display_path(job.patch): files_at(job.patch) for job in members},
                folder=display_path(sweep.folder),
                digests=digests,
                template=sweep.template,
                files=project_files(sweep.template.project),
                python=sweep.environments.rows.get(shard.torch),
                workers=sweep.workers,
            )
            yield task, members


def files_at(path: Path) -> dict[str, bytes]:
    """The content of a patch's files, by path: all files of a folder, or a file and its manifest.
    The first path names the patch.
    """
    files = sorted(path.rglob("*")) if path.is_dir() else [path, path.with_suffix(".toml")]
    return {
        each.relative_to(path.parent).as_posix(): each.read_bytes()
        for each in files
        if each.is_file() and "__pycache__" not in each.relative_to(path.parent).parts
    }


def _receive(ray: Any, ready: Any, jobs: Sequence[Job], sweep: Sweep) -> Iterator[JobResult]:
    """The results of one task's jobs, unpacked into our folder. If the worker was lost, each job
    counts as one without an environment.
    """
    try:
        result: TaskResult = ray.get(ready)
    except (
        ray.exceptions.WorkerCrashedError,
        ray.exceptions.NodeDiedError,
        ray.exceptions.ObjectLostError,
    ) as error:
        problem = f"its worker was lost {RETRIES + 1} times ({type(error).__name__})"
        yield from (without_environment(job, problem) for job in jobs)
        return
    if result.problem:
        raise UsageError(
            "a worker cannot judge",
            where="--on",
            got=result.problem,
            next="give every node this checkout, or none of its own",
        )
    unpack(result, sweep.folder)
    for job, of_job in zip(jobs, result.results, strict=True):
        verdicts = load_verdicts(sweep.folder_of(job)) if of_job.has_results else of_job.verdicts
        yield replace(of_job, job=job, verdicts=verdicts)


def unpack(result: TaskResult, folder: Path) -> None:
    """Unpack results into our folder. An observation that exists already is the same, because its
    name is a digest of its content.
    """
    with zipfile.ZipFile(io.BytesIO(result.content)) as archive:
        archive.extractall(folder)
