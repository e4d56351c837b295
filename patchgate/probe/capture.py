"""Compiles one workload and takes its facts, stage by stage.

Decides which facts exist and how they are taken, the same way on a real, a
simulated and a CPU device. Refuses to know what they ought to be.
"""

from __future__ import annotations

import contextlib
import types
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
import torch._dynamo
import torch._dynamo.config as dynamo_config
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
from torch._dynamo.utils import counters
from torch._guards import TracingContext
from torch._inductor import metrics
from torch._inductor.compile_fx import compile_fx
from torch._inductor.graph import GraphLowering
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from patchgate.probe.kernels import Wrapper, read_wrapper
from patchgate.probe.standin import Profile, stand_in

Facts = dict[str, Any]
UNMEASURED = "unmeasured"


@dataclass
class Lowered:
    """What one `GraphLowering` left behind: ATen ops, scheduler nodes, bytes and code."""

    aten: Counter[str]
    fused_nodes: int
    bytes_read: int | None
    bytes_written: int | None
    bytes_total: int
    wrapper: Wrapper


@dataclass
class Captured:
    """Everything seen while one workload was compiled; loads and stores are read off Triton code only."""

    has_loads: bool
    fx: list[Counter[str]] = field(default_factory=list)
    lowered: list[Lowered] = field(default_factory=list)
    code: list[str] = field(default_factory=list)


def _ops(graph: torch.fx.Graph) -> Counter[str]:
    names: Counter[str] = Counter()
    for node in graph.nodes:
        if node.op in ("call_function", "call_method", "call_module"):
            target = node.target
            name = str(target) if not callable(target) else getattr(target, "__name__", str(target))
            names[str(target) if isinstance(target, torch._ops.OpOverload) else name] += 1
    return names


def _lowered(graph: GraphLowering, source: str) -> Lowered:
    # GraphLowering.count_bytes sums the same figure; it also estimates run times, which asks a device.
    nodes = graph.scheduler.nodes
    split = all(hasattr(node, "get_read_write_buffers_sizes_impl") for node in nodes)

    def total(**include: bool) -> int:
        return sum(node.get_read_write_buffers_sizes_impl(**include) for node in nodes)

    return Lowered(
        aten=_ops(graph.orig_gm.graph),
        fused_nodes=len(nodes),
        bytes_read=total(include_reads=True, include_writes=False) if split else None,
        bytes_written=total(include_reads=False, include_writes=True) if split else None,
        bytes_total=sum(node.get_read_write_buffers_sizes() for node in nodes),
        wrapper=read_wrapper(source),
    )


@contextlib.contextmanager
def recording(captured: Captured, *, run: bool) -> Iterator[None]:
    """Record every graph that Inductor lowers; with `run` false, stop before code is built."""
    compile_to_module, codegen = GraphLowering.compile_to_module, GraphLowering.codegen

    def recorded_codegen(self: GraphLowering) -> Any:
        result = codegen(self)
        captured.lowered.append(_lowered(self, result[0].value))
        captured.code.append(result[0].value)
        return result

    def codegen_only(self: GraphLowering) -> Any:
        self.codegen()
        return types.SimpleNamespace(call=_never_run, __file__="", key="")

    build = compile_to_module if run else codegen_only
    with (
        mock.patch.object(GraphLowering, "codegen", recorded_codegen),
        mock.patch.object(GraphLowering, "compile_to_module", build),
    ):
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


def standing_in(profile: Profile) -> contextlib.AbstractContextManager[None]:
    """The device of a profile: simulated GPU, CPU code generation, or nothing for a real one."""
    scopes: dict[str, Callable[[Profile], contextlib.AbstractContextManager[None]]] = {
        "simulated": stand_in,
        "codegen": _codegen_isa,
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


def capture(build: Build, *, dtype: torch.dtype, dynamic: bool, profile: Profile) -> Captured:
    """Compile what `build` makes on the profile's device and record every stage.

    Raises whatever torch raises; the caller names the cause.
    """
    captured = Captured(has_loads=profile["backend"] == "cuda")
    real = profile["kind"] == "real"
    device = torch.device(profile["backend"])

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        ops = _ops(module.graph)
        with recording(captured, run=real), standing_in(profile):
            compiled = compile_fx(module, _in_one_mode(inputs))
        # Only now: an attempt that Dynamo gives up and restarts is no graph.
        captured.fx.append(ops)
        # What was generated for a device that is not here cannot run; the graph itself, on fake
        # tensors, gives the shapes that the next graph needs.
        return compiled if real else module.forward

    metrics.reset()
    counters.clear()
    fake = contextlib.nullcontext() if real else FakeTensorMode(allow_non_fake_inputs=True)
    with mock.patch.object(fake_tensor, "init_gpu_context", lambda device: None), no_caches(), fake, torch.no_grad():
        torch.manual_seed(0)
        module, args = build(device, dtype, "full")
        torch.compile(module, backend=backend, dynamic=dynamic)(*args)
    return captured


def facts_of(captured: Captured) -> Facts:
    """The facts of one compile: flat, dotted names by stage (DESIGN facts 1, 11 and 12)."""
    lowered = captured.lowered
    kernels = [kernel for graph in lowered for kernel in graph.wrapper.distinct]
    loads = [kernel.loads for kernel in kernels if kernel.loads is not None]
    stores = [kernel.stores for kernel in kernels if kernel.stores is not None]
    kinds: Counter[str] = sum((graph.wrapper.calls for graph in lowered), Counter())
    generated = {kind: n for kind, n in kinds.items() if kind not in ("extern", "fallback")}
    fx = sum(captured.fx, Counter())
    aten = sum((graph.aten for graph in lowered), Counter())
    facts: Facts = {
        "dynamo.graphs": len(captured.fx),
        "dynamo.graph_breaks": sum(counters["graph_break"].values()),
        "fx.ops": sum(fx.values()),
        "aten.ops": sum(aten.values()),
        "lowering.ir_nodes": metrics.ir_nodes_pre_fusion,
        "scheduler.fused_nodes": sum(graph.fused_nodes for graph in lowered),
        "kernels.generated": metrics.generated_kernel_count,
        "kernels.defined": sum(len(graph.wrapper.kernels) for graph in lowered),
        "kernels.distinct": len(kernels),
        "kernels.called": sum(generated.values()),
        "bytes.total": sum(graph.bytes_total for graph in lowered),
        "bytes.read": _sum_or_unmeasured([graph.bytes_read for graph in lowered]),
        "bytes.written": _sum_or_unmeasured([graph.bytes_written for graph in lowered]),
    }
    if captured.has_loads:
        facts |= {"loads": loads, "loads.max": max(loads, default=0)}
        facts |= {"stores": stores, "stores.max": max(stores, default=0)}
    for prefix, histogram in (("fx.op", fx), ("aten.op", aten), ("kernels.kind", kinds)):
        facts |= {f"{prefix}.{name.removeprefix('aten.')}": count for name, count in histogram.items()}
    return facts


def _sum_or_unmeasured(values: list[int | None]) -> Any:
    if any(value is None for value in values):
        return {UNMEASURED: "this torch has no get_read_write_buffers_sizes_impl"}
    return sum(value for value in values if value is not None)
