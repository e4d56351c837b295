"""A simulated CUDA device, so that Inductor generates kernels for a GPU that is not there.

All that torch and Triton learn about the device comes from its profile. docs/simulation.md lists
the functions of torch 2.10 to 2.15 that are replaced.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import FunctionType, SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental import proxy_tensor
from torch.utils._python_dispatch import TorchDispatchMode

from patchgate.probe.protocol import Function, Profile
from patchgate.probe.simulate.cpu_build import as_built_for_cuda, is_cpu_only
from patchgate.probe.simulate.triton_driver import CallLog, triton_driver

_CACHED = (FunctionType, type(functools.lru_cache(lambda: None)))
# Functions that create no context on a real device. If an import calls any other of the replaced
# functions, this is a side effect.
_WITHOUT_CONTEXT = {
    "is_available",
    "is_initialized",
    "device_count",
    "_exchange_device",
    "_maybe_exchange_device",
}


def cuda_functions(profile: Profile, log: CallLog | None = None) -> dict[str, Function]:
    """Return replacements of `torch.cuda`'s functions; `log` gets calls that create a context."""
    properties = SimpleNamespace(**profile["properties"])
    capability = (properties.major, properties.minor)
    answers: dict[str, Any] = {
        "is_available": True,
        "is_initialized": True,
        "device_count": 1,
        "current_device": 0,
        "get_device_properties": properties,
        "get_device_capability": capability,
        "get_device_name": properties.name,
        "is_bf16_supported": capability >= (8, 0),
        "set_rng_state": None,
        "mem_get_info": (properties.total_memory, properties.total_memory),
        "synchronize": None,
        "set_device": None,
        "init": None,
        "_lazy_init": None,
        "_exchange_device": 0,
        "_maybe_exchange_device": 0,
    }
    functions = {name: _constant(value) for name, value in answers.items()}
    functions["get_rng_state"] = lambda *args: torch.zeros(16, dtype=torch.uint8)
    if log is not None:
        for name in functions.keys() - _WITHOUT_CONTEXT:
            functions[name] = _logged(name, functions[name], log)
    return functions


def _constant(value: Any) -> Function:
    def answer(*args: Any, **kwargs: Any) -> Any:
        return value

    return answer


def _logged(name: str, function: Function, log: CallLog) -> Function:
    def call(*args: Any, **kwargs: Any) -> Any:
        log(f"torch.cuda.{name}")
        return function(*args, **kwargs)

    return call


@contextmanager
def described_device(profile: Profile, log: CallLog | None = None) -> Iterator[None]:
    """Until the context ends, `torch.cuda` and Triton's driver answer as on the profile's device.
    This does not depend on the parts of torch that are loaded.
    """
    functions: dict[str, Any] = cuda_functions(profile, log)
    with (
        mock.patch.multiple(torch.cuda, **functions),
        as_built_for_cuda() if is_cpu_only() else nullcontext(),
        triton_driver(profile, log),
    ):
        yield


@contextmanager
def known_device(profile: Profile) -> Iterator[None]:
    """Until the context ends, models are built and traced with the properties of the profile and
    with cuDNN's layouts of convolutions.

    `torch.cuda.is_available` is unchanged, because otherwise fake tensors would use the device.
    """
    properties = cuda_functions(profile)["get_device_properties"]
    with (
        mock.patch.object(torch.cuda, "get_device_properties", properties),
        # A build for CUDA asks the device if cuDNN takes bfloat16; without a device it chooses
        # another layout. The context must cover tracing by Dynamo too, because the layouts seen
        # there are kept for the compile of the graph.
        mock.patch.object(torch._C, "_conv_determine_backend_memory_format", cudnn_layout),
    ):
        yield


class _ConstructorsOnCpu(TorchDispatchMode):
    """Runs tensor constructors of a simulated device on the CPU and keeps constants there, because
    constant folding and the tracer really execute them.
    """

    def __init__(self, backend: str) -> None:
        super().__init__()
        self._backend = backend

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prims.device_put.default:
            return args[0].clone()
        kwargs = dict(kwargs or {})
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == self._backend:
            kwargs["device"] = torch.device("cpu")
        return func(*args, **kwargs)


def _fold_on_cpu(deduce: Function, backend: str) -> Function:
    @functools.wraps(deduce)
    def deduce_value(*args: Any, **kwargs: Any) -> Any:
        with _ConstructorsOnCpu(backend):
            return deduce(*args, **kwargs)

    return deduce_value


