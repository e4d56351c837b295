"""Asks the fork server of a case's torch for an observation or an answer, within limits. If the
server does not answer, the result is a failure that says why.

After a failure of the machine, the question is asked once more. Answers that runs share are read
from the cache.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from patchgate.inputs.manifest import Patch
from patchgate.model.files import write_atomically
from patchgate.model.paths import display_path
from patchgate.model.records import Case, Cause, Observation, Workload, record
from patchgate.model.serialization import Answer, fact_from, failure_of, ran_of
from patchgate.probe.protocol import KILLED, PATIENCE, QUESTIONS, Failure
from patchgate.runner.cache import Cache
from patchgate.runner.cache_keys import (
    answer_key,
    is_foreign,
    knows_its_place,
    loaded_digest,
    machine_digest,
    patch_digest,
    patch_files,
    stands_alone,
)
from patchgate.runner.files_read import note_read
from patchgate.runner.request_costs import COSTS, note_cost, note_kept
from patchgate.runner.run_settings import ResultStore, Run
from patchgate.runner.start_server import Connect, Servers

# Seconds in which a server imports torch, before it answers the first question.
WARM_UP_SECONDS = 180
# A question is repeated once if the machine, and not the patch, prevented the answer.
_TRIES = 2
# Causes of failures that might not occur on another try.
_TRIED_AGAIN = {Cause.MACHINE.value, KILLED}
# Causes of failures that occur on every try: exceptions of the patch.
_REPEATED = {Cause.RAISED.value, Cause.MISSING.value}
# Characters of a server's log that a failure shows.
_LOG_CHARACTERS = 2000
# The minimum time limit of patchgate's own steps in seconds, and how many bytes of compared outputs
# extend this limit by one second.
_OWN_SECONDS, _OWN_SPEED = 60.0, 1 << 20
# Extra bytes of memory for each byte of the output files compared: some are held as float64.
_COMPARED = 4
# The share of a run's kept answers that are measured again.
_CHECKED = 1 / 16
# Parts of an answer's text that differ between processes: addresses, the folders of a server, and
# its name for our modules.
_OF_A_PROCESS = re.compile(r"\b(0x[0-9a-f]+|run-\w+|m[0-9a-f]{8})\b")
# The time spans in which this thread's cell asked questions whose answers are now kept.
_ASKED: ContextVar[list[tuple[float, float]]] = ContextVar("asked")
# Factors of the time limit, for questions that compile several times.
COMPILES = {"shapes": 4}


def request_for(
    workload: Workload | None, profile: dict[str, Any], patch: Patch | None
) -> dict[str, Any]:
    """The request for a case: the workload and how it is compiled, the device, the patch and its
    scope.
    """
    request: dict[str, Any] = {"profile": profile}
    if workload:
        compiled = ("dtype", "dynamic", "dynamic_dim", "training", "mode", "reads")
        request |= {"workload": workload.name, "workload_path": workload.path}
        request |= {name: getattr(workload, name) for name in compiled}
        if workload.model:
            request["model"] = workload.model
        if is_foreign(workload.path):
            request["foreign"] = True
    return request | (loading(patch) if patch else {"patch": None})


def uses_the_patch(do: str) -> bool:
    """True for a question that compiles or runs something once the patch is imported."""
    return "later" in QUESTIONS[do].request.__annotations__


def loading(patch: Patch) -> dict[str, Any]:
    """The part of a request that describes the patch: its path, and how it is imported and
    installed.
    """
    claims = patch.claims
    how = {
        "scope": claims.scope,
        "install": claims.apply,
        "stubs": patch.stubs,
        "environment": claims.environment,
    }
    later = {"later": patch.later} if patch.later else {}
    return {"patch": patch.path, "paths": patch.paths, "part_of": claims.part_of, **how, **later}


def cache_of(run: Run, patch: Patch | None) -> tuple[Cache | None, str]:
    """Return the cache in which runs keep their measurements, and a digest of everything that
    decides the measurements apart from torch.

    Outside of watches and jobs, a patch that is not a diff has no cache if its text does not show
    all imports, or if it may import or open files that no digest covers: edits of these files would
    not be noticed. The digest for a patch covers this machine and this user.
    """
    folder = run.patched_cache if patch and not run.is_job else run.shared_cache
    if not folder or not patch:
        return (Cache(Path(folder)) if folder else None), f"{run.project.import_path}"
    path = Path(patch.path)
    # The digest of a patch in a folder of its own covers the whole folder.
    covered = ("packaging", "files") if path.stem == "patch" else ("packaging",)
    if not (run.watch or run.is_job or patch.diff or stands_alone(path, *covered)):
        return None, ""
    digest = loaded_digest(patch) if run.watch else patch_digest(patch)
    how = f"{run.limits} {run.require_sandbox} {run.project.import_path} {machine_digest()}"
    place = path if knows_its_place(path) else ""
    return Cache(Path(folder)), f"{digest} {how} {place}"


def runner_of(run: Run, servers: Servers) -> Runner:
    """A runner that asks these servers, and notes in the run's folder what each question costs."""
    return Runner(
        run=run,
        connect=servers.connect,
        logs=servers.logs,
        identities=dict(servers.identities),
        costs=Path(run.folder) / COSTS,
        checked=_CHECKED,
    )


