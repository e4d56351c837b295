"""Runs a workload for several seeds and special inputs, and writes its outputs to a file.

On the CPU, on a real GPU, or on the CPU with the code of a simulated one. Both sides write one file
each; `numeric_metrics` compares the two.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree

from patchgate.probe.compile.capture import Build, change_rows, no_caches
from patchgate.probe.numerics.numeric_metrics import Outcome, Outputs
from patchgate.probe.protocol import MemoryFault, Profile
from patchgate.probe.simulate.device_context import device_context
from patchgate.probe.simulate.needs_device import NeedsDevice, missing_answer

_save = torch.save
_PICKLED_BY = {name: vars(torch.Tensor)[name] for name in ("__reduce_ex__", "_reduce_ex_internal")}

# Changes of every input: values at which kernels that agree on common ones can differ.
SPECIAL: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nan": lambda x: _with_first(x, float("nan")),
    "inf": lambda x: _with_first(x, float("inf")),
    "-inf": lambda x: _with_first(x, -float("inf")),
    "very large": lambda x: x * (torch.finfo(x.dtype).max / 16),
    "denormal": lambda x: x * torch.finfo(x.dtype).tiny,
    "zero": torch.zeros_like,
}
# Rows that a compiler treats as cases of their own.
SMALL = {"one row": 1, "no rows": 0}
# Further sizes, for which Dynamo makes one graph with symbols in it.
LARGER = {"three times the rows": 3, "twice the rows": 2}
SIDES = ("compiled", "again", "eager", "reference")


@contextlib.contextmanager
def reproducible(profile: Profile, *, training: bool = False) -> Iterator[None]:
    """Within it, nothing is cached and one thread runs: the order of a parallel reduction varies by
    itself.

    The profile's vector ISA is not checked: Inductor's own check starts processes that import torch
    anew.
    """
    torch.set_num_threads(1)
    simulated = profile["kind"] == "simulated"  # of its device only the backend knows
    device = contextlib.nullcontext() if simulated else device_context(profile | {"threads": 1})
    with torch.set_grad_enabled(training), no_caches(), device:
        yield


def _backend(profile: Profile, faults: dict[Any, MemoryFault]) -> Any:
    """The backend of torch.compile; that of a simulated GPU puts what its kernels do to memory into
    `faults`.
    """
    if profile["kind"] != "simulated":
        return "inductor"
    try:
        from patchgate.probe.interpret.generated import interpreting_backend
    except ImportError as error:  # numpy, or Triton
        raise NeedsDevice(f"Triton's interpreter cannot be loaded ({error})") from None
    return interpreting_backend(profile, faults)


def tensors(result: Any) -> Outputs:
    """Every tensor of a result, on the CPU."""
    return [
        leaf.detach().cpu() for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)
    ]


def as_float64(value: Any) -> Any:
    """A module (in place) or a floating-point tensor (a copy) in float64; anything else as it
    is.
    """
    if isinstance(value, torch.nn.Module):
        return value.double()
    if not torch.is_tensor(value) or not value.is_floating_point():
        return value
    return value.detach().double().requires_grad_(value.requires_grad)


def _with_first(x: torch.Tensor, value: float) -> torch.Tensor:
    """A copy with `value` in its first element."""
    changed = x.clone()
    changed.view(-1)[:1] = value
    return changed


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
    exact: bool = True,
    compiler: Callable[[Any], Any] | None = None,
) -> None:
    """Write eager and compiled outputs (twice, to see determinism) of every seed to `path`.

    Training, also the gradients; `small`, also what inputs of one row and of none give; `exact`,
    also outputs in float64, which are the truth only without the patch: with it, float64 may be
    what the patch never meets. `compiler` is called in place of torch.compile, and gets inputs of
    other sizes too.
    """
    written: dict[str, Any] = {
        part: {side: [] for side in SIDES} for part in ("outputs", "gradients")
    }
    faults: dict[Any, MemoryFault] = {}
    with reproducible(profile, training=training):
        module, args = build_seeded(build, dtype, seeds[0], profile)
        larger = compiler is not None
        compiler = compiler or partial(
            torch.compile, dynamic=dynamic, backend=_backend(profile, faults)
        )
        compiled = compiler(module)
        for seed in seeds:
            other, args = build_seeded(build, dtype, seed, profile)
            if isinstance(module, torch.nn.Module):
                module.load_state_dict(
                    other.state_dict()
                )  # compiled once, run with the weights of every seed
            compiled_call = (compiled, module, args)
            calls = {
                "compiled": compiled_call,
                "again": compiled_call,
                "eager": (module, module, args),
            }
            if exact:
                wide, wide_args = (
                    as_float64(copy.deepcopy(module)),
                    pytree.tree_map(as_float64, args),
                )
                calls["reference"] = (wide, wide, wide_args)
            for side, call in calls.items():
                outputs, gradients = _outputs_and_gradients(*call, dtype)
                written["outputs"][side] += outputs
                written["gradients"][side] += gradients

        outcomes = partial(_outcomes, {"compiled": compiled, "eager": module}, module, dtype)
        written["special"] = outcomes(
            {name: _change_floats(change, args) for name, change in SPECIAL.items()}
        )
        sizes = {name: _first_rows(rows, args) for name, rows in SMALL.items()} if small else {}
        sizes |= (
            {name: _repeated_rows(times, args) for name, times in LARGER.items()} if larger else {}
        )
        written["small"] = outcomes(sizes)
    save_outputs(written | {"memory": list(faults.values())}, path)


def save_outputs(written: object, path: str) -> None:
    """Write a file with torch.save, as torch does it: a patch may replace how a tensor is
    pickled.
    """
    with contextlib.ExitStack() as stack:
        for name, function in _PICKLED_BY.items():
            stack.enter_context(mock.patch.object(torch.Tensor, name, function))
        _save(written, path)


def _outputs_and_gradients(
    function: Any, module: Any, args: tuple[Any, ...], dtype: torch.dtype
) -> tuple[Outputs, Outputs]:
    """Outputs and, where gradients are recorded, those of all weights and inputs along one fixed
    direction.
    """
    result = function(*args)
    if not torch.is_grad_enabled():
        return tensors(result), []
    weights = list(module.parameters()) if isinstance(module, torch.nn.Module) else []
    wanted = [
        t for t in (*weights, *pytree.tree_leaves(args)) if torch.is_tensor(t) and t.requires_grad
    ]
    outputs = [t for t in pytree.tree_leaves(result) if torch.is_tensor(t) and t.requires_grad]
    noise = torch.Generator().manual_seed(0)
    along = [torch.randn(t.shape, generator=noise).to(dtype).to(t) for t in outputs]
    gradients = torch.autograd.grad(outputs, wanted, along, allow_unused=True)
    return tensors(result), tensors(gradients)


def _outcomes(
    sides: dict[str, Any], module: Any, dtype: torch.dtype, inputs: dict[str, tuple[Any, ...]]
) -> dict[str, dict[str, Outcome]]:
    """Name of some inputs -> side -> outcome."""
    return {
        name: {side: _outcome(function, module, args, dtype) for side, function in sides.items()}
        for name, args in inputs.items()
    }


def _outcome(function: Any, module: Any, args: tuple[Any, ...], dtype: torch.dtype) -> Outcome:
    """The outputs and gradients, or the name of what is raised."""
    try:
        outputs, gradients = _outputs_and_gradients(function, module, args, dtype)
    except Exception as error:
        if missing_answer(error):
            raise
        return type(getattr(error, "inner_exception", None) or error).__name__
    return outputs + gradients


def build_seeded(
    build: Build, dtype: torch.dtype, seed: int, profile: Profile
) -> tuple[Any, tuple[Any, ...]]:
    """Module and inputs of one seed: of full size on a real GPU, else small and on the CPU."""
    torch.manual_seed(seed)
    is_real = profile["kind"] == "real"
    return build(
        torch.device(profile["backend"] if is_real else "cpu"),
        dtype,
        "full" if is_real else "small",
    )


def _change_floats(change: Callable[[torch.Tensor], torch.Tensor], args: tuple[Any, ...]) -> Any:
    def change_float(x: Any) -> Any:
        if not torch.is_tensor(x) or not x.is_floating_point():
            return x
        return change(x.detach()).requires_grad_(x.requires_grad)

    return pytree.tree_map(change_float, args)


def _repeated_rows(times: int, args: tuple[Any, ...]) -> Any:
    return change_rows(
        lambda x: torch.cat([x.detach()] * times).requires_grad_(x.requires_grad), args
    )


def _first_rows(rows: int, args: tuple[Any, ...]) -> Any:
    """The inputs with that many rows."""
    return change_rows(lambda x: x.detach()[:rows].clone().requires_grad_(x.requires_grad), args)
