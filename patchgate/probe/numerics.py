"""Runs a workload on the CPU or a real GPU, for several seeds and for special inputs, and keeps what came out.

Decides how outputs are produced and stored. Refuses to compare them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from patchgate.probe.capture import Build, no_caches, standing_in
from patchgate.probe.standin import Profile

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


def tensors(result: Any) -> Outputs:
    return [leaf.detach().cpu() for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def as_float64(value: Any) -> Any:
    is_module = isinstance(value, torch.nn.Module)
    return value.double() if is_module or (torch.is_tensor(value) and value.is_floating_point()) else value


def _planted(x: torch.Tensor, value: float) -> torch.Tensor:
    """A copy with `value` in its first element."""
    planted = x.clone()
    planted.view(-1)[:1] = value
    return planted


def run(build: Build, *, dtype: torch.dtype, dynamic: bool, profile: Profile, seeds: list[int], path: str) -> None:
    """Write eager, compiled (twice, to see determinism) and float64 outputs of every seed to `path`.

    One thread: the order of a parallel reduction is not the patch's doing. The profile's vector ISA
    is taken as given, because Inductor's own check of it starts processes that import torch anew.
    """
    torch.set_num_threads(1)
    outputs: dict[str, Any] = {"compiled": [], "again": [], "eager": [], "reference": []}
    with torch.no_grad(), no_caches(), standing_in(profile | {"threads": 1}):
        module, args = made(build, dtype, seeds[0], profile)
        compiled = torch.compile(module, dynamic=dynamic)
        for seed in seeds:
            other, args = made(build, dtype, seed, profile)
            if isinstance(module, torch.nn.Module):
                module.load_state_dict(other.state_dict())  # compiled once, run with the weights of every seed
            outputs["compiled"] += tensors(compiled(*args))
            outputs["again"] += tensors(compiled(*args))
            outputs["eager"] += tensors(module(*args))
            outputs["reference"] += tensors(as_float64(copy.deepcopy(module))(*pytree.tree_map(as_float64, args)))
        outputs["special"] = {
            name: {"compiled": tensors(compiled(*given)), "eager": tensors(module(*given))}
            for name, given in ((name, _specially(change, args)) for name, change in SPECIAL.items())
        }
    torch.save(outputs, path)


def made(build: Build, dtype: torch.dtype, seed: int, profile: Profile) -> tuple[Any, tuple[Any, ...]]:
    """Module and inputs of one seed: small on the CPU, of full size on a real GPU."""
    torch.manual_seed(seed)
    return build(torch.device(profile["backend"]), dtype, "full" if profile["kind"] == "real" else "small")


def _specially(change: Callable[[torch.Tensor], torch.Tensor], args: tuple[Any, ...]) -> Any:
    return pytree.tree_map(lambda x: change(x) if torch.is_tensor(x) and x.is_floating_point() else x, args)
