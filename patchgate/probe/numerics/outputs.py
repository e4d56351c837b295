"""Runs a workload for several seeds and special inputs, and writes its outputs to a file.

The workload runs on the CPU, on a real GPU, or on the CPU with the code for a simulated GPU. The
runs without and with the patch write a file each, and `numeric_metrics` compares both files.
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

from patchgate.probe.compile.caches import loaded_code
from patchgate.probe.compile.capture import Build, change_rows, no_caches
from patchgate.probe.compile.generated_code import digest_of_code
from patchgate.probe.compile.observe import environment, load_build
from patchgate.probe.numerics.numeric_metrics import Outcome, Outputs
from patchgate.probe.patch.apply import apply_patch
from patchgate.probe.patch.effects import settings_after
from patchgate.probe.patch.load import module_of
from patchgate.probe.patch.offers import compiler_of, compiles_anything, failure_of_offer
from patchgate.probe.protocol import (
    Compile,
    MemoryFault,
    Offered,
    OfferRun,
    Patched,
    Profile,
    RanWorkload,
    Run,
    RunOffers,
    Stage,
)
from patchgate.probe.simulate.device_context import device_context
from patchgate.probe.simulate.needs_device import NeedsDevice, missing_answer

_save = torch.save
_PICKLED_BY = {name: vars(torch.Tensor)[name] for name in ("__reduce_ex__", "_reduce_ex_internal")}

# Changes of every input to values at which kernels may differ although they agree on common values.
SPECIAL: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nan": lambda x: _with_first(x, float("nan")),
    "inf": lambda x: _with_first(x, float("inf")),
    "-inf": lambda x: _with_first(x, -float("inf")),
    "very large": lambda x: x * (torch.finfo(x.dtype).max / 16),
    "denormal": lambda x: x * torch.finfo(x.dtype).tiny,
    "zero": torch.zeros_like,
}
# Numbers of rows that a compiler treats as special cases.
SMALL: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one row": lambda x: x[:1].clone(),
    "no rows": lambda x: x[:0].clone(),
}
# Further sizes, for which Dynamo makes one graph with symbols.
LARGER: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "three times the rows": lambda x: torch.cat([x] * 3),
    "twice the rows": lambda x: torch.cat([x] * 2),
}
SIDES = ("compiled", "again", "eager", "reference")


@contextlib.contextmanager
def reproducible(profile: Profile, *, training: bool = False) -> Iterator[None]:
    """Switch off caches and use one thread until the context ends, because the order of a parallel
    reduction varies.

    The profile's vector ISA is not checked: Inductor's own check starts processes that import torch
    anew.
    """
    torch.set_num_threads(1)
    simulated = profile["kind"] == "simulated"  # only the backend knows the simulated device
    device = contextlib.nullcontext() if simulated else device_context(profile | {"threads": 1})
    with torch.set_grad_enabled(training), no_caches(), device:
        yield


def backend_of(
    profile: Profile,
    faults: dict[Any, MemoryFault],
    launches: dict[str, list[str]] | None = None,
) -> Any:
    """The backend of torch.compile. The backend of a simulated GPU notes misuse of memory by its
    kernels in `faults`. If `launches` is given, that backend uses the blocks that Inductor chooses,
    and notes its launches there.
    """
    if profile["kind"] != "simulated":
        return "inductor"
    try:
        from patchgate.probe.interpret.interpreting_backend import interpreting_backend
    except ImportError as error:  # numpy or Triton is missing
        raise NeedsDevice(f"Triton's interpreter cannot be loaded ({error})") from None
    return interpreting_backend(profile, faults, launches)


def tensors(result: Any) -> Outputs:
    """Every tensor of a result, on the CPU."""
    return [
        leaf.detach().cpu() for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)
    ]


def in_float64(module: Any, args: tuple[Any, ...]) -> tuple[Any, Any]:
    """Copies of a module and its inputs in float64."""
    return as_float64(copy.deepcopy(module)), pytree.tree_map(as_float64, args)


def as_float64(value: Any) -> Any:
    """A module (in place) or a floating-point tensor (a copy) in float64; anything else
    unchanged.
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


def run(request: Run, stage: Stage) -> RanWorkload:
    """Write the outputs of every seed in eager mode and compiled. Compiled code runs twice, to see
    if it is deterministic. Also return the settings that these runs leave changed.
    """
    changed = list[str]()

    def write() -> None:
        path, seeds, small = request["outputs"], request["seeds"], request["small"]
        _, left = settings_after(lambda: _write_outputs(request, path, seeds, small=small))
        changed.extend(left)

    missing = unmeasured(request, stage, write)
    code = [] if missing else [digest_of_code(text) for text in loaded_code()]
    return {
        "environment": environment(),
        "code": code,
        "settings": changed,
        "unmeasured": missing,
    }


def unmeasured(request: Patched, stage: Stage, write: Callable[[], None]) -> str:
    """Run the patch and then `write`. Return the reason why code for a simulated device cannot run;
    empty if the code ran.
    """
    try:
        apply_patch(request, stage)
        stage("run")
        write()
    except Exception as error:
        missing = missing_answer(error) if request["profile"]["kind"] == "simulated" else None
        if missing is None:
            raise
        return missing
    return ""


