"""One child of the server, forked or started anew: it limits and confines itself, answers one
request, and ends.

It must not return into the server's loop.
"""

from __future__ import annotations

import faulthandler
import fcntl
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from patchgate.probe.process.namespaces import end_with_parent, enter
from patchgate.probe.process.opened_files import note_opened_files
from patchgate.probe.process.reply import exception_failure, write_reply
from patchgate.probe.process.sandbox import (
    CACHES,
    Sandbox,
    confine_child,
    is_trusted,
    limit_resources,
    private_bytes,
)
from patchgate.probe.protocol import QUESTIONS, Compare, Exchange, Request, Stage, variables_of

# Of what loads torch in a process below: on many cores OpenBLAS alone takes as much.
_TORCH_BYTES = 1 << 30
_Handler = Callable[[Request, Stage], dict[str, Any]]


class Ends(NamedTuple):
    """The file descriptors that a child has of the server: a pipe, and files without a name."""

    reply: int  #: the writing end of the pipe for its one reply
    stage: int  #: holds the name of the step that runs now
    trace: int  #: what faulthandler writes
    output: int  #: what the child prints
    ended: int  #: the status of the patch's process, as its init process got it
    opened: int  #: the files that it reads beside its environment


def answer(
    request: Request, folder: str, ends: Ends, sandbox: Sandbox, server: int = 0
) -> NoReturn:
    """Answer `request` in the folder of the child, and end; `server` are the server's bytes where
    this is no fork.
    """
    _detach(ends)

    def stage(name: str) -> None:
        os.pwrite(ends.stage, name.ljust(16).encode(), 0)

    try:
        is_script = QUESTIONS[request["do"]].loaded == "nothing"
        limit_resources(request["limits"], _TORCH_BYTES if is_script else server)
        enter(sandbox.namespaces, ends.ended)
        os.close(ends.ended)
        _write_tracebacks(ends.trace)
        headers = confine_child(request, folder, sandbox)
        if not is_trusted(request):
            caches = filter(None, (headers, *map(os.environ.get, CACHES), request.get("libraries")))
            note_opened_files(ends.opened, (os.path.dirname(folder), *caches))
    except Exception as error:  # nothing of the patch has run
        failure = exception_failure(error, None)
        failure |= {"cause": "machine", "signature": f"no sandbox: {failure['signature']}"}
        write_reply({"failure": failure}, ends.reply)
    try:
        # Only here, since torch starts threads, which a child that is no fork has to be without
        # until it is confined.
        handler = _prepare(request, folder, headers)
        # Last, so that no module of the project stands in for one of Python's; and not in the
        # unconfined server.
        sys.path += request.get("import_path", [])
        for how in (request, *request.get("after", ())):
            os.environ.update(variables_of(how))
        stage("start")
        reply = handler(request, stage)
    except BaseException as error:  # the patch may raise anything, SystemExit included
        reply = {"failure": exception_failure(error, request.get("patch"))}
    used = os.times()
    write_reply({**reply, "below": used.children_user + used.children_system}, ends.reply)


def _prepare(request: Request, folder: str, headers: str) -> _Handler:
    """The function that answers, where as much of torch is loaded as its question wants.

    Where that is the whole compiler, with the libraries and headers that others have made; where it
    is nothing, a process that is started finds them in its caches.
    """
    loaded = QUESTIONS[request["do"]].loaded
    if loaded == "torch":
        # In a pipeline torch refuses what it only warns of elsewhere; and it may read the patch's
        # variables as it is imported.
        os.environ.update({"CI": "true"} | variables_of(request))
    handler = _handler_of(QUESTIONS[request["do"]])
    if loaded == "nothing":
        from patchgate.probe.compile.plain_run import share_headers

        share_headers(_built_before(request, folder, headers))
    elif loaded == "compiler":
        _use_built(request, folder, headers)
    return handler


def _handler_of(question: Exchange) -> _Handler:
    name = question.answered_by.partition(":")[2]
    function = getattr(importlib.import_module(question.module), name)
    return partial(_compare, function) if question.request is Compare else function


