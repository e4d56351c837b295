"""Compiles one workload and records every stage, the same way on a real, a simulated and a CPU
device.

Only on a real device is the generated code built and run.
"""

from __future__ import annotations

import contextlib
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
from torch._dynamo import guards as dynamo_guards
from torch._dynamo.utils import counters
from torch._guards import TracingContext
from torch._inductor import compile_fx as inductor
from torch._inductor import list_mode_options, metrics, output_code
from torch._inductor.graph import GraphLowering
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from patchgate.probe.compile.instrumentation import CompileTrace, trace_compile
from patchgate.probe.compile.lowered import Lowered, count_operations, read_graph
from patchgate.probe.protocol import Profile
from patchgate.probe.simulate.device_context import device_context, fake_tensors
from patchgate.probe.simulate.matmul_padding import padding_decisions
from patchgate.probe.simulate.small_tensors import as_on_a_device

# How Dynamo times the guards of each frame, for its log: it writes 32 MB first, so that they are in
# no cache.
_TIMES_GUARDS = getattr(dynamo_guards, "profile_guard_manager", None)

# (device, dtype, "full" or "small") -> a function or module, and the arguments that it is called
# with.
Build = Callable[[torch.device, torch.dtype, str], tuple[Callable[..., Any], tuple[Any, ...]]]


def change_rows(change: Callable[[torch.Tensor], torch.Tensor], args: tuple[Any, ...]) -> Any:
    """The inputs, changed wherever one has as many rows as the first tensor of them."""
    tensors = [leaf for leaf in pytree.tree_leaves(args) if torch.is_tensor(leaf) and leaf.dim()]
    fitting = {id(leaf) for leaf in tensors if leaf.shape[0] == tensors[0].shape[0]}
    return pytree.tree_map(lambda leaf: change(leaf) if id(leaf) in fitting else leaf, args)


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@dataclass
class Captured:
    """The record of one compile."""

    fx: list[Counter[str]] = field(
        default_factory=list
    )  #: operations of each graph that Dynamo gave to the backend
    lowered: list[Lowered] = field(default_factory=list)  #: each graph that Inductor lowered
    code: list[str] = field(default_factory=list)  #: the wrapper module generated for each of them
    trace: CompileTrace = field(default_factory=CompileTrace)
    padding: dict[str, str] = field(
        default_factory=dict
    )  #: matrix products that are timed -> "padded" or "kept"


@contextlib.contextmanager
def record_lowering(captured: Captured, *, run: bool) -> Iterator[None]:
    """Record every graph that Inductor lowers; with `run` false, stop before anything is built."""
    codegen = GraphLowering.codegen

    def recorded_codegen(self: GraphLowering) -> Any:
        result = codegen(self)
        captured.lowered.append(read_graph(self))
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
                stack.enter_context(
                    mock.patch.object(output_code, name, lambda *args, **kwargs: None)
                )
        yield


def _never_run(args: Any) -> Any:
    raise AssertionError("code generated for a simulated device was run")


@contextlib.contextmanager
def no_caches() -> Iterator[None]:
    """Compiler caches off: a hit would hide the patch. No guards are timed either."""
    # Not force_disable_caches: it also throws away compiled C++, which is found by its own source
    # text and so cannot hide anything.
    with (
        inductor_config.patch(
            fx_graph_cache=False,
            fx_graph_remote_cache=False,
            autotune_local_cache=False,
            compile_threads=1,
        ),
        functorch_config.patch(enable_autograd_cache=False, enable_remote_autograd_cache=False),
        dynamo_config.patch(automatic_dynamic_local_pgo=False, caching_precompile=False),
        _untimed_guards(),
    ):
        yield


def _untimed_guards() -> contextlib.AbstractContextManager[Any]:
    """Torch's own timing off; that of a patch stays."""
    if _TIMES_GUARDS is None or dynamo_guards.profile_guard_manager is not _TIMES_GUARDS:
        return contextlib.nullcontext()
    return mock.patch.object(dynamo_guards, "profile_guard_manager", lambda *_: 0.0)


def runs_nodes(module: torch.fx.GraphModule, *_: Any, **__: Any) -> Callable[..., Any]:
    """A function that runs the captured graph node by node.

    Its text would look each function up by its name, and call what a patch has put there outside of
    a trace.
    """
    run: Callable[..., Any] = torch.fx.Interpreter(module).run
    return run


def _in_tracing_mode(inputs: list[Any]) -> list[Any]:
    """Torch 2.10 refuses fake inputs of another mode than Dynamo's; later releases convert them
    so.
    """
    context = TracingContext.try_get()
    mode = context.fake_mode if context else None
    if mode is None:
        return inputs
    return [
        mode.from_tensor(x) if isinstance(x, FakeTensor) and x.fake_mode is not mode else x
        for x in inputs
    ]


@contextlib.contextmanager
def workload_compiler(
    build: Build,
    *,
    dtype: torch.dtype,
    profile: Profile,
    dynamic: bool = False,
    dynamic_dim: int | None = None,
    training: bool = False,
    reads: Sequence[float] = (),
) -> Iterator[Callable[[Any], Any]]:
    """Gives a function that compiles the workload with a backend and runs it once.

    `dynamic_dim` is the dimension of the first input that is marked dynamic; `reads` is what
    `.item()` returns.
    """
    with (
        fake_tensors(profile, reads),
        functorch_config.patch(force_non_lazy_backward_lowering=True),
        torch.set_grad_enabled(training),
    ):
        torch.manual_seed(0)
        with contextlib.nullcontext() if profile["kind"] == "real" else as_on_a_device():
            function, args = build(torch.device(profile["backend"]), dtype, "full")
        if dynamic_dim is not None:
            torch._dynamo.mark_dynamic(args[0], dynamic_dim)
        shapes = dynamic if dynamic_dim is None else None
        yield lambda backend: torch.compile(function, backend=backend, dynamic=shapes)(*args)


def capture(
    build: Build, *, dtype: torch.dtype, profile: Profile, mode: str = "default", **options: Any
) -> Captured:
    """Compile what `build` makes on the profile's device, and record it; `options` as for
    `workload_compiler`.

    Raises whatever torch raises; the caller names the cause.
    """
    captured = Captured()
    real = profile["kind"] == "real"
    mode_options = list_mode_options(mode) if mode != "default" else {}

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        operations = count_operations(module.graph)
        with (
            record_lowering(captured, run=real),
            device_context(profile),
            inductor_config.patch(mode_options),
            padding_decisions(profile, captured.padding),
        ):
            # Looked up as torch.compile does: a patch may have replaced it.
            compiled = inductor.compile_fx(module, _in_tracing_mode(inputs))
        # Only now: an attempt that Dynamo gives up and restarts is no graph.
        captured.fx.append(operations)
        # What was generated for a device that is not here cannot run; the graph itself, on fake
        # tensors, gives the shapes that the next graph needs.
        return compiled if real else runs_nodes(module)

    metrics.reset()
    counters.clear()
    with (
        trace_compile(captured.trace),
        no_caches(),
        workload_compiler(build, dtype=dtype, profile=profile, **options) as run,
    ):
        run(backend)
    return captured