def run_offers(request: RunOffers, stage: Stage) -> Offered:
    """Write the outputs with each backend or pass that the patch offers to a file of its own."""
    apply_patch(request, stage)
    stage("run")
    runs: list[OfferRun] = []
    patch = request.get("patch")
    for number, offer in enumerate(request["offers"]):
        torch._dynamo.reset()
        run: OfferRun = {"graphs": 0, "changed": 0, "faults": {}}
        compiler = compiler_of(offer, module_of(patch), run, dynamic=request["dynamic"] or None)
        path = f"{request['outputs']}-{number}" if number else request["outputs"]
        try:
            _write_outputs(request, path, [0], small=True, compiler=compiler)
        except Exception as error:
            kind, text = failure_of_offer(error, patch)
            run["faults"][kind if compiles_anything(compiler) else "unmeasured"] = text
        runs.append(run)
    return {"environment": environment(), "runs": runs}


def _write_outputs(
    request: Compile,
    path: str,
    seeds: list[int],
    *,
    small: bool,
    compiler: Callable[[Any], Any] | None = None,
) -> None:
    """Write outputs to `path`; in training also the gradients.

    `small` adds the outputs for inputs of one row and of no rows. Without a patch, outputs in
    float64 are added as the reference; a patch may not support float64. If `compiler` is given, it
    is called in place of torch.compile, and inputs of larger sizes are added. Special values are
    left out with `own_blocks`, because they show nothing about blocks.
    """
    build, dtype = load_build(request), getattr(torch, request["dtype"])
    faults: dict[Any, MemoryFault] = {}
    launches: dict[str, list[str]] | None = {} if request.get("own_blocks") else None
    sizes, special = dict(SMALL) if small else {}, SPECIAL if launches is None else {}
    training = request.get("training", False) and compiler is None
    is_interpreted = request["profile"]["kind"] == "simulated"
    if compiler is None:
        backend = backend_of(request["profile"], faults, launches)
        compiler = partial(torch.compile, dynamic=request["dynamic"], backend=backend)
    else:
        sizes |= LARGER
    with reproducible(request["profile"], training=training):
        module, args = build_seeded(build, request, seeds[0])
        compiled = compiler(module)
        written: dict[str, Any] = {
            part: {side: [] for side in SIDES} for part in ("outputs", "gradients")
        }
        for seed in seeds:
            other, args = build_seeded(build, request, seed)
            if isinstance(module, torch.nn.Module):
                # The module is compiled once, and run with the weights of every seed.
                module.load_state_dict(other.state_dict())
            calls = _calls(compiled, module, args, exact=not request.get("patch"))
            if is_interpreted:
                del calls["again"]
            for side, call in calls.items():
                outputs, gradients = _outputs_and_gradients(*call, dtype)
                written["outputs"][side] += outputs
                written["gradients"][side] += gradients
        if is_interpreted:  # a kernel's programs run one by one, so two runs cannot differ
            for sides in written.values():
                sides["again"] = sides["compiled"]
        changed = {
            "special": {name: _change_floats(change, args) for name, change in special.items()},
            "small": {name: _change_size(change, args) for name, change in sizes.items()},
        }
        functions = {"compiled": compiled, "eager": module}
        for part, inputs in changed.items():
            written[part] = _outcomes(functions, module, dtype, inputs)
    notes = {"memory": list(faults.values()), "launches": launches or {}}
    save_outputs(written | notes, path)


def _calls(
    compiled: Any, module: Any, args: Any, *, exact: bool
) -> dict[str, tuple[Any, Any, Any]]:
    """Side -> (function, its module, its inputs). The reference in float64 is a side if `exact`."""
    calls = dict.fromkeys(("compiled", "again"), (compiled, module, args))
    calls["eager"] = (module, module, args)
    if exact:
        wide, wide_args = in_float64(module, args)
        calls["reference"] = (wide, wide, wide_args)
    return calls


def save_outputs(written: object, path: str) -> None:
    """Write a file with torch's own torch.save and its own pickling of tensors; a patch may replace
    either.
    """
    with contextlib.ExitStack() as stack:
        for name, function in _PICKLED_BY.items():
            stack.enter_context(mock.patch.object(torch.Tensor, name, function))
        _save(written, path)


def _outputs_and_gradients(
    function: Any, module: Any, args: tuple[Any, ...], dtype: torch.dtype
) -> tuple[Outputs, Outputs]:
    """The outputs and, if gradients are enabled, the gradients of all weights and inputs along one
    fixed direction.
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
    """Name of the inputs -> side -> outcome."""
    return {
        name: {side: _outcome(function, module, args, dtype) for side, function in sides.items()}
        for name, args in inputs.items()
    }


def _outcome(function: Any, module: Any, args: tuple[Any, ...], dtype: torch.dtype) -> Outcome:
    """The outputs and gradients, or the name of the exception."""
    try:
        outputs, gradients = _outputs_and_gradients(function, module, args, dtype)
    except Exception as error:
        if missing_answer(error):
            raise
        return type(getattr(error, "inner_exception", None) or error).__name__
    return outputs + gradients


def build_seeded(build: Build, request: Compile, seed: int) -> tuple[Any, tuple[Any, ...]]:
    """The module and inputs of one seed: of full size on a real GPU, else small and on the CPU."""
    torch.manual_seed(seed)
    is_real = request["profile"]["kind"] == "real"
    device = torch.device(request["profile"]["backend"] if is_real else "cpu")
    return build(device, getattr(torch, request["dtype"]), "full" if is_real else "small")


def _change_floats(change: Callable[[torch.Tensor], torch.Tensor], args: tuple[Any, ...]) -> Any:
    def change_float(x: Any) -> Any:
        if not torch.is_tensor(x) or not x.is_floating_point():
            return x
        return change(x.detach()).requires_grad_(x.requires_grad)

    return pytree.tree_map(change_float, args)


def _change_size(change: Callable[[torch.Tensor], torch.Tensor], args: tuple[Any, ...]) -> Any:
    return change_rows(lambda x: change(x.detach()).requires_grad_(x.requires_grad), args)
