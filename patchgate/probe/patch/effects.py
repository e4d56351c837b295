"""Records the effects of importing a patch other than its changes of torch, each with the line of
the patch that caused it.

An effect is one of these: a device is initialised; the environment, a config option or a global
state of torch is written; a setting of the process is changed; a name of Python's own modules is
replaced; a thread, process or connection is started; a file is written; something is compiled.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import os
import posix
import re
import sys
import tempfile
import threading
import types
import zlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch.utils._config_module import ConfigModule

from patchgate.probe.patch.load import use_torchs_dtype
from patchgate.probe.patch.process_settings import (
    names_of_python,
    process_settings,
    python_settings,
    replaced_since,
    variables_of_c,
)
from patchgate.probe.patch.snapshot import config_values, older_names
from patchgate.probe.process.sandbox import CACHES
from patchgate.probe.protocol import Effect

# Python's audit event -> kind of effect. The event and its first argument name the effect.
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
    # An audit hook stays until the process ends.
    "sys.addaudithook": "python",
}


def _random_seed() -> int | str:
    """The seed of torch's generator; with a digest of its state if numbers were drawn from it."""
    seed, state = torch.initial_seed(), torch.get_rng_state()
    if torch.equal(state, torch.Generator().manual_seed(seed).get_state()):
        return int(seed)
    return f"{seed}, drawn from ({zlib.crc32(bytes(state.tolist())):08x})"


# States of torch that are no config options: the function that sets a state -> the state's name,
# the function that reads it, and values for it.
_STATES: dict[str, tuple[str, Callable[[], Any], tuple[Any, ...]]] = {
    "set_float32_matmul_precision": (
        "float32_matmul_precision",
        torch.get_float32_matmul_precision,
        ("highest", "high", "medium"),
    ),
    "use_deterministic_algorithms": (
        "deterministic_algorithms",
        torch.are_deterministic_algorithms_enabled,
        (False, True),
    ),
    "set_default_dtype": (
        "default_dtype",
        torch.get_default_dtype,
        (torch.float32, torch.float64, torch.bfloat16),
    ),
    "set_num_threads": ("num_threads", torch.get_num_threads, (1, 2, 3)),
    "manual_seed": ("random_seed", _random_seed, (1, 2, 3)),
}
# States that torch's C++ can read, but that torch itself changes or that `_STATES` has.
_NO_STATE = re.compile(
    "accelerator|cache_stats|caught|thread_name|tracing|privateuse1|(cublas|onednn)_.*tf32|autocast_.pu"
)
_READS_A_STATE = re.compile(r"_get_\w+|_?is_\w+_enabled")
_PLAIN = (bool, int, str, list, tuple, type(None))
# State -> its original setter: a recorder wraps the setters, and a patch may replace them.
_SETTERS: dict[str, Callable[[Any], None]] = {
    name: getattr(torch, setter) for setter, (name, *_) in _STATES.items()
}
T = TypeVar("T")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def effect_of(
    kind: str, name: str, what: str, line: int | None = None, old: object = None
) -> Effect:
    """An effect, with the older names of a config option."""
    older = older_names(name) if kind == "config" else []
    return {
        "kind": kind,
        "name": name,
        "older": older,
        "what": what,
        "line": line,
        "old": repr(old),
    }