def _compare(
    compare: Callable[[str, str], dict[str, Any]], request: Request, stage: Stage
) -> dict[str, Any]:
    """Compare the files of both sides."""
    stage("differ")
    try:
        return {"metrics": compare(request["unpatched"], request["patched"]), "unreadable": ""}
    except Exception as error:
        if exception_failure(error, None)["cause"] != "raised":
            raise
        # Untrusted code wrote the patched file. Where the other one can be compared with itself,
        # that is why.
        compare(request["unpatched"], request["unpatched"])
        why = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        return {"metrics": {}, "unreadable": why}


def _use_built(request: Request, folder: str, headers: str) -> None:
    """Have the compiler use the libraries and headers that others have made."""
    from torch._inductor import codecache

    from patchgate.probe.serve.build_kernels import build_kernels_together
    from patchgate.probe.serve.known_headers import builds_kernels, use_header

    renew_thread_pool()
    own = _built_before(request, folder, headers)
    codecache._HEADER_DIR, codecache._HEADER_LOCK_DIR = own, f"{own}/locks"
    if builds_kernels(request):
        use_header(headers)
        build_kernels_together()


def _built_before(request: Request, folder: str, headers: str) -> str:
    """Take over the libraries that a request names; returns the child's folder of headers, with
    those in `headers`.
    """
    if "libraries" in request:
        copy_missing_libraries(
            Path(request["libraries"]), Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
        )
    return headers if is_trusted(request) else link_headers(Path(headers), Path(folder, "headers"))


def renew_thread_pool() -> None:
    """Have torch's pool of threads, which no fork keeps, made anew by one thread alone.

    Else the first to ask for it makes it: the threads of a backward ask at once, some find none,
    and abort.
    """
    import torch

    torch.set_num_threads(torch.get_num_threads())


def copy_missing_libraries(source: Path, target: Path) -> None:
    """Copy each library below `source` to the same place below `target`, where there is none.

    Here and not in the host: a patch may have left links in `target`, and here they lead nowhere.
    """
    for library in _finished(source, "*.so"):
        place = target / library.relative_to(source)
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=place.parent) as made:
                os.replace(shutil.copyfile(library, Path(made, place.name)), place)


def link_headers(shared: Path, own: Path) -> str:
    """The folder `own` with links to the precompiled headers of `shared`: what is missing there a
    child makes here.
    """
    own.mkdir(parents=True)
    for compiled in _finished(shared, "*.gch"):
        for header in (compiled.with_suffix(""), compiled):
            place = own / header.relative_to(shared)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(header)
    return str(own)


def _finished(source: Path, pattern: str) -> Iterator[Path]:
    """Files below `source`, but for those that a process is making now: Inductor holds a lock of
    the same name.
    """
    locks = {path.stem: path for path in source.rglob("*.lock")}
    for path in source.rglob(pattern):
        lock = locks.get(path.name.partition(".")[0])
        if not (lock and _is_locked(lock)):
            yield path


def _is_locked(path: Path) -> bool:
    with open(path, "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _detach(ends: Ends) -> None:
    """Own process group, no terminal, and all output into a file: what the patch prints cannot be
    taken for a reply.
    """
    os.setsid()
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(ends.output, 1)
    os.dup2(ends.output, 2)
    os.close(null)
    os.close(ends.output)


def _write_tracebacks(trace: int) -> None:
    """The server ends a child that hangs by a signal: the traceback is written, then its default
    action ends it.
    """
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    faulthandler.enable(trace, all_threads=False)
    faulthandler.register(signal.SIGUSR1, trace, all_threads=False, chain=True)


def save_request(request: Request, folder: str, sandbox: Sandbox) -> None:
    """In the server: leave a child that is no fork of it what it answers, and the server's
    bytes.
    """
    with open(f"{folder}/request.json", "w", encoding="utf-8") as file:
        json.dump([request, vars(sandbox), private_bytes()], file)


def answer_saved(folder: str, ends: Sequence[int]) -> NoReturn:
    """Answer the request that lies in `folder`."""
    with open(f"{folder}/request.json", encoding="utf-8") as file:
        request, sandbox, server = json.load(file)
    answer(request, folder, Ends(*ends), Sandbox(**sandbox), server)


if __name__ == "__main__":
    answer_saved(sys.argv[1], [*map(int, sys.argv[2:])])
