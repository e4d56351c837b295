"""What importing a patch does besides changing torch, with the line of the patch that does it.

Decides what counts as an effect: a device asked, the environment or a config
written, a thread, process or connection started, a file written, a compile.
Refuses to know which of them the patch has declared.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch.utils._config_module import ConfigModule

from patchgate.probe.patch import snapshot as patching
from patchgate.probe.process.sandbox import CACHES

Effect = dict[str, Any]

# Python's audit events by the kind of effect that they tell of; the first argument names it.
_EVENTS = {
    "subprocess.Popen": "processes",
    "os.fork": "processes",
    "os.forkpty": "processes",
    "os.posix_spawn": "processes",
    "os.system": "processes",
    "os.exec": "processes",
    "socket.connect": "network",
    "socket.bind": "network",
    "os.remove": "files",
    "os.rename": "files",
    "os.mkdir": "files",
    "os.rmdir": "files",
    "os.chdir": "process",
}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Recorder:
    """Collects effects while the patch's module runs; each is told once, with its first line."""

    def __init__(self, path: str) -> None:
        self.path = path
        # The compiler's own caches and temporary files are no business of anybody's.
        caches = (os.environ.get(name) for name in CACHES)
        self.scratch = ("/dev/", "/proc/", tempfile.gettempdir(), *filter(None, caches))
        self.found: dict[tuple[str, str], Effect] = {}
        self.written: dict[str, int | None] = {}
        self._on = False

    def note(self, kind: str, name: str, what: str = "", line: int | None = None, old: object = None) -> None:
        effect = {"kind": kind, "name": name, "what": what or name, "line": line or self.line(), "old": repr(old)}
        self.found.setdefault((kind, name), effect)

    def append(self, call: str) -> None:
        """The stand-in device tells of a call that would have initialised a real one."""
        self.note("device", call)

    def line(self) -> int | None:
        """The line of the patch that is being run."""
        frame = sys._getframe()
        while frame is not None and frame.f_code.co_filename != self.path:
            frame = frame.f_back  # type: ignore[assignment]
        return frame.f_lineno if frame is not None else None

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Python's audit hook; it cannot be taken away again, so it is switched."""
        if not self._on:
            return
        first = arguments[0] if arguments else ""
        name = os.fsdecode(first) if isinstance(first, (str, bytes, os.PathLike)) else type(first).__name__
        if event in _EVENTS and not (_EVENTS[event] == "files" and name.startswith(self.scratch)):
            self.note(_EVENTS[event], f"{event}({name})")
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES:
            if not name.startswith(self.scratch):
                self.note("files", f"open({name})")
        elif event in ("os.putenv", "os.unsetenv"):
            self.written.setdefault(name, self.line())

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Hear of everything until the end."""
        setting, compiling, starting = ConfigModule.__setattr__, torch.compile, threading.Thread.start

        def recorded_set(module: ConfigModule, name: str, value: object) -> None:
            self.written.setdefault(f"{module.__name__}.{name}", self.line())
            setting(module, name, value)

        def recorded_compile(*args: Any, **kwargs: Any) -> Any:
            self.note("compile", "torch.compile")
            return compiling(*args, **kwargs)

        def recorded_start(thread: threading.Thread) -> None:
            # Python tells of threads by an audit event from 3.12 on.
            self.note("threads", f"threading.Thread({thread.name}).start")
            starting(thread)

        sys.addaudithook(self.hear)
        with (
            mock.patch.object(ConfigModule, "__setattr__", recorded_set),
            mock.patch.object(torch, "compile", recorded_compile),
            mock.patch.object(threading.Thread, "start", recorded_start),
        ):
            self._on = True
            try:
                yield
            finally:
                self._on = False


class State:
    """The settings that a process has: environment, torch's configs, working directory and umask."""

    def __init__(self) -> None:
        self.environment, self.config = dict(os.environ), patching.configs()
        umask = os.umask(0o77)
        os.umask(umask)
        self.process = {"cwd": _cwd(), "umask": oct(umask)}

    def told(self, before: State, recorder: Recorder) -> None:
        """Note each setting that differs from `before`."""
        for kind in ("environment", "config", "process"):
            old, new = getattr(before, kind), getattr(self, kind)
            for name in sorted(old.keys() | new.keys()):
                if repr(old.get(name)) != repr(new.get(name)):
                    what = f"{name}: {old.get(name)!r} -> {new.get(name)!r}"
                    recorder.note(kind, name, what, recorder.written.get(name), old.get(name))


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "(deleted)"


def settings(recorder: Recorder) -> list[Effect]:
    """The effects that are settings which a user may have made: environment variables and config options."""
    return [effect for (kind, _), effect in recorder.found.items() if kind in ("environment", "config")]


def unseen(written: list[Effect]) -> list[Effect]:
    """The config options that a new thread does not see as they were set."""
    here, there = patching.configs(), in_thread(patching.configs)
    return [
        effect | {"what": f"{effect['name']}: {here.get(effect['name'])!r} here, {there.get(effect['name'])!r} there"}
        for effect in written
        if effect["kind"] == "config" and repr(here.get(effect["name"])) != repr(there.get(effect["name"]))
    ]


def in_thread(ask: Callable[[], Any]) -> Any:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(ask()))
    thread.start()
    thread.join()
    return answers[0]


def set_by_user(written: list[Effect]) -> dict[str, Any]:
    """Give each setting a value that the patch would not: what a user could have set before the import."""
    values: dict[str, Any] = {}
    configs = patching.configs()
    for effect in written:
        name = effect["name"]
        if effect["kind"] == "environment" and name in os.environ:
            values[name] = os.environ[name] = _another(os.environ[name])
        elif effect["kind"] == "config" and isinstance(configs.get(name), (bool, int)):
            value = not configs[name] if isinstance(configs[name], bool) else configs[name] + 1
            # A user who has set the default cannot be told from one who has set nothing.
            if repr(value) != effect["old"]:
                values[name] = value
                module, _, option = name.rpartition(".")
                setattr(sys.modules[module], option, value)
    return values


def _another(text: str) -> str:
    if text.isdecimal():
        return "0" if text != "0" else "1"
    return text + "0"


def overwritten(written: list[Effect], users: dict[str, Any]) -> list[Effect]:
    """The user's settings that did not survive."""
    now = {**patching.configs(), **os.environ}
    return [
        effect | {"what": f"{effect['name']}: the user's {users[effect['name']]!r} became {now.get(effect['name'])!r}"}
        for effect in written
        if effect["name"] in users and repr(now.get(effect["name"])) != repr(users[effect["name"]])
    ]