class Recorder:
    """Collects effects while the patch's module runs. Each effect is kept once, with the line that
    caused it first.
    """

    def __init__(self, path: str, *, in_package: bool = False) -> None:
        self._path, self._in_package = path, in_package
        # Caches and temporary files do not count: the compiler writes them.
        caches = (os.environ.get(name) for name in CACHES)
        self._scratch = ("/dev/", "/proc/", tempfile.gettempdir(), *filter(None, caches))
        self._effects: dict[tuple[str, str], Effect] = {}
        #: Setting -> line of the patch that wrote it first.
        self.written: dict[str, int | None] = {}
        self._imported = dict[str, None]()
        self.acts_in_forks = False  #: the patch registered functions that run in forks
        self._on = False

    def effects(self) -> list[Effect]:
        return list(self._effects.values())

    def clear(self) -> None:
        """Forget all recorded effects."""
        self._effects.clear()
        self.written.clear()

    def keep_own(self) -> None:
        """Forget the effects of other code: those without a line of the patch."""
        self._effects = {key: each for key, each in self._effects.items() if each["line"]}
        self.written = {name: line for name, line in self.written.items() if line}

    def absent(self) -> list[str]:
        """The packages that the patch itself imported, and that are not installed."""
        return [
            name
            for name in self._imported
            if name not in sys.modules and name not in sys.stdlib_module_names
        ]

    def settings(self) -> list[Effect]:
        """The effects that overwrite a user's settings: environment variables, config options,
        states of torch.

        A setting that was set to its present value counts, because a user's value may differ.
        """
        changed = [effect for effect in self.effects() if effect["kind"] in _USERS]
        now, names = Settings(), {effect["name"] for effect in changed}
        for kind in _USERS:
            values = getattr(now, kind)
            changed += [
                effect_of(kind, name, name, line, values[name])
                for name, line in self.written.items()
                if line and name in values and name not in names
            ]
        return changed

    def note(
        self, kind: str, name: str, what: str = "", line: int | None = None, old: object = None
    ) -> None:
        line = line or self._line()
        if self._is_of_another_module():
            return
        effect = effect_of(kind, name, what or name, line, old)
        self._effects.setdefault((kind, name), effect)

    def _line(self) -> int | None:
        """The line of the patch that runs now."""
        frame = sys._getframe()
        while frame is not None and frame.f_code.co_filename != self._path:
            frame = frame.f_back  # type: ignore[assignment]
        return frame.f_lineno if frame is not None else None

    def _imports(self) -> bool:
        """True if the patch itself runs the present import, not a module that the patch imports."""
        frame = sys._getframe(2)
        while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "importlib":
            frame = frame.f_back
        return frame.f_code.co_filename == self._path

    def _is_of_another_module(self) -> bool:
        """True if a patch in a package is importing another module, whose effects are the
        project's.
        """
        frame: types.FrameType | None = sys._getframe() if self._in_package else None
        is_import = False
        while frame is not None and frame.f_code.co_filename != self._path:
            is_import = is_import or frame.f_code.co_name == "<module>"
            frame = frame.f_back
        return frame is not None and is_import

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Python's audit hook. Python cannot remove one, so it is switched off."""
        if not self._on:
            return
        first = arguments[0] if arguments else ""
        name = (
            os.fsdecode(first)
            if isinstance(first, (str, bytes, os.PathLike))
            else type(first).__name__
        )
        if event in _EVENTS and not (_EVENTS[event] == "files" and name.startswith(self._scratch)):
            self.note(_EVENTS[event], f"{event}({name})")
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES:
            if not name.startswith(self._scratch):
                self.note("files", f"open({name})")
        elif event == "import" and self._imports():
            self._imported[name.partition(".")[0]] = None
        elif event in ("os.putenv", "os.unsetenv"):
            self.written.setdefault(name, self._line())

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record effects until the end of the block."""

        def write(name: str) -> None:
            self.written.setdefault(name, self._line())

        recorded: list[tuple[object, str, Callable[..., None]]] = [
            (ConfigModule, "__setattr__", lambda to, name, _: write(f"{to.__name__}.{name}")),
            (torch, "compile", lambda *_, **__: self.note("compile", "torch.compile")),
            # Python has an audit event for threads from 3.12 on.
            (
                threading.Thread,
                "start",
                lambda thread: self.note("threads", f"threading.Thread({thread.name}).start"),
            ),
        ]
        recorded += [(each, "register_at_fork", self._note_forks) for each in (os, posix)]
        for setter, (name, _, _) in _STATES.items():
            recorded.append((torch, setter, lambda *_, name=name, **__: write(name)))
        sys.addaudithook(self._audit)
        threads, names = _thread._count(), names_of_python()
        with contextlib.ExitStack() as stack:
            for owner, name, note in recorded:
                stack.enter_context(self._noted(owner, name, note))
            self._on = True
            try:
                yield
            finally:
                self._on = False
        if _thread._count() > threads and not any(kind == "threads" for kind, _ in self._effects):
            self.note("threads", "_thread.start_new_thread")
        for name in replaced_since(names):
            self.note("python", name)

    def _note_forks(self, **_: object) -> None:
        self.acts_in_forks = self.acts_in_forks or self._line() is not None

    @contextlib.contextmanager
    def _noted(self, owner: object, name: str, note: Callable[..., None]) -> Iterator[None]:
        """Note calls of `owner.name` until the end of the block.

        If the patch replaces the function, the replacement stays. If the patch has saved the noting
        function as its original, that only calls the real function after the block.
        """
        original = vars(owner)[name]

        @functools.wraps(original)
        def noted(*args: Any, **kwargs: Any) -> Any:
            if self._on:
                note(*args, **kwargs)
            return original(*args, **kwargs)

        setattr(owner, name, noted)
        try:
            yield
        finally:
            if vars(owner)[name] is noted:
                setattr(owner, name, original)


# The kinds of settings that a user may have set before the import.
_USERS = ("environment", "config", "state")


class Settings:
    """The present settings: the environment, torch's options and states, and the settings of the
    process and of Python.
    """

    def __init__(self) -> None:
        self.environment = os.environ | variables_of_c()
        self.config, self.state = config_values(), _states()
        self.process, self.python = process_settings(), python_settings()

    def note_changes(self, before: Settings, recorder: Recorder) -> None:
        """Note each setting that differs from `before`."""
        for kind, name, old, new in self._changes(before):
            what = f"{name}: {old!r} -> {new!r}"
            recorder.note(kind, name, what, recorder.written.get(name), old)

    def add_changes(self, old: Settings, new: Settings) -> None:
        """Give each setting that differs between `old` and `new` its value in `new`."""
        for kind, name, _, now in new._changes(old):
            values = getattr(self, kind)
            values[name] = now
            if name not in getattr(new, kind):
                del values[name]

    def names_unlike(self, before: Settings) -> list[str]:
        """The settings whose values have another type or text in `before`, each with its kind."""
        return [
            f"{kind} {name}"
            for kind, name, old, new in self._changes(before)
            if type(old) is not type(new) or value_text(old) != value_text(new)
        ]

    def made_since(self, before: Settings) -> list[Effect]:
        """The settings that differ from `before`, as effects without a line."""
        return [
            effect_of(kind, name, name, None, old) for kind, name, old, _ in self._changes(before)
        ]

    def _changes(self, before: Settings) -> Iterator[tuple[str, str, Any, Any]]:
        for kind in (*_USERS, "process", "python"):
            old, new = getattr(before, kind), getattr(self, kind)
            for name in sorted(old.keys() | new.keys()):
                was, now = old.get(name), new.get(name)
                if type(was) is not type(now) or repr(was) != repr(now):
                    yield kind, name, was, now


def settings_after(run: Callable[[], T]) -> tuple[T, list[str]]:
    """Run a function; return its result and the kinds and names of settings that it changes."""
    use_torchs_dtype()
    before = Settings()
    result = run()
    return result, Settings().names_unlike(before)


def _states() -> dict[str, Any]:
    named = {name: read for name, read, _ in _STATES.values()}
    return {name: _read(read) for name, read in (_readers() | named).items()}


@functools.cache
def _readers() -> dict[str, Callable[[], Any]]:
    """The functions of torch's C++ that read its states, by the name of the state."""
    found = {}
    for name in dir(torch._C):
        state = name.removeprefix("_get_")
        if _READS_A_STATE.fullmatch(name) and not _NO_STATE.search(state):
            with contextlib.suppress(Exception):  # it takes arguments, or needs a device
                read = getattr(torch._C, name)
                if isinstance(read(), _PLAIN) or type(read()).__module__ == "torch._C":
                    found[state] = read
    return found


