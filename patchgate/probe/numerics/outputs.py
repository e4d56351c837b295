"""Runs a workload on the CPU or a real GPU, for several seeds and special inputs, and keeps what came out.

Decides how outputs are produced and stored. Refuses to compare them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from patchgate.probe.compile.capture import Build, no_caches, standing_in
from patchgate.probe.simulate.fake_device import Profile

Outputs = list[torch.Tensor]
# Mixed into the inputs: values at which kernels that agree on common ones can part.
SPECIAL: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nan": lambda x: _planted(x, float("nan")),
    "inf": lambda x: _planted(x, float("inf")),
    "-inf": lambda x: _planted(x, -float("inf")),
    "very large": lambda x: x * (torch.finfo(x.dtype).max / 16),
    "denormal": lambda x: x * torch.finfo(x.dtype).tiny,
    "zero": torch.zeros_like,
}
# Sizes that a compiler treats as cases of their own.
SMALL = {"one row": 1, "no rows": 0}
SIDES = ("compiled", "again", "eager", "reference")


def tensors(result: Any) -> Outputs:
    return [leaf.detach().cpu() for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def as_float64(value: Any) -> Any:
    if isinstance(value, torch.nn.Module):
        return value.double()
    if not torch.is_tensor(value) or not value.is_floating_point():
        return value
    return value.detach().double().requires_grad_(value.requires_grad)


def _planted(x: torch.Tensor, value: float) -> torch.Tensor:
    """A copy with `value` in its first element."""
    planted = x.clone()
    planted.view(-1)[:1] = value
    return planted


def run(
    build: Build,
    *,
    dtype: torch.dtype,
    dynamic: bool,
    profile: Profile,
    seeds: list[int],
    path: str,
    training: bool = False,
    small: bool = False,
) -> None:
    """Write eager, compiled (twice, to see determinism) and float64 outputs of every seed to `path`.

    Training, also the gradients; `small`, also what inputs of one row and of none give. One thread: the order of
    a parallel reduction is not the patch's doing. The profile's vector ISA is taken as given, because Inductor's
    own check of it starts processes that import torch anew.
    """
    torch.set_num_threads(1)
    kept: dict[str, Any] = {part: {side: [] for side in SIDES} for part in ("outputs", "gradients")}
    with torch.set_grad_enabled(training), no_caches(), standing_in(profile | {"threads": 1}):
        module, args = made(build, dtype, seeds[0], profile)
        compiled = torch.compile(module, dynamic=dynamic)
        for seed in seeds:
            other, args = made(build, dtype, seed, profile)
            if isinstance(module, torch.nn.Module):
                module.load_state_dict(other.state_dict())  # compiled once, run with the weights of every seed
            exact, given = as_float64(copy.deepcopy(module)), pytree.tree_map(as_float64, args)
            calls = ((compiled, module, args), (compiled, module, args), (module, module, args), (exact, exact, given))
            for side, call in zip(SIDES, calls, strict=True):
                outputs, gradients = _given(*call, dtype)
                kept["outputs"][side] += outputs
                kept["gradients"][side] += gradients

        def outcomes(changed: dict[str, Any]) -> dict[str, Any]:
            sides = {"compiled": compiled, "eager": module}
            return {
                name: {side: _outcome(one, module, given, dtype) for side, one in sides.items()}
                for name, given in changed.items()
            }

        kept["special"] = outcomes({name: _specially(change, args) for name, change in SPECIAL.items()})
        kept["small"] = outcomes({name: _first_rows(rows, args) for name, rows in SMALL.items()} if small else {})
    torch.save(kept, path)


def _given(function: Any, module: Any, args: tuple[Any, ...], dtype: torch.dtype) -> tuple[Outputs, Outputs]:
    """Outputs and, where gradients are recorded, those of all weights and inputs along one fixed direction."""
    result = function(*args)
    if not torch.is_grad_enabled():
        return tensors(result), []
    weights = list(module.parameters()) if isinstance(module, torch.nn.Module) else []
    wanted = [t for t in (*weights, *pytree.tree_leaves(args)) if torch.is_tensor(t) and t.requires_grad]
    outputs = [t for t in pytree.tree_leaves(result) if torch.is_tensor(t) and t.requires_grad]
    noise = torch.Generator().manual_seed(0)
    along = [torch.randn(t.shape, generator=noise).to(dtype).to(t) for t in outputs]
    gradients = torch.autograd.grad(outputs, wanted, along, allow_unused=True)
    return tensors(result), tensors(gradients)


def _outcome(function: Any, module: Any, args: tuple[Any, ...], dtype: torch.dtype) -> Outputs | str:
    """What comes out, or the name of what is raised."""
    try:
        outputs, gradients = _given(function, module, args, dtype)
    except Exception as error:
        return type(getattr(error, "inner_exception", None) or error).__name__
    return outputs + gradients


def made(build: Build, dtype: torch.dtype, seed: int, profile: Profile) -> tuple[Any, tuple[Any, ...]]:
    """Module and inputs of one seed: small on the CPU, of full size on a real GPU."""
    torch.manual_seed(seed)
    return build(torch.device(profile["backend"]), dtype, "full" if profile["kind"] == "real" else "small")


def _specially(change: Callable[[torch.Tensor], torch.Tensor], args: tuple[Any, ...]) -> Any:
    def changed(x: Any) -> Any:
        if not torch.is_tensor(x) or not x.is_floating_point():
            return x
        return change(x.detach()).requires_grad_(x.requires_grad)

    return pytree.tree_map(changed, args)


def _first_rows(rows: int, args: tuple[Any, ...]) -> Any:
    """So many rows of every input that has as many as the first one."""
    whole = next((len(x) for x in pytree.tree_leaves(args) if torch.is_tensor(x) and x.dim()), None)

    def shortened(x: Any) -> Any:
        if not torch.is_tensor(x) or not x.dim() or len(x) != whole:
            return x
        return x.detach()[:rows].clone().requires_grad_(x.requires_grad)

    return pytree.tree_map(shortened, args)
