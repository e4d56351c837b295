"""One child of a server, forked or started by exec: it limits and confines itself, answers one
request, and ends.

A forked child must not return into the server's loop.
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
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from patchgate.probe.process.namespaces import end_with_parent, enter
from patchgate.probe.process.opened_files import note_opened_files
from patchgate.probe.process.reply import exception_failure, one_line, write_reply
from patchgate.probe.process.sandbox import (
    CACHES,
    Sandbox,
    confine_child,
    is_trusted,
    limit_resources,
)
from patchgate.probe.protocol import QUESTIONS, Compare, Exchange, Request, Stage, variables_of

# Memory in bytes for loading torch: on many cores OpenBLAS alone needs as much.
_TORCH_BYTES = 1 << 30
_Handler = Callable[[Request, Stage], dict[str, Any]]


class Ends(NamedTuple):
    """The file descriptors that a child inherits from the server: a pipe, and files
    without a name.
    """

    reply: int  #: the writing end of the pipe for the child's one reply
    stage: int  #: holds the name of the step that runs now
    trace: int  #: what faulthandler writes
    output: int  #: what the child prints
    ended: int  #: the exit status of the patch's process, written by its init process
    opened: int  #: the names of the files that it reads outside its environment


def answer(request: Request, folder: str, ends: Ends, sandbox: Sandbox, loaded: str) -> NoReturn:
    """Answer `request` in the folder of the child, and end; `loaded` says how much of torch this
    process has loaded, as in `Exchange`.
    """
    _detach(ends)

    def stage(name: str) -> None:
        os.pwrite(ends.stage, name.ljust(16).encode(), 0)

    try:
        limit_resources(request["limits"], 0 if loaded == "compiler" else _TORCH_BYTES)
        enter(sandbox.namespaces, ends.ended)
        os.close(ends.ended)
        # The server ends a hanging child by this signal; the child first writes its traceback.
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        faulthandler.enable(ends.trace, all_threads=False)
        faulthandler.register(signal.SIGUSR1, ends.trace, all_threads=False, chain=True)
        headers = confine_child(request, folder, sandbox)
        if not is_trusted(request):
            caches = filter(None, (headers, *map(os.environ.get, CACHES), request.get("libraries")))
            note_opened_files(ends.opened, (os.path.dirname(folder), *caches))
    except Exception as error:  # nothing of the patch has run
        _blame_machine("no sandbox", error, ends)
    try:
        # This comes after the confinement, because torch starts threads, and Landlock confines only
        # the thread that asks for it.
        try:
            handler = _prepare(request, folder, headers)
        except OSError as error:  # other children use the same folders
            _blame_machine("not prepared", error, ends)
        # The project's folders come last, so that no module of the project takes the place of one
        # of Python's. The unconfined server does not get them.
        sys.path += request.get("import_path", [])
        for how in (request, *request.get("after", ())):
            os.environ.update(variables_of(how))
        stage("start")
        reply = handler(request, stage)
    except BaseException as error:  # the patch may raise anything, SystemExit included
        reply = {"failure": exception_failure(error, request.get("patch"))}
    used = os.times()
    write_reply({**reply, "below": used.children_user + used.children_system}, ends.reply)


def _blame_machine(what: str, error: Exception, ends: Ends) -> NoReturn:
    """Reply that a step before the patch has failed; the machine is blamed, never the patch."""
    failure = exception_failure(error, None)
    failure |= {"cause": "machine", "signature": f"{what}: {failure['signature']}"}
    write_reply({"failure": failure}, ends.reply)


def _detach(ends: Ends) -> None:
    """Leave the server's process group and terminal, and redirect all output into a file, so that
    the patch's output is never taken for a reply.
    """
    os.setsid()
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDONLY)
    for descriptor, target in enumerate((null, ends.output, ends.output)):
        os.dup2(target, descriptor)
    os.close(null)
    os.close(ends.output)


def _prepare(request: Request, folder: str, headers: str) -> _Handler:
    """Import the function that answers, and the parts of torch that its question needs.

    The compiler uses libraries and headers that were built earlier. A script that the child starts
    finds them in its caches.
    """
    question = QUESTIONS[request["do"]]
    if question.loaded == "torch":
        # With CI set, torch turns some warnings into errors. Torch may also read the patch's
        # variables when it is imported.
        os.environ.update({"CI": "true"} | variables_of(request))
    handler = _handler_of(question)
    if question.loaded == "torch":
        return handler
    if question.loaded == "compiler":
        renew_thread_pool()
    if "libraries" in request:
        copy_missing_libraries(
            Path(request["libraries"]), Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
        )
    own = headers if is_trusted(request) else link_headers(Path(headers), Path(folder, "headers"))
    if question.loaded == "nothing":
        from patchgate.probe.compile.plain_run import share_headers

        share_headers(own)
        return handler
    from torch._inductor import codecache

    from patchgate.probe.serve.cpp_builds import (
        build_kernels_together,
        builds_kernels,
        use_header,
        write_apart,
    )

    codecache._HEADER_DIR, codecache._HEADER_LOCK_DIR = own, f"{own}/locks"
    if builds_kernels(request):
        use_header(headers)
        write_apart()
        build_kernels_together()
    return handler


def _handler_of(question: Exchange) -> _Handler:
    name = question.answered_by.partition(":")[2]
    function = getattr(importlib.import_module(question.module), name)
    return partial(_compare, function) if question.request is Compare else function


def _compare(
    compare: Callable[[str, str], dict[str, Any]], request: Request, stage: Stage
) -> dict[str, Any]:
    """Compare the files of both sides; report a patched file that cannot be compared."""
    stage("differ")
    try:
        return {"metrics": compare(request["unpatched"], request["patched"]), "unreadable": ""}
    except Exception as error:
        # Untrusted code wrote the patched file, and may ask for any amount of memory. If the
        # unpatched file can be compared with itself, the patched file is to blame; otherwise this
        # comparison raises the same error.
        compare(request["unpatched"], request["unpatched"])
        return {"metrics": {}, "unreadable": one_line(error)}


def renew_thread_pool() -> None:
    """Create torch's thread pool again from one thread, because a fork does not keep the pool.

    Otherwise the threads of a backward pass would all create the pool at once, and some would find
    no pool and abort.
    """
    import torch

    torch.set_num_threads(torch.get_num_threads())


def copy_missing_libraries(source: Path, target: Path) -> None:
    """Copy each library below `source` to the same place below `target`, unless it exists there.

    This is done in the child and not by the host, because links that a patch may have left in
    `target` lead nowhere in a child.
    """
    for library in _finished(source, "*.so"):
        place = target / library.relative_to(source)
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=place.parent) as made:
                os.replace(shutil.copyfile(library, Path(made, place.name)), place)


def link_headers(shared: Path, own: Path) -> str:
    """Create the folder `own` with links to the precompiled headers in `shared`. The child later
    creates missing headers in `own`.
    """
    own.mkdir(parents=True)
    for compiled in _finished(shared, "*.gch"):
        for header in (compiled.with_suffix(""), compiled):
            place = own / header.relative_to(shared)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(header)
    return str(own)


def _finished(source: Path, pattern: str) -> Iterator[Path]:
    """Yield the files below `source` that no process is writing now. Inductor holds a lock of the
    same name while it writes a file.
    """
    locks = {path.stem: path for path in source.rglob("*.lock")}
    for path in source.rglob(pattern):
        lock = locks.get(path.name.partition(".")[0])
        with suppress(BlockingIOError):
            if lock is not None:
                with open(lock, "rb") as held:
                    fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
            yield path


def save_request(request: Request, folder: str, sandbox: Sandbox) -> None:
    """Save request and sandbox for a child that is started by exec. Called before the exec."""
    with open(f"{folder}/request.json", "w", encoding="utf-8") as file:
        json.dump([request, vars(sandbox)], file)


if __name__ == "__main__":
    with open(f"{sys.argv[1]}/request.json", encoding="utf-8") as saved:
        asked, parts = json.load(saved)
    answer(asked, sys.argv[1], Ends(*map(int, sys.argv[2:])), Sandbox(**parts), "nothing")