def _forget_named_files(answer: Answer, request: Mapping[str, Any]) -> None:
    """Remove the files that the request names from "opened"; drop the key if no file is left."""
    places = [request.get(name) for name in ("patch", "part_of", "workload_path")]
    places.append(request.get("profile", {}).get("plugin"))
    others = _beyond(answer.pop("opened", ()), filter(None, places))
    if others:
        answer["opened"] = others


def _beyond(opened: Iterable[str], known: Iterable[str | Path]) -> list[str]:
    """The opened files that are not among the `known` ones."""
    places = {os.path.realpath(path) for path in known}
    return [path for path in opened if os.path.realpath(path) not in places]


def _has_failed(answer: Answer) -> bool:
    """True if there is no answer, or if a part of the question failed in a way that another try
    might not repeat.
    """
    parts = answer.get("versions", {}).values()
    causes = {part["failure"]["cause"] for part in parts if "failure" in part}
    return "failure" in answer or not causes <= _REPEATED


def _comparable(answer: Answer, outputs: Path | None) -> list[Any] | None:
    """Return the parts of a measurement that a repetition should reproduce; None for a failure that
    might not occur again.
    """
    failure = answer.get("failure")
    if failure or _has_failed(answer):
        return [failure["cause"]] if failure and failure["cause"] in _REPEATED else None
    data = outputs.read_bytes() if outputs and outputs.is_file() else b""
    text = _OF_A_PROCESS.sub("", json.dumps(answer, sort_keys=True))
    return [text, hashlib.sha256(data).digest()]


def _contradictions(ask: Callable[[], Answer], known: Answer, outputs: Path | None) -> list[Answer]:
    """The fresh answers that contradict a kept answer: two if they agree with each other, otherwise
    only the second. Empty if a fresh answer equals the kept answer, or failed in a way that another
    try might not repeat.
    """
    measured = [_comparable(known, outputs)]
    fresh = []
    for _ in range(2):
        fresh.append(ask())
        fresh[-1].pop("opened", None)
        measured.append(_comparable(fresh[-1], outputs))
        if measured[-1] in (None, measured[0]):
            return []
    return fresh if measured[1] == measured[2] else fresh[1:]


def _never_held_against_a_patch(do: str, answer: Answer) -> Answer:
    """Return the answer of one of patchgate's own steps. The step runs no patch, so any failure
    counts as the machine's and is tried again.
    """
    failure = answer.get("failure")
    if not failure or failure["cause"] in _TRIED_AGAIN:
        return answer
    said = f"patchgate's own step `{do}`: {failure['signature']}"
    return {**answer, "failure": {**failure, "cause": Cause.MACHINE.value, "signature": said}}


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """The seconds that lie in at least one of the spans, which may overlap."""
    total = until = 0.0
    for first, last in sorted(spans):
        total += max(0.0, last - max(first, until))
        until = max(until, last)
    return total


#: A lock for each key, so that threads that want the same answer ask for it once. They get the lock
#: by `locks.setdefault(key, Lock())`, which Python does in one step.
Locks = dict[str, threading.Lock]


