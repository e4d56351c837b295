"""Settings of Python and of the process that a library should not change, and the names of Python's
own modules.
"""

from __future__ import annotations

import ctypes
import decimal
import gc
import itertools
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import socket
import sys
import threading
import types
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

from patchgate.probe.patch.module_name import top_level

# OFILE is the BSD name of NOFILE.
_LIMITS = sorted(
    name for name in vars(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE"
)
_HOOKS = ((sys, "excepthook"), (sys, "unraisablehook"), (threading, "excepthook"))
# Numbers whose arithmetic shows the rounding direction, and if tiny numbers become zero.
_ONE, _SMALL, _TINY = 1.0, 2.0**-60, 5e-324
_REPLACEABLE = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def process_settings() -> dict[str, str]:
    """Each setting of the process by its name; equal settings have equal texts in all processes."""
    root = logging.root
    return {
        "cwd": _cwd(),
        "umask": oct(_umask()),
        "root logger": (
            f"{logging.getLevelName(root.level)}, {[type(each).__name__ for each in root.handlers]}"
        ),
        "logging.disable": str(root.manager.disable),
        "recursion limit": str(sys.getrecursionlimit()),
        "start method": str(multiprocessing.get_start_method(allow_none=True)),
        "socket timeout": str(socket.getdefaulttimeout()),
        "stack of threads": str(_stack_size()),
        "cores": str(sorted(os.sched_getaffinity(0))),
        "priority": str(os.getpriority(os.PRIO_PROCESS, 0)),
        # Results of float operations that depend on the processor's modes.
        "float arithmetic": f"{_ONE + _SMALL!r} {-_ONE - _SMALL!r} {_TINY * _ONE!r} {_ONE / 3!r}",
        **{f"{owner.__name__}.{name}": _text(getattr(owner, name)) for owner, name in _HOOKS},
        **{each.name: _text(signal.getsignal(each)) for each in signal.Signals},
        **{name: str(resource.getrlimit(getattr(resource, name))) for name in _LIMITS},
    }


def python_settings() -> dict[str, str]:
    """Each setting of Python by its name. Packages that a patch imports may have reasons to change
    these.
    """
    context = decimal.getcontext()
    traced = sys.gettrace(), getattr(threading, "_trace_hook", None)
    return {
        "warnings": "ignored" if _are_warnings_ignored() else "shown",
        "switch interval": str(sys.getswitchinterval()),
        "digits of an integer": str(getattr(sys, "get_int_max_str_digits", int)()),
        "garbage collector": f"{gc.isenabled()}, {gc.get_threshold()}, {len(gc.callbacks)} hooks",
        "trace functions": " ".join(map(_text, traced)),
        "decimal": f"{context.prec} digits, {context.rounding}",
        "locale": locale.setlocale(locale.LC_ALL),
        "random": f"{zlib.crc32(repr(random.getstate()).encode()):08x}",
    }


def variables_of_c() -> dict[str, str]:
    """The environment variables that child processes get. `os.putenv` changes these, and not
    `os.environ`.
    """
    variables = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    texts = itertools.takewhile(bool, map(variables.__getitem__, itertools.count()))
    parts = (os.fsdecode(text).partition("=") for text in texts)
    return {name: value for name, _, value in parts}


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "(deleted)"


def _umask() -> int:
    umask = os.umask(0o77)
    os.umask(umask)
    return umask


def _stack_size() -> int:
    """The stack size of threads. Reading it sets the default, so it is set again."""
    size = threading.stack_size()
    threading.stack_size(size)
    return size


def _are_warnings_ignored() -> bool:
    """True if a filter ignores every warning that no earlier filter matches."""
    return any(
        action == "ignore" and category is Warning and (text, module, line) == (None, None, 0)
        for action, text, category, module, line in warnings.filters
    )


def _text(value: Any) -> str:
    """A function, or an object in its place, without its address."""
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{name}" if name else str(value)


def names_of_python() -> dict[str, Any]:
    """The functions and classes of Python's own modules, and the methods of these classes; without
    the builtins, which snapshots contain.
    """
    return dict(_names_of_python())


def _names_of_python() -> Iterator[tuple[str, Any]]:
    for name, module in list(sys.modules.items()):
        is_own = top_level(name) in sys.stdlib_module_names and name != "builtins"
        if not is_own or not isinstance(module, types.ModuleType):
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, _REPLACEABLE):
                yield f"{name}.{key}", value
            if isinstance(value, type) and value.__module__ == name:
                methods = ((each, method) for each, method in list(vars(value).items()))
                yield from ((f"{name}.{key}.{each}", method) for each, method in methods)


def replaced_since(before: dict[str, Any]) -> list[str]:
    """The names of `before` that are bound to another object now."""
    now = names_of_python()
    return sorted(name for name, value in before.items() if now.get(name, value) is not value)