def _read(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except RuntimeError:  # torch refuses to give one precision if several were set
        return "mixed"


def unseen(written: list[Effect]) -> list[Effect]:
    """The config options whose value in a new thread differs from the value in this thread."""
    here = config_values()
    there: dict[str, Any] = {}
    thread = threading.Thread(target=lambda: there.update(config_values()))
    thread.start()
    thread.join()
    found = []
    for effect in written:
        name = effect["name"]
        mine, theirs = value_text(here.get(name)), value_text(there.get(name))
        if effect["kind"] == "config" and mine != theirs:
            found.append(effect | {"what": f"{name}: {mine} here, {theirs} there"})
    return found


def value_text(value: object) -> str:
    """The text of a value without its address: a copy of an option's value has another address."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def set_by_user(written: list[Effect]) -> dict[str, Any]:
    """Give each setting a value other than the patch's, as a user may before the import. Return the
    values by name.
    """
    values: dict[str, Any] = {}
    configs, states = config_values(), _states()
    choices = {name: values for name, _, values in _STATES.values()}
    for effect in written:
        name = effect["name"]
        if effect["kind"] == "state":
            # The default counts as not set by the user.
            known = (effect["old"], repr(states[name]))
            other = next(
                (value for value in choices.get(name, ()) if repr(value) not in known), None
            )
            if other is not None:
                values[name] = other
                _SETTERS[name](other)
        elif effect["kind"] == "environment" and name in os.environ:
            values[name] = os.environ[name] = _other_text(os.environ[name])
        elif effect["kind"] == "config" and isinstance(configs.get(name), (bool, int)):
            value = not configs[name] if isinstance(configs[name], bool) else configs[name] + 1
            if repr(value) != effect["old"]:
                values[name] = value
                _set_option(name, value)
    return values


def _set_option(name: str, value: object) -> None:
    """Set `module.option`; the option's own name may have dots, as in `triton.cudagraphs`."""
    module = name.rpartition(".")[0]
    while not isinstance(sys.modules.get(module), ConfigModule):
        module = module.rpartition(".")[0]
    setattr(sys.modules[module], name.removeprefix(f"{module}."), value)


def _other_text(text: str) -> str:
    if text.isdecimal():
        return "0" if text != "0" else "1"
    return text + "0"


def overwritten(written: list[Effect], users: dict[str, Any]) -> list[Effect]:
    """The user's settings that an import replaced."""
    now = {**config_values(), **os.environ, **_states()}
    found = []
    for effect in written:
        name = effect["name"]
        if name in users and repr(now.get(name)) != repr(users[name]):
            what = f"{name}: the user's {users[name]!r} became {now.get(name)!r}"
            found.append(effect | {"what": what})
    return found
