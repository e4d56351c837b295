"""Counts calls of the hooks that Inductor's config offers to users, and reads the options that a
user gives a compile.

Is each hook still called, and each option still in force, once a patch is in?
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NoReturn
from unittest import mock

import torch
import torch._inductor.config as config
from torch._inductor.graph import GraphLowering

from patchgate.probe.compile import sentinel
from patchgate.probe.compile.capture import capture
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.protocol import Hooks, Patched, Stage

# Option -> whether the hook returns what it was given: scheduler nodes; the others change their
# graph in place.
_HOOKS = {
    "pre_grad_custom_pass": False,
    "joint_custom_pre_pass": False,
    "joint_custom_post_pass": False,
    "post_grad_custom_pre_pass": False,
    "post_grad_custom_post_pass": False,
    "_pre_fusion_custom_pass": True,
    "_post_fusion_custom_pass": True,
}


def call_hooks(request: Patched, stage: Stage) -> Hooks:
    """Which of the user's hooks into the compiler are called, and which options of a call reach
    it.
    """
    calls: Counter[str] = Counter()
    hooks = {name: _counting(calls, name) for name in _HOOKS if hasattr(config, name)}
    for name, hook in hooks.items():  # as by a user before the patch
        setattr(config, name, hook)
    apply_patch(request, stage)
    stage("compile")
    capture(sentinel.build, dtype=torch.float32, dynamic=False, profile=request["profile"])
    now = {name: getattr(config, name) for name in hooks}
    # An option that was switched off holds no other pass.
    replaced = [name for name in hooks if callable(now[name]) and now[name] is not hooks[name]]
    called = dict(calls)
    return {"called": called, "replaced": replaced, "asked": options_in_force()}


def _counting(calls: Counter[str], name: str) -> Callable[..., Any]:
    def hook(*args: Any, **kwargs: Any) -> Any:
        calls[name] += 1
        return args[0] if _HOOKS[name] else None

    return hook


# Options that differ from their defaults and that no mode sets.
_OPTIONS = {"split_reductions": False, "inplace_buffers": False}


_Compiles = Callable[[Callable[[torch.Tensor], torch.Tensor]], Callable[..., Any]]


class _Reached(Exception):
    """Inductor got the graph: what was to be read has been read."""


def options_in_force() -> dict[str, dict[str, str]]:
    """Way to call torch.compile -> each option that it asks for -> its value when Inductor gets the
    graph.

    The name "" has what became of a call that asks for no option, or that does not reach Inductor:
    `compiled`, `not compiled`, `raises RuntimeError`.
    """
    ways: dict[str, tuple[Mapping[str, Any], _Compiles]] = {
        f"mode={mode!r}": (options, functools.partial(torch.compile, mode=mode))
        for mode, options in torch._inductor.list_mode_options().items()
    }
    ways["options=..."] = _OPTIONS, functools.partial(torch.compile, options=dict(_OPTIONS))
    ways["as a decorator"] = (
        _OPTIONS,
        lambda function: torch.compile(options=dict(_OPTIONS))(function),
    )
    ways["fullgraph, dynamic"] = {}, functools.partial(torch.compile, fullgraph=True, dynamic=True)
    ways["disable"] = {}, functools.partial(torch.compile, disable=True)
    whole = functools.partial(torch.compile, fullgraph=True)
    ways["compiled twice"] = {}, lambda function: whole(whole(function))
    ways["inside a compiled function"] = (
        {},
        lambda function: torch.compile(_calling(whole(function))),
    )
    ways["a module"] = {}, lambda function: whole(_Applied(function))
    ways["a method"] = {}, lambda function: whole(_Applied(function).forward)
    return {name: _in_force(*way) for name, way in ways.items()}


class _Applied(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._function(x)


def _calling(function: Callable[..., Any]) -> Callable[[torch.Tensor], torch.Tensor]:
    def call(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = function(x)
        return result

    return call


def _in_force(options: Mapping[str, Any], compiles: _Compiles) -> dict[str, str]:
    reached: list[dict[str, str]] = []

    def function(x: torch.Tensor) -> torch.Tensor:
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
