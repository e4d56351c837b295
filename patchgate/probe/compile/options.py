"""Observes the options of torch.compile, the options that each mode sets, and the hooks and options
that reach the compiler.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn
from unittest import mock

import torch
import torch._inductor.config as config
from torch import Tensor
from torch._inductor.graph import GraphLowering

from patchgate.probe.compile import sentinel
from patchgate.probe.compile.capture import capture
from patchgate.probe.compile.observe import environment
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.protocol import CallHooks, Facts, Function, Hooks, Observe, OptionFacts, Stage

# Hooks that return scheduler nodes; all other hooks change a graph in place.
_RETURN_NODES = ("_pre_fusion_custom_pass", "_post_fusion_custom_pass")
_HOOKS = (
    "pre_grad_custom_pass",
    "joint_custom_pre_pass",
    "joint_custom_post_pass",
    "post_grad_custom_pre_pass",
    "post_grad_custom_post_pass",
    *_RETURN_NODES,
)
# The user's passes. One that is edited has another text, and one with a key another key.
_PASSES = "passes_of_the_user"
_KEYED = """
from torch._inductor.custom_graph_pass import CustomGraphPass
class Keyed(CustomGraphPass):
    def __init__(self, passed):
        self.passed = passed
    def __call__(self, graph):
        self.passed(graph)
    def uuid(self):
        return "edit {edit}"
"""
_PASS = """
def {name}(*args, **kwargs):
    edit = {edit}
    calls["{name}"] += 1
    return {result}
"""
# Values that differ from the options' defaults, for options that no mode sets.
_OPTIONS = {"split_reductions": False, "inplace_buffers": False}
_Compiles = Callable[[Callable[[Tensor], Tensor]], Function]


def observe_options(request: Observe, stage: Stage) -> OptionFacts:
    """Return facts of `list_options()` and `list_mode_options()`, which a patch may replace."""
    apply_patch(request, stage)
    stage("options")
    facts: Facts = {f"options.listed.{name}": 1 for name in torch._inductor.list_options()}
    for mode, options in torch._inductor.list_mode_options().items():
        facts[f"options.mode.{mode}"] = f"{len(options)} options"
        facts |= {f"options.mode.{mode}.{name}": repr(value) for name, value in options.items()}
    return {"facts": facts, "environment": environment()}


def call_hooks(request: CallHooks, stage: Stage) -> Hooks:
    """Report which of the user's hooks into the compiler are called, and which options of a call
    reach it.
    """
    calls: Counter[str] = Counter()
    names = [name for name in _HOOKS if hasattr(config, name)]
    with TemporaryDirectory() as folder:
        passes = _passes_of_the_user(Path(folder), names, is_edited=request.get("edited", False))
        passes.calls = calls
        hooks = {name: getattr(passes, name) for name in names}
        if request.get("keyed"):
            keyed = [name for name in names if name not in _RETURN_NODES]
            hooks |= {name: passes.Keyed(hooks[name]) for name in keyed}
        for name, hook in hooks.items():  # set before the patch, as by a user
            setattr(config, name, hook)
        apply_patch(request, stage)
        stage("compile")
        capture(sentinel.build, dtype=torch.float32, dynamic=False, profile=request["profile"])
        now = {name: getattr(config, name) for name in names}
        # An option that the patch has switched off holds no other pass.
        replaced = [name for name in names if callable(now[name]) and now[name] is not hooks[name]]
        keys = {name: _key(now[name]) for name in replaced if calls[name]}
        called = dict(calls)
        asked = _options_in_force()
    return {"called": called, "replaced": replaced, "keys": keys, "asked": asked}


def _passes_of_the_user(folder: Path, names: Sequence[str], *, is_edited: bool) -> Any:
    """The module with the user's passes. It is a file, because a key may be made of their text."""
    text = _KEYED.format(edit=int(is_edited))
    for name in names:
        result = "args[0]" if name in _RETURN_NODES else None
        text += _PASS.format(name=name, edit=int(is_edited), result=result)
    (folder / f"{_PASSES}.py").write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(_PASSES)
    finally:
        sys.path.remove(str(folder))


def _key(value: Any) -> str:
    """The key of a pass; empty if it has none, so that torch keeps no code of its graphs."""
    try:
        key = value.uuid()
    except Exception:  # torch's caches raise it too, where they ask
        return ""
    return "" if key is None else repr(key)


class _Reached(Exception):
    """Ends a compile when Inductor has got the graph and its options were read."""


def _options_in_force() -> dict[str, dict[str, str]]:
    """Return: way to call torch.compile -> given option -> its value when Inductor gets the graph.

    For a call without options, or one that does not reach Inductor, the option is "" and the value
    the result: `compiled`, `not compiled`, `raises RuntimeError`.
    """
    whole = partial(torch.compile, fullgraph=True)
    modes = torch._inductor.list_mode_options().items()
    with_options: dict[str, tuple[Mapping[str, Any], _Compiles]] = {
        f"mode={mode!r}": (options, partial(torch.compile, mode=mode)) for mode, options in modes
    }
    with_options["options=..."] = _OPTIONS, partial(torch.compile, options=dict(_OPTIONS))
    with_options["as a decorator"] = (
        _OPTIONS,
        lambda function: torch.compile(options=dict(_OPTIONS))(function),
    )
    plain: dict[str, _Compiles] = {
        "fullgraph, dynamic": partial(whole, dynamic=True),
        "disable": partial(torch.compile, disable=True),
        "compiled twice": lambda function: whole(whole(function)),
        "inside a compiled function": lambda function: torch.compile(_calling(whole(function))),
        "a module": lambda function: whole(_Applied(function)),
        "a method": lambda function: whole(_Applied(function).forward),
    }
    before = _in_force(_OPTIONS, whole)
    asked = {name: _in_force(*way) for name, way in with_options.items()}
    asked |= {name: _in_force({}, way) for name, way in plain.items()}
    # The options of an earlier call must end with that call.
    after = _in_force(_OPTIONS, whole)
    asked["without options, after the others"] = {"": "as before"} if after == before else after
    refused = _in_force({}, lambda function: whole(_calling(function, breaks=True)))[""]
    is_refused = refused.startswith("raises")
    asked["fullgraph, of a graph that breaks"] = {"": "refused" if is_refused else refused}
    return asked


class _Applied(torch.nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: Tensor) -> Tensor:
        return self._function(x)


def _calling(function: Function, *, breaks: bool = False) -> Callable[[Tensor], Tensor]:
    def call(x: Tensor) -> Tensor:
        if breaks:
            torch._dynamo.graph_break()
        result: Tensor = function(x)
        return result

    return call


def _in_force(options: Mapping[str, Any], compiles: _Compiles) -> dict[str, str]:
    reached: list[dict[str, str]] = []

    def function(x: Tensor) -> Tensor:
        return x.sin() + 1

    def run(*args: Any, **kwargs: Any) -> NoReturn:
        reached.append({name: repr(attrgetter(name)(config)) for name in options})
        raise _Reached

    torch._dynamo.reset()
    try:
        with mock.patch.object(GraphLowering, "run", run), config.patch(force_disable_caches=True):
            compiles(function)(torch.ones(4))
    except Exception as error:
        if not reached:
            return {"": f"raises {type(error).__name__}"}
    return (reached[0] if reached else {"": "not compiled"}) or {"": "compiled"}
