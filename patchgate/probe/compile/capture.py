"""Compiles one workload on a device that is there, described, or only generated code for.

Decides how that is done, the same way on a real, a simulated and a CPU device. Refuses to know
which facts are made of what is seen, and what they ought to be.
"""

from __future__ import annotations

import contextlib
import runpy
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
import torch._dynamo
import torch._dynamo.config as dynamo_config
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.utils import counters
from torch._guards import TracingContext
from torch._inductor import list_mode_options, metrics, output_code
from torch._inductor.compile_fx import compile_fx
from torch._inductor.fx_passes import joint_graph
from torch._inductor.graph import GraphLowering
from torch._subclasses import fake_impls, fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from patchgate.probe.compile.instrumentation import Seen, watching
from patchgate.probe.compile.lowered import Lowered, operations, read_graph
from patchgate.probe.simulate.attention import attention_of
from patchgate.probe.simulate.backward import backward_in_python
from patchgate.probe.simulate.fake_device import Profile, stand_in


@dataclass
class Captured:
    """Everything seen while one workload was compiled; loads and stores are read off Triton code only."""

    has_loads: bool
    fx: list[Counter[str]] = field(default_factory=list)
    lowered: list[Lowered] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    seen: Seen = field(default_factory=Seen)


@contextlib.contextmanager
def recording(captured: Captured, *, run: bool) -> Iterator[None]:
    """Record every graph that Inductor lowers; with `run` false, stop before anything is built."""
    codegen = GraphLowering.codegen

    def recorded_codegen(self: GraphLowering) -> Any:
        result = codegen(self)
        captured.lowered.append(read_graph(self, result[0].value))
        captured.code.append(result[0].value)
        return result

    def codegen_only(self: GraphLowering) -> Any:
        self.codegen()
        return types.SimpleNamespace(call=_never_run, __file__="", key="")

    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(GraphLowering, "codegen", recorded_codegen))
        if not run:
            stack.enter_context(mock.patch.object(GraphLowering, "compile_to_module", codegen_only))
            # Nothing was built, so there is nothing to record a CUDA graph of.
            for name in ("cudagraph_post_compile", "cudagraph_partition_post_compile"):
                stack.enter_context(mock.patch.object(output_code, name, lambda *args, **kwargs: None))
        yield


def _never_run(args: Any) -> Any:
    raise AssertionError("code generated for a simulated device was run")


@contextlib.contextmanager
def no_caches() -> Iterator[None]:
    """No cache may answer for the compiler: a hit would hide the patch (DESIGN fact 8)."""
    # Not force_disable_caches: it also throws away compiled C++, which is found by its own source text
    # and so cannot hide anything.
    with (
        inductor_config.patch(
            fx_graph_cache=False,
            fx_graph_remote_cache=False,
            autotune_local_cache=False,
            compile_threads=1,
        ),
        functorch_config.patch(enable_autograd_cache=False, enable_remote_autograd_cache=False),
        dynamo_config.patch(automatic_dynamic_local_pgo=False, caching_precompile=False),
    ):
        yield


@contextlib.contextmanager
def _codegen_isa(profile: Profile) -> Iterator[None]:
    """C++ is generated for the profile's vector ISA and threads, whatever this machine has."""
    from torch._inductor import cpu_vec_isa

    isa = {"avx2": cpu_vec_isa.VecAVX2, "avx512": cpu_vec_isa.VecAVX512}[profile["isa"]]()
    with (
        mock.patch.object(cpu_vec_isa, "valid_vec_isa_list", lambda: [isa]),
        mock.patch.object(cpu_vec_isa.VecISA, "__bool__", lambda self: True),
        inductor_config.patch({"cpp.threads": profile["threads"]}),
    ):
        yield


@contextlib.contextmanager
def _plugged_in(profile: Profile) -> Iterator[None]:
    """The device is known to torch; tracing patterns on it would run its kernels, and the CPU's are there."""
    with mock.patch.object(joint_graph, "lazy_init", lambda *args, **kwargs: None):
        yield


def standing_in(profile: Profile) -> contextlib.AbstractContextManager[None]:
    """The device of a profile: simulated GPU, CPU code generation, or nothing where torch knows the device."""
    scopes: dict[str, Callable[[Profile], contextlib.AbstractContextManager[None]]] = {
        "simulated": stand_in,
        "codegen": _codegen_isa,
        "plugin": _plugged_in,
        "real": lambda profile: contextlib.nullcontext(),
    }
    return scopes[profile["kind"]](profile)


