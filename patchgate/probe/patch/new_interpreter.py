"""Runs a patch where nothing of torch is loaded but by `import torch`, as in a new interpreter:
what it replaces there.

What the process that imports it loads beforehand, as the fork server does, must not be what makes a
patch work.
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from patchgate.probe.patch.load import faked_version, run_patch
from patchgate.probe.patch.snapshot import CHANGEABLE, Changes, changes, resolve, take_snapshot
from patchgate.probe.patch.torch_imports import torch_imports_added_to
from patchgate.probe.patch.unread_env_vars import why_without_effect
from patchgate.probe.protocol import Effect, RunAnew, RunAnewResult, Stage
from patchgate.probe.simulate.cpu_build import as_built_for_cuda, is_cpu_only
from patchgate.probe.simulate.fake_device import cuda_functions
from patchgate.probe.simulate.needs_device import missing_answer
from patchgate.probe.simulate.triton_driver import triton_driver

# Where torch's own code is, and Triton's.
_OWN_CODE = tuple(
    str(Path(torch.__file__).parents[1] / name) + os.sep for name in ("torch", "triton")
)


def run_in_new_interpreter(request: RunAnew, stage: Stage) -> RunAnewResult:
    """The replacements that the patch makes here, and the variables that it sets and nothing
    reads.
    """
    stage("new interpreter")
    path, recorder = request["patch"], _Variables()
    before = take_snapshot()
    with contextlib.ExitStack() as stack:
        for name, function in cuda_functions(request["profile"]).items():
            stack.enter_context(mock.patch.object(torch.cuda, name, function))
        if is_cpu_only():
            stack.enter_context(as_built_for_cuda())
        stack.enter_context(triton_driver(request["profile"]))
        stack.enter_context(faked_version(request["version"]))
        stack.enter_context(torch_imports_added_to(before))
        environment = dict(os.environ)
        sys.addaudithook(recorder.audit)
        try:
            run_patch(path, request)
        except BaseException as error:  # the patch may raise anything, SystemExit included
            needed = missing_answer(error)
            if not needed:
                raise
            return {"unmeasured": needed}
        recorder.on = False
        later = [name for name in request["holders"] if not _is_loaded(name)]
        # What a patch does once a module is there, it does by now.
        for name in request["names"]:
            with contextlib.suppress(LookupError):
                resolve(name.partition("[")[0].rpartition(".")[0])
        changed = changes(before, take_snapshot())
    written = {name for name in os.environ if os.environ[name] != environment.get(name)}
    return {
        "missing": [
            name
            for name in request["names"]
            if name not in changed and not _is_replaced(name, changed)
        ],
        "dead": [*_dead(recorder, written, request["variables"], path)],
        "later": later,
    }


class _Variables:
    """The modules of torch and Triton that were loaded when a variable was first set."""

    def __init__(self) -> None:
        self.loaded: dict[str, set[str]] = {}
        self.on = True

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and event == "os.putenv":
            names = {name for name in sys.modules if name.partition(".")[0] in ("torch", "triton")}
            self.loaded.setdefault(os.fsdecode(arguments[0]), names)


def _is_loaded(name: str) -> bool:
    """True if the module, class or table that has the name is there, without any import."""
    owner = name.partition("[")[0] if name.endswith("]") else name.rpartition(".")[0]
    parts = owner.split(".")
    lengths = (size for size in range(len(parts), 0, -1) if ".".join(parts[:size]) in sys.modules)
    found = next(lengths, 0)
    value: Any = sys.modules.get(".".join(parts[:found]))
    return found > 0 and all(
        (value := getattr(value, part, None)) is not None for part in parts[found:]
    )


def _is_replaced(name: str, changed: Changes) -> bool:
    """True if the name leads to what the patch has put somewhere: a module that came later has it
    from there.

    Where nothing had loaded the module before, no snapshot knows what stood there: code from
    outside of torch did not.
    """
    try:
        value = (
            sys.modules[name[len("sys.modules[") : -1]]
            if name.startswith("sys.modules[")
            else resolve(name)
        )
    except LookupError:
        return False
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] not in CHANGEABLE
    function = getattr(value, "__func__", value)
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    # Equal constants are one object, wherever they stand.
    is_constant = isinstance(value, (bool, int, float, str, bytes, type(None)))
    is_foreign = file is not None and file.startswith("/") and not file.startswith(_OWN_CODE)
    return is_foreign or (not is_constant and any(value is now for _, now in changed.values()))


def _dead(variables: _Variables, written: set[str], claimed: list[str], patch: str) -> list[Effect]:
    found: list[Effect] = []
    for name in sorted(written | set(claimed)):
        reason = why_without_effect(
            name, variables.loaded.get(name) if name in written else None, patch
        )
        if reason:
            kind = "set" if name in written else "claimed"
            found.append(
                {
                    "kind": "environment",
                    "name": name,
                    "what": f"{kind}: {reason}",
                    "line": None,
                    "old": "",
                }
            )
    return found