@record
class Runner:
    """Asks the servers of a run. The keys of `logs` and of `identities` (of the environments) are
    torch releases.
    """

    run: Run
    connect: Connect
    logs: dict[str, str]
    identities: dict[str, str] = field(default_factory=dict)
    costs: Path | None = None  #: where each request is noted with its CPU seconds, as JSON lines
    #: Locks by case, so that threads measure a case only once; copies of a runner share them.
    measuring: Locks = field(default_factory=dict)
    #: the files that children have read, and that are noted in the run's folder
    read: set[str] = field(default_factory=set)
    saved: set[str] = field(default_factory=set)  #: keys of answers of this run
    checked: float = 0.0  #: the share of kept answers to measure again, chosen at random
    #: (torch release, question) of each kept answer that two measurements of this run contradicted
    contradicted: list[tuple[str, str]] = field(default_factory=list)
    #: by torch release, the seconds of each judged cell, less those of questions that are now kept
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def store(self) -> ResultStore:
        return self.run.store

    def ask(self, torch: str, do: str, seconds: float | None = None, **request: Any) -> Answer:
        """Ask one fork server one question. Without an answer, the result holds "failure".

        `seconds` overrides the run's limit. After a failure of the machine, the question is asked
        once more: such a failure must never be held against the patch.
        """
        is_own, limits = QUESTIONS[do].is_own, self.run.limits
        files = filter(os.path.isfile, (request.get(side, "") for side in ("unpatched", "patched")))
        compared = sum(map(os.path.getsize, files))
        seconds, memory = seconds or limits.seconds, limits.bytes + _COMPARED * compared
        if is_own:
            seconds = max(seconds, _OWN_SECONDS) + compared / _OWN_SPEED
        if request.get("profile", {}).get("kind") == "real":
            memory = 0  # CUDA maps far more than it uses
            device = "CUDA_VISIBLE_DEVICES"
            request |= {
                "fresh": True,
                "env": {**request.get("env", {}), device: os.environ.get(device)},
            }
        if self.run.require_sandbox:
            request["confined"] = True
        if self.run.project.path:
            request["import_path"] = self.run.project.import_path
        asked = {"do": do, "limits": {"seconds": seconds, "bytes": memory}, **request}
        message = json.dumps(asked).encode() + b"\n"
        uses_device = request.get("fresh") and do != "time"
        for number in range(_TRIES):
            at = time.time()
            # The device is locked last, so that no thread holds it while it waits for a case.
            with (
                self._beside_others(alone=bool(number) and is_own),
                self._device() if uses_device else contextlib.nullcontext(),
            ):
                answer = self._exchange(torch, do, message, seconds)
            self._note_cost(torch, do, request, answer, at)
            answer = _never_held_against_a_patch(do, answer) if is_own else answer
            _forget_named_files(answer, request)
            self._note_read(answer.get("opened", ()))
            cause = answer.get("failure", {}).get("cause")
            if cause not in _TRIED_AGAIN:
                break
        if cause == KILLED:
            # An operator may have sent one such signal; two, with memory to spare, come from the
            # patch.
            whose = Cause.CRASHED if request.get("patch") else Cause.MACHINE
            answer["failure"] |= {"cause": whose.value}
        if do == "observe" and request.get("patch") and "code" in answer:
            return self._with_code_read(torch, answer, request["profile"]["backend"])
        return answer

    def keep(
        self,
        ask: Callable[[], Answer],
        torch: str,
        patch: Patch | None,
        question: Mapping[str, Any],
        *alike: Mapping[str, Any],
    ) -> Answer:
        """Return a kept answer if runs share a cache that has one, otherwise the answer of `ask`,
        which is then kept by the content of everything that the question names.

        A kept answer to a question in `alike` is used too: it contains the answer to this one.
        """
        cache, keys = self._keys(torch, patch, question, *alike)
        if not cache:
            return ask()
        outputs = Path(question["outputs"]) if "outputs" in question else None
        for key in filter(None, keys):
            known = cache.load(key, outputs)
            if known is None:
                continue
            # Compare only an answer to this very question: answers to the questions `alike` contain
            # more.
            began = time.monotonic()
            if key == keys[0] and random.random() < self.checked:
                fresh = _contradictions(ask, known, outputs)
                if fresh:
                    self._disbelieve(cache, key, torch, question["do"], len(fresh))
                    return fresh[-1]
                known = cache.load(key, outputs) or known
                _ASKED.get([]).append((began, time.monotonic()))
            if key not in self.saved:
                note_kept(self.costs, torch, question["do"], patch.path if patch else None)
            return known
        began = time.monotonic()
        answer = ask()
        others = answer.pop("opened", ())
        # If a child read a file that no key covers, an edit of this file would not be noticed.
        covered = patch_files(patch) if patch and others else ()
        # If the patch was edited meanwhile, the answer may belong to either text.
        if (
            keys[0]
            and not _has_failed(answer)
            and not _beyond(others, covered)
            and keys[:1] == self._keys(torch, patch, question)[1]
        ):
            cache.save(keys[0], answer, outputs)
            self.saved.add(keys[0])
            _ASKED.get([]).append((began, time.monotonic()))
        return answer

    @contextlib.contextmanager
    def timed(self, torch: str, cell: str) -> Iterator[None]:
        """Note in `seconds` how long this thread judges a cell, less the time of kept answers."""
        asked: list[tuple[float, float]] = []
        token, began = _ASKED.set(asked), time.monotonic()
        try:
            yield
        finally:
            _ASKED.reset(token)
            again = time.monotonic() - began - (1 - self.checked) * _covered(asked)
            self.seconds.setdefault(torch, {})[cell] = round(again, 3)

    def seconds_kept(self, torch: str, patch: Patch) -> dict[str, float]:
        """Return the seconds that each cell takes when all its answers are kept from earlier runs.
        Empty if the patch, or anything else that decides answers, has changed.
        """
        cache, keys = self._keys(torch, patch, {"do": "seconds", "resources": self.run.nightly})
        kept = cache.load(keys[0]) if cache and keys[0] else None
        return dict((kept or {}).get("seconds", {}))

    def keep_seconds(self, patch: Patch) -> None:
        """Keep the seconds of this run's cells for later runs."""
        for torch, seconds in self.seconds.items():
            question = {"do": "seconds", "resources": self.run.nightly}
            cache, keys = self._keys(torch, patch, question)
            if cache and keys[0]:
                cache.save(keys[0], {"seconds": self.seconds_kept(torch, patch) | seconds})

    def _disbelieve(self, cache: Cache, key: str, torch: str, question: str, agree: int) -> None:
        """Forget a kept answer; if two fresh answers `agree`, forget all other kept answers too."""
        cache.forget(key)
        if agree > 1:
            self.contradicted.append((torch, question))
            for folder in filter(None, (self.run.shared_cache, self.run.patched_cache)):
                Cache(Path(folder)).forget_all()

    def _keys(
        self, torch: str, patch: Patch | None, *questions: Mapping[str, Any]
    ) -> tuple[Cache | None, list[str | None]]:
        """The cache, if runs share one, and the keys of questions in it."""
        cache, digest = cache_of(self.run, patch)
        if not cache or torch not in self.identities:
            return None, []
        identity = f"{self.identities[torch]} {digest}"
        return cache, [answer_key(each, identity) for each in questions]

    def _note_read(self, files: Iterable[str]) -> None:
        new = {*files} - self.read
        if new:
            note_read(Path(self.run.folder), sorted(new))
            self.read.update(new)

    def _with_code_read(self, torch: str, answer: Answer, backend: str) -> Answer:
        """Add the facts from the answer's code. The code is read in a process in which no patch
        ever ran, and equal code is read once.
        """
        request = {"code": answer["code"], "backend": backend}
        ask = partial(self.ask, torch, "code", **request)
        read = self.keep(ask, torch, None, {"do": "code", **request})
        if "failure" in read:
            return read
        return answer | {"facts": answer["facts"] | read["facts"]}

    def _note_cost(
        self, torch: str, do: str, request: dict[str, Any], answer: Answer, at: float
    ) -> None:
        names = "workload", "patch", "version", "tag", "cover"
        known = {name: request.get(name) for name in names} | answer.pop("cpu", {})
        if "held" in answer:
            known["held"] = answer["held"]
        device, wall = request.get("profile", {}).get("backend"), time.time() - at
        note_cost(self.costs, torch=torch, do=do, device=device, at=at, wall=wall, **known)

    @contextlib.contextmanager
    def _beside_others(self, *, alone: bool) -> Iterator[None]:
        """Share a lock with the questions of all workers. With `alone`, wait until other questions
        have ended, and hold up new ones.
        """
        how = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        with self._lock("asking") as asking:
            with self._lock("next") as turn:
                fcntl.flock(turn, how)
                fcntl.flock(asking, how)
            yield

    @contextlib.contextmanager
    def _device(self) -> Iterator[None]:
        """Hold the machine's GPU, which the threads of the run share; a timing waits until no other
        case uses it.
        """
        with open(self.device_lock, "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            yield

    @property
    def device_lock(self) -> Path:
        """The file that a user of the GPU locks: shared, or exclusively for a timing."""
        with self._lock("device") as lock:
            return Path(lock.name)

    def _lock(self, name: str) -> BinaryIO:
        path = Path(self.run.folder, "code", f"{name}.lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "ab")

    def _exchange(self, torch: str, do: str, message: bytes, seconds: float) -> Answer:
        try:
            with self.connect(torch, do) as connection:
                connection.settimeout(WARM_UP_SECONDS + PATIENCE * seconds)
                connection.sendall(message)
                line = connection.makefile("rb").readline()
            answer: Answer = json.loads(line)
        except (OSError, ValueError):
            return {"failure": self._no_server(torch)}
        return answer

    def _no_server(self, torch: str) -> Failure:
        log = ""
        with contextlib.suppress(OSError):
            log = Path(self.logs[torch]).read_text("utf-8", errors="replace")[-_LOG_CHARACTERS:]
        lines = log.strip().splitlines()
        signature = f"the probe of torch {torch} did not answer"
        if lines:
            signature += f"; its log ends: {lines[-1]}"
        return {
            "cause": Cause.MACHINE.value,
            "stage": "server",
            "signature": signature,
            "detail": log,
            "where": None,
            "raised_at": None,
            "missing": [],
        }

    def observe(
        self,
        case: Case,
        workload: Workload,
        patch: Patch | None,
        *,
        cover: bool = False,
        held: Mapping[str, list[str]] | None = None,
    ) -> Observation:
        """Return the observation of a case. It is measured once in each run, or once for the same
        content if runs share a cache.

        With `cover`, it contains the lines of the patch that ran and the callers of the originals
        that are `held`, and takes twice the time.
        """
        with self.measuring.setdefault(case.id, threading.Lock()):
            known = self.store.load(case)
            if known:
                return known
            covered = {"cover": cover, "held": dict(held or {})}
            observation = self._measure(case, workload, patch, covered)
            self.store.save(observation)
            return observation

    def code_path(self, case: Case) -> Path:
        """The file with the code that was generated for a case, if it compiled."""
        return Path(self.run.folder, "code", f"{case.id}.py")

    def _measure(
        self, case: Case, workload: Workload, patch: Patch | None, covered: dict[str, Any]
    ) -> Observation:
        profile = self.run.profile(case.device)
        request = request_for(workload, profile, patch) | {
            "resources": self.run.nightly,
            **covered,
        }
        seconds = self.run.limits.seconds * COMPILES.get(workload.asks, 1)
        # No fact contains a path, so the key has the content of the patch in place of its path.
        question = {"do": workload.asks, **request, "patch": bool(patch), "paths": ()}
        ask = partial(self.ask, case.torch, workload.asks, seconds, **request)
        # An observation with traced lines contains everything that this question asks for.
        answer = self.keep(ask, case.torch, patch, question, question | {"cover": True})
        observation = self._observation(case, answer)
        failure = observation.failure
        if failure is None or failure.stage != "compile":
            return observation
        # Compile the case again, to find the compiler's failing stage and to get its trace.
        trace = self.code_path(case).with_suffix(".trace")
        trace.mkdir(parents=True, exist_ok=True)
        answer = self.ask(case.torch, "failing stage", **request, trace=str(trace.resolve()))
        failure = replace(failure, stage=answer.get("stage", failure.stage))
        return replace(observation, failure=failure, artifacts={"trace": display_path(trace)})

    def _observation(self, case: Case, answer: Answer) -> Observation:
        observation = Observation(case=case, environment=answer.get("environment", {}))
        if "failure" in answer:
            return replace(observation, failure=failure_of(answer))
        artifacts = {}
        if answer.get("code"):
            write_atomically(self.code_path(case), "\n\n".join(answer["code"]), lasting=False)
            artifacts["code"] = display_path(self.code_path(case))
        facts = {name: fact_from(value) for name, value in answer["facts"].items()}
        return replace(observation, facts=facts, artifacts=artifacts, **ran_of(answer))