@contextmanager
def _constants_on_cpu(backend: str) -> Iterator[None]:
    """Until the context ends, constants that traced code moves to the device (`torch.tensor(1.5,
    device=...)`, `x[..., [-2], :]`) stay on the CPU, and only their fake tensors are moved.
    """
    unset = proxy_tensor.unset_fake_temporarily

    @contextmanager
    def on_cpu() -> Iterator[Any]:
        with unset() as mode, _ConstructorsOnCpu(backend):
            yield mode

    with (
        # Torch acts as without a device and runs nothing on it to compute a constant's value.
        mock.patch.object(FakeTensorMode, "avoid_device_init", property(lambda mode: True)),
        mock.patch.object(proxy_tensor, "unset_fake_temporarily", on_cpu),
    ):
        yield


def cudnn_layout(input: Tensor, weight: Tensor, backend: Any) -> torch.memory_format:
    """Return the layout of a convolution's output: channels last if the input or the weight is
    channels last and the dtype is not float64.
    """
    layouts = [suggest_memory_format(tensor) for tensor in (input, weight)]
    last = torch.channels_last if weight.dim() == 4 else torch.channels_last_3d
    return last if last in layouts and input.dtype is not torch.float64 else torch.contiguous_format


def _without_host_copies(fold: Function) -> Function:
    """Wrap constant folding so that it also removes a constant's copy on the host if it leaves
    the copy unused. On a real device a single call makes the constant on the device.
    """

    @functools.wraps(fold)
    def folded(module: torch.fx.GraphModule) -> None:
        copies = {
            move.args[0]: None
            for move in module.graph.find_nodes(
                op="call_function", target=torch.ops.prims.device_put.default
            )
            if isinstance(move.args[0], torch.fx.Node)
            and move.args[0].target is torch.ops.aten.lift_fresh_copy.default
            and move.args[0].meta.get("source_fn_stack") == move.meta.get("source_fn_stack")
        }
        fold(module)
        for copy in copies:
            if not copy.users:
                module.graph.erase_node(copy)

    return folded


def _clear_device_caches() -> None:
    """Clear all caches of torch that hold data about the device, so that profiles are never
    mixed.
    """
    import torch._dynamo.device_interface as interface
    import torch._inductor.codegen.triton as triton_codegen
    import torch._inductor.runtime.hints as hints
    import torch._inductor.scheduler as scheduler
    import torch._inductor.utils as inductor
    import torch.utils._triton as triton_support

    for module in (triton_support, inductor, triton_codegen, scheduler):
        for value in list(vars(module).values()):
            # The type is tested first, because Inductor's op handlers have every attribute.
            if isinstance(value, _CACHED) and hasattr(value, "cache_clear"):
                value.cache_clear()
    create = hints.DeviceProperties.__dict__["create"]
    getattr(create.__func__, "cache_clear", lambda: None)()
    interface.caching_worker_device_properties.clear()
    interface.caching_worker_current_devices.clear()


@contextmanager
def fake_device(profile: Profile, log: CallLog | None = None) -> Iterator[None]:
    """Until the context ends, torch and Triton find the device that `profile` describes.

    The `properties` of `profile` are those that torch reports. `log` gets the name of every call
    that would have initialised a real device.
    """
    import torch._dynamo.device_interface as interface
    from torch._inductor.fx_passes import joint_graph
    from torch._inductor.runtime import triton_helpers
    from torch._subclasses import fake_tensor

    cuda = interface.CudaInterface
    with ExitStack() as stack:
        stack.enter_context(described_device(profile, log))
        stack.enter_context(_constants_on_cpu(profile["backend"]))
        for name, function in cuda_functions(profile, log).items():
            bound = name.lstrip("_")
            if name != "is_available" and isinstance(cuda.__dict__.get(bound), staticmethod):
                stack.enter_context(mock.patch.object(cuda, bound, staticmethod(function)))
        folder = joint_graph.UniformValueConstantFolder
        deduce = _fold_on_cpu(folder._deduce_value, profile["backend"])
        for owner, name, function in (
            (fake_tensor, "init_gpu_context", _constant(None)),
            (triton_helpers, "set_driver_to_gpu", _constant(None)),
            (folder, "_deduce_value", deduce),
            (
                joint_graph,
                "constant_fold_uniform_value",
                _without_host_copies(joint_graph.constant_fold_uniform_value),
            ),
            # The server has already initialised the patterns on the CPU; now they would be traced
            # on the device.
            (joint_graph, "lazy_init", _constant(None)),
        ):
            stack.enter_context(mock.patch.object(owner, name, function))
        _clear_device_caches()
        stack.callback(_clear_device_caches)
        yield