def _in_one_mode(inputs: list[Any]) -> list[Any]:
    """Torch 2.10 refuses fake inputs of another mode than Dynamo's; later releases convert them so."""
    context = TracingContext.try_get()
    mode = context.fake_mode if context else None
    if mode is None:
        return inputs
    return [mode.from_tensor(x) if _is_foreign(x, mode) else x for x in inputs]


def _is_foreign(value: Any, mode: FakeTensorMode) -> bool:
    return isinstance(value, fake_tensor.FakeTensor) and value.fake_mode is not mode


Build = Callable[[torch.device, torch.dtype, str], tuple[Callable[..., Any], tuple[Any, ...]]]


@contextlib.contextmanager
def _without_device(profile: Profile, reads: Sequence[float]) -> Iterator[None]:
    """Everything outside of Inductor that would ask a real device: fake tensors, attention, backward."""
    with contextlib.ExitStack() as stack:
        if profile["kind"] == "plugin":
            runpy.run_path(profile["plugin"])["register"]()
        if profile["kind"] != "real":
            stack.enter_context(mock.patch.object(fake_tensor, "init_gpu_context", lambda device: None))
            stack.enter_context(_answering(reads))
            stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
            # On the CPU too: the engine in C++ starts threads, which do not go with a forked process.
            stack.enter_context(backward_in_python())
        if profile["kind"] == "simulated":
            stack.enter_context(attention_of(profile["properties"]))
            stack.enter_context(enable_python_dispatcher())
        yield


def _answering(reads: Sequence[float]) -> contextlib.AbstractContextManager[Any]:
    """What a fake tensor holds nobody knows: the workload says what `.item()` gives, call by call."""
    known = fake_impls.op_implementations_dict
    answers = iter(reads)

    def item(mode: FakeTensorMode, func: Any, tensor: Any) -> Any:
        if mode.shape_env is not None:
            return known_item(mode, func, tensor)
        return torch.tensor(next(answers), dtype=tensor.dtype, device="cpu").tolist()

    ops = (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)
    known_item = known[ops[0]]
    # Else 2.10 compiles the answer too, and its breaks count as the workload's.
    answer: Any = torch._dynamo.disable(item)
    return mock.patch.dict(known, dict.fromkeys(ops, answer)) if reads else contextlib.nullcontext()


@contextlib.contextmanager
def compiling(
    build: Build,
    *,
    dtype: torch.dtype,
    profile: Profile,
    dynamic: bool = False,
    dynamic_dim: int | None = None,
    training: bool = False,
    reads: Sequence[float] = (),
) -> Iterator[Callable[[Any], Any]]:
    """Gives what compiles the workload with a backend and runs it once."""
    with (
        _without_device(profile, reads),
        functorch_config.patch(force_non_lazy_backward_lowering=True),
        torch.set_grad_enabled(training),
    ):
        torch.manual_seed(0)
        function, args = build(torch.device(profile["backend"]), dtype, "full")
        if dynamic_dim is not None:
            torch._dynamo.mark_dynamic(args[0], dynamic_dim)
        shapes = dynamic if dynamic_dim is None else None
        yield lambda backend: torch.compile(function, backend=backend, dynamic=shapes)(*args)


def capture(build: Build, *, dtype: torch.dtype, profile: Profile, mode: str = "default", **how: Any) -> Captured:
    """Compile what `build` makes on the profile's device and record every stage; `how` as for `compiling`.

    Raises whatever torch raises; the caller names the cause.
    """
    captured = Captured(has_loads=profile["backend"] == "cuda")
    real = profile["kind"] == "real"
    options = list_mode_options(mode) if mode != "default" else {}

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        ops = operations(module.graph)
        with recording(captured, run=real), standing_in(profile), inductor_config.patch(options):
            compiled = compile_fx(module, _in_one_mode(inputs))
        # Only now: an attempt that Dynamo gives up and restarts is no graph.
        captured.fx.append(ops)
        # What was generated for a device that is not here cannot run; the graph itself, on fake
        # tensors, gives the shapes that the next graph needs.
        return compiled if real else module.forward

    metrics.reset()
    counters.clear()
    with watching(captured.seen), no_caches(), compiling(build, dtype=dtype, profile=profile, **how) as run:
        run(backend)
    return captured
