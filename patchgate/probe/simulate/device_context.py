"""The device of a profile during a compile: a real device, a simulated one, an out-of-tree plugin,
or only code generation for C++.

`device_context` sets the device that Inductor sees while it compiles. `fake_tensors` is for the
code around the compile, which runs eagerly.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
import torch._inductor.config as inductor_config
from torch._dispatch.python import enable_python_dispatcher
from torch._inductor.fx_passes import joint_graph
from torch._subclasses import fake_impls, fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from patchgate.probe.protocol import Profile
from patchgate.probe.simulate.attention import simulated_attention
from patchgate.probe.simulate.backward import backward_in_python
from patchgate.probe.simulate.building import convertible_modules
from patchgate.probe.simulate.fake_device import fake_device, known_device


def generates_triton(profile: Profile) -> bool:
    """True if Inductor generates Triton kernels for the device. Only these have counts of loads and
    stores.
    """
    return bool(profile["backend"] == "cuda")


def device_name(profile: Profile) -> str:
    """Return the name that the driver of a real device reports, or else the profile's name."""
    return str(torch.cuda.get_device_name() if profile["kind"] == "real" else profile["name"])


def device_context(profile: Profile) -> AbstractContextManager[Any]:
    """Until the context ends, Inductor compiles for the device of `profile`."""
    contexts: dict[str, Callable[[Profile], AbstractContextManager[Any]]] = {
        "simulated": fake_device,
        "codegen": _codegen_for_isa,
        # The initialisation of patterns is skipped, because it would run kernels on the plugin's
        # device. The patterns of the CPU are already traced.
        "plugin": lambda profile: mock.patch.object(
            joint_graph, "lazy_init", lambda *_, **__: None
        ),
        "real": lambda profile: nullcontext(),
    }
    return contexts[profile["kind"]](profile)


def vector_isa(profile: Profile) -> Any:
    """Return Inductor's description of the vector ISA for which C++ is generated."""
    from torch._inductor import cpu_vec_isa

    return {"avx2": cpu_vec_isa.VecAVX2, "avx512": cpu_vec_isa.VecAVX512}[profile["isa"]]()


@contextmanager
def _codegen_for_isa(profile: Profile) -> Iterator[None]:
    """Until the context ends, generate C++ for the profile's vector ISA and number of threads."""
    from torch._inductor import cpu_vec_isa

    isa = vector_isa(profile)
    with (
        mock.patch.object(cpu_vec_isa, "valid_vec_isa_list", lambda: [isa]),
        mock.patch.object(cpu_vec_isa.VecISA, "__bool__", lambda self: True),
        inductor_config.patch({"cpp.threads": profile["threads"]}),
    ):
        yield


@contextmanager
def fake_tensors(profile: Profile, reads: Sequence[float]) -> Iterator[None]:
    """Until the context ends, a workload is built and called without a device: tensors are fake,
    and attention and backward are simulated.

    For a real device nothing changes. A plugin registers its device. `reads` are the values that
    `.item()` returns, call by call.
    """
    with ExitStack() as stack:
        if profile["kind"] == "plugin":
            runpy.run_path(profile["plugin"])["register"]()
        if profile["kind"] != "real":
            stack.enter_context(_item_returns(reads))
            stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
            stack.enter_context(convertible_modules())
            stack.enter_context(traced_without_device(profile))
        yield


@contextmanager
def traced_without_device(profile: Profile) -> Iterator[None]:
    """Until the context ends, forward and backward passes of fake tensors are traced as on the
    profile's device.
    """
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(fake_tensor, "init_gpu_context", lambda device: None))
        # Used on the CPU too, because the engine in C++ starts threads, which no fork keeps.
        stack.enter_context(backward_in_python())
        if profile["kind"] == "simulated":
            stack.enter_context(known_device(profile))
            stack.enter_context(simulated_attention(profile))
            stack.enter_context(enable_python_dispatcher())
        yield


def _item_returns(reads: Sequence[float]) -> AbstractContextManager[Any]:
    """Make `.item()` return the values that the workload names, because a fake tensor has none."""
    implementations = fake_impls.op_implementations_dict
    values = iter(reads)

    def item(mode: FakeTensorMode, func: Any, tensor: Any) -> Any:
        if mode.shape_env is not None:
            return original(mode, func, tensor)
        return torch.tensor(next(values), dtype=tensor.dtype, device="cpu").tolist()

    ops = (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)
    original = implementations[ops[0]]
    # Otherwise torch 2.10 would compile `item` too and count its breaks as the workload's.
    uncompiled: Any = torch._dynamo.disable(item)
    return (
        mock.patch.dict(implementations, dict.fromkeys(ops, uncompiled)) if reads else nullcontext()
    )
