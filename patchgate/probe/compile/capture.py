"""Compiles one workload and records every stage, in the same way for a real device, a simulated
device and the CPU.

The generated code is built and run only on a real device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch._dynamo
import torch._dynamo.config as dynamo_config
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
from torch import Tensor
from torch._dynamo import guards as dynamo_guards
from torch._dynamo.utils import counters
from torch._guards import TracingContext
from torch._inductor import compile_fx as inductor
from torch._inductor import list_mode_options, metrics, output_code
from torch._inductor.graph import GraphLowering
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from patchgate.probe.compile.compiler_facts import (
    Captured,
    count_operations,
    read_graph,
    trace_compile,
)
from patchgate.probe.protocol import (
    Function,
    Profile,
)
from patchgate.probe.simulate.building import as_on_a_device
from patchgate.probe.simulate.device_context import device_context, fake_tensors
from patchgate.probe.simulate.matmul_padding import padding_decisions

# The function with which Dynamo times the guards of each frame for its log. Before that, it writes
# 32 MB to empty the CPU's caches.
_TIMES_GUARDS = getattr(dynamo_guards, "profile_guard_manager", None)

# (device, dtype, "full" or "small") -> a function or module, and the arguments with which it is
# called.
Build = Callable[[torch.device, torch.dtype, str], tuple[Function, tuple[Any, ...]]]


def change_rows(change: Callable[[Tensor], Tensor], args: tuple[Any, ...]) -> Any:
    """Apply `change` to each input that has as many rows as the first tensor."""
    tensors = [leaf for leaf in pytree.tree_leaves(args) if torch.is_tensor(leaf) and leaf.dim()]
    fitting = {id(leaf) for leaf in tensors if leaf.shape[0] == tensors[0].shape[0]}
    return pytree.tree_map(lambda leaf: change(leaf) if id(leaf) in fitting else leaf, args)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
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
        return SimpleNamespace(call=_never_run, __file__="", key="")

    with mock.patch.object(GraphLowering, "codegen", recorded_codegen):
        if run:
            yield
            return
        with (
            mock.patch.object(GraphLowering, "compile_to_module", codegen_only),
            # Nothing was built, so no CUDA graph can be recorded.
            mock.patch.multiple(
                output_code,
                cudagraph_post_compile=_do_nothing,
                cudagraph_partition_post_compile=_do_nothing,
            ),
        ):
            yield


def _do_nothing(*args: Any, **kwargs: Any) -> None: ...


def _never_run(args: Any) -> Any:
    raise AssertionError("code generated for a simulated device was run")


@contextmanager
def no_caches() -> Iterator[None]:
    """Until the context ends, compiler caches are off, because a hit would hide the patch. The
    timing of guards is off too.
    """
    # force_disable_caches is not set, because it would drop compiled C++ too, which hides nothing:
    # it is found by its source.
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


def _untimed_guards() -> AbstractContextManager[Any]:
    """Switch off torch's own timing of guards, unless the patch has replaced the function."""
    if _TIMES_GUARDS is None or dynamo_guards.profile_guard_manager is not _TIMES_GUARDS:
        return nullcontext()
    return mock.patch.object(dynamo_guards, "profile_guard_manager", lambda *_: 0.0)


def runs_nodes(module: torch.fx.GraphModule, *_: Any, **__: Any) -> Function:
    """Return a function that runs the captured graph node by node.

    The graph's own code would look up each function by its name, and so call the patch's
    replacement outside of a trace.
    """
    run: Function = torch.fx.Interpreter(module).run
    return run


def _in_tracing_mode(inputs: list[Any]) -> list[Any]:
    """Convert fake inputs of another mode to Dynamo's fake mode. Torch does so itself from 2.11 on;
    torch 2.10 refuses such inputs.
    """
    context = TracingContext.try_get()
    mode = context.fake_mode if context else None
    if mode is None:
        return inputs
    return [
        mode.from_tensor(x) if isinstance(x, FakeTensor) and x.fake_mode is not mode else x
        for x in inputs
    ]


@contextmanager
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
    """Yield a function that compiles the workload with a given backend and runs it once.

    `dynamic_dim` is the dimension that is marked dynamic in the first input; `reads` are the values
    that `.item()` returns.
    """
    with (
        fake_tensors(profile, reads),
        functorch_config.patch(force_non_lazy_backward_lowering=True),
        torch.set_grad_enabled(training),
    ):
        torch.manual_seed(0)
        with nullcontext() if profile["kind"] == "real" else as_on_a_device():
            function, args = build(torch.device(profile["backend"]), dtype, "full")
        if dynamic_dim is not None:
            torch._dynamo.mark_dynamic(args[0], dynamic_dim)
        shapes = dynamic if dynamic_dim is None else None
        yield lambda backend: torch.compile(function, backend=backend, dynamic=shapes)(*args)


def capture(
    build: Build, *, dtype: torch.dtype, profile: Profile, mode: str = "default", **options: Any
) -> Captured:
    """Compile the result of `build` for the profile's device and record the compile. `options` are
    passed to `workload_compiler`.

    Exceptions of torch are passed on; the caller names their cause.
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
            # `compile_fx` is looked up late, as by torch.compile: a patch may have replaced it.
            compiled = inductor.compile_fx(module, _in_tracing_mode(inputs))
        # Recorded only now, because a graph that Dynamo gives up and restarts does not count.
        captured.fx.append(operations)
        # Code for an absent device cannot run. The graph itself is run on fake tensors instead and
        # gives the shapes that the next graph needs.
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
