"""A backend of torch.compile that generates code for a simulated GPU, and runs that code on the
CPU.

Dynamo traces a call with CPU tensors; Inductor gets the same graph on the device. Triton's
interpreter runs the kernels of the generated module. All other operations run on the CPU, in the
same dtype.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch._functorch.config as functorch_config
from torch import Tensor
from torch._dynamo.exc import exceptions_allowed_to_be_fallback
from torch._inductor import async_compile, compile_fx
from torch._inductor.codecache import PyCodeCache
from torch._inductor.fx_passes import pad_mm
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime import triton_heuristics
from torch._library.custom_ops import OPDEFS
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from patchgate.probe.interpret.memory import Memory
from patchgate.probe.process.reply import one_line
from patchgate.probe.protocol import (
    Function,
    MemoryFault,
    Profile,
)
from patchgate.probe.simulate.device_context import device_context, traced_without_device
from patchgate.probe.simulate.needs_device import NeedsDevice

# The maximum number of elements of a block. The interpreter allows 2 ** 20, but smaller blocks stay
# in the CPU's caches.
_LARGEST = 1 << 18
# The maximum number of programs of a launch with Inductor's own blocks; a program takes some ms.
_MOST_PROGRAMS = 4096
# Inductor omits a mask if the size is 1 or a multiple of the largest block that it may choose. None
# of these blocks is larger than that one.
_WITHOUT_MASK = {"X": 1024, "Y": 1024, "Z": 1024, "R0_": 1 << 15, "R1_": 1 << 14}
_GRIDS_OF_USERS = ("FixedGrid", "PrecomputedGrid")
_BLOCK = re.compile(r"^(X|Y|Z|R\d_)BLOCK$")
_DEVICE = re.compile(r"\bdevice\(type='cuda'(?:, index=\d+)?\)|(?<=device=)'cuda(?::\d+)?'")
_ATTENTION = ("flash", "efficient", "cudnn")


def interpreting_backend(
    profile: Profile, faults: dict[Any, MemoryFault], launches: dict[str, list[str]] | None = None
) -> Function:
    """Return a backend for functions of CPU tensors; memory faults of their kernels are added to
    `faults`.

    With `launches`, blocks and grid are the first that Inductor's heuristics propose, without
    measured times; those of each kernel are added to `launches`. Otherwise the blocks are large.

    A compiled function raises NeedsDevice when it is called, if it cannot be run here.
    """
    memory = Memory(faults)

    def backend(module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        load = functools.partialmethod(_load, memory, launches)
        with (
            traced_without_device(profile),
            functorch_config.patch(force_non_lazy_backward_lowering=True),
            device_context(profile),
            # A device would time the padded and the plain form; their results are equal.
            mock.patch.object(pad_mm, "get_cached_should_pad", lambda key: False),
            mock.patch.object(GraphLowering, "compile_to_module", load),
        ):
            _move_graph(module, torch.device(profile["backend"], 0))
            placeholders = (node.meta for node in module.graph.nodes if node.op == "placeholder")
            # Numbers that Dynamo has wrapped stay on the CPU.
            given = [
                meta["example_value"] if meta["grapharg"].is_tensor else number
                for meta, number in zip(placeholders, inputs, strict=True)
            ]
            try:
                return compile_fx.compile_fx(module, given)
            except exceptions_allowed_to_be_fallback as error:
                # On such an error Dynamo would run the graph in eager mode.
                raise NeedsDevice(f"a graph that is run eagerly ({type(error).__name__})") from None

    return backend


def _moved(device: torch.device, known: dict[int, Any], value: Any) -> Any:
    """Return a fake CPU tensor as one of the same sizes on the device; other values unchanged."""
    if not isinstance(value, FakeTensor) or value.device.type != "cpu":
        return value
    if id(value) not in known:
        with value.fake_mode:
            size, stride = value.size(), value.stride()
            new = torch.empty_strided(size, stride, dtype=value.dtype, device=device)
            new = new.requires_grad_(value.requires_grad) if value.is_leaf else new
        for name in ("_dynamo_static_input_type", "_dynamo_dynamic_indices", "_is_param"):
            if hasattr(value, name):
                setattr(new, name, getattr(value, name))
        known[id(value)] = (value, new)
    return known[id(value)][1]


def _move_graph(module: torch.fx.GraphModule, device: torch.device) -> None:
    """Replace the CPU by the device in the arguments and example values of the graph."""
    move = functools.partial(_moved, device, {})

    def on_device(value: Any) -> Any:
        if isinstance(value, torch.device) and value.type == "cpu":
            return device
        return device.type if isinstance(value, str) and value == "cpu" else value

    for node in module.graph.nodes:
        if node.op == "get_attr" and isinstance(getattr(module, str(node.target), None), Tensor):
            raise NeedsDevice("a graph with a constant tensor")
        node.args = torch.fx.node.map_aggregate(node.args, on_device)
        node.kwargs = torch.fx.node.map_aggregate(node.kwargs, on_device)
        if "example_value" in node.meta:
            node.meta["example_value"] = pytree.tree_map(move, node.meta["example_value"])
    module.recompile()


def _load(graph: GraphLowering, memory: Memory, launches: dict[str, list[str]] | None) -> Any:
    """Replace `compile_to_module`: load the module with a `call` that runs on the CPU."""
    text = graph.codegen()[0].value
    with (
        mock.patch.object(async_compile, "AsyncCompile", lambda: _Kernels(memory, launches)),
        mock.patch.object(torch._C, "_cuda_getCurrentRawStream", lambda index: 0, create=True),
    ):
        module = PyCodeCache.load(_DEVICE.sub("device(type='cpu')", text), extra=str(id(memory)))
    constants = {**graph.constants, **graph.torchbind_constants}
    if any(isinstance(value, FakeTensor) for value in constants.values()):
        raise NeedsDevice("a graph with a constant tensor")
    vars(module).update(constants)

    def allocate(size: Any, stride: Any, dtype: torch.dtype) -> Tensor:
        return memory.allocate(torch.empty_strided(size, stride, dtype=dtype))

    vars(module)["empty_strided_cuda"] = allocate
    run = module.call

    def call(args: list[Any]) -> Any:
        from patchgate.probe.interpret.triton_interpreter import interpreted_language

        memory.begin_call()
        with interpreted_language(memory), _without_streams(), _OperatorsOnCpu(memory):
            try:
                results = run(args)
            except AssertionError as error:
                raise NeedsDevice(f"an operator that lays its output out so ({error})") from None
        memory.read(_tensors(results), "the caller")
        return results

    return SimpleNamespace(call=call, __file__=module.__file__, key="")


def _without_streams() -> AbstractContextManager[Any]:
    """Until the context ends, a generated module's functions for choosing a device and a stream
    do nothing.
    """
    return mock.patch.multiple(
        torch.cuda, _DeviceGuard=lambda index: nullcontext(), set_device=lambda index: None
    )


class _OperatorsOnCpu(TorchDispatchMode):
    """Records in the memory which tensors operators read and write, and runs operators that exist
    only for a GPU.
    """

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self._memory = memory

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        values = _by_name(func, args, kwargs)
        mutable = {each.name for each in func._schema.arguments if each.alias_info is not None}
        read = [value for name, value in values.items() if name not in mutable]
        if not func.is_view:
            self._memory.read(_tensors(read), str(func))
        result = self._run(func, args, kwargs)
        if not func.is_view:
            self._memory.fill(_tensors([values[name] for name in mutable & values.keys()]))
        return result

    def _run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        name = func._schema.name.partition("::")[2]
        if re.fullmatch(rf"_scaled_dot_product_({'|'.join(_ATTENTION)})_attention", name):
            return _attention(func, args, kwargs)
        own = _function_for_gpu(func)
        try:
            if own is None:
                return func(*args, **kwargs)
            with mock.patch.object(Tensor, "is_cuda", True, create=True):
                return own(*args, **kwargs)
        except NeedsDevice:
            raise
        except NotImplementedError:
            raise NeedsDevice(f"the operator `{func}`") from None
        except Exception as error:
            if own is None:
                raise
            raise NeedsDevice(f"the operator `{func}` ({one_line(error, 1000)})") from None


def _function_for_gpu(func: Any) -> Function | None:
    """Return the Python function that an operator runs on a GPU; None for operators in C++.

    Raises NeedsDevice if the operator's registration does not give its function.
    """
    operator = OPDEFS.get(func._schema.name)
    if operator is not None:
        functions = operator._backend_fns
        own: Function | None = functions.get("cuda") or functions.get(None)
        return own
    if f"{func.name().replace('::', '/')}/CUDA" in torch.library._impls:
        raise NeedsDevice(f"the operator `{func}`, which has its own function for a GPU")
    return None


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor)]


def _by_name(func: Any, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an operator by their names in its schema."""
    names = (argument.name for argument in func._schema.arguments)
    return dict(zip(names, args, strict=False)) | kwargs


def _attention(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute attention in float32, round once, and use the output layout of the GPU's kernel."""
    arguments = _by_name(func, args, kwargs)
    if arguments.get("dropout_p") or arguments.get("compute_log_sumexp"):
        raise NeedsDevice(f"`{func}` with dropout or in training")
    query, key, value = (arguments[name].float() for name in ("query", "key", "value"))
    mask = arguments.get("attn_bias")
    output = torch.ops.aten._scaled_dot_product_attention_math(
        query,
        key,
        value,
        mask if mask is None else mask.float(),
        0.0,
        arguments.get("is_causal", False),
        scale=arguments.get("scale"),
        enable_gqa=query.shape[1] != key.shape[1],
    )[0]
    on_meta = pytree.tree_map_only(Tensor, lambda tensor: tensor.to("meta"), (args, kwargs))
    results = func(*on_meta[0], **on_meta[1])
    laid_out = pytree.tree_map_only(
        Tensor,
        lambda t: torch.zeros(0, dtype=t.dtype).new_empty_strided(t.shape, t.stride()),
        results,
    )
    laid_out[0].copy_(output)
    return laid_out


class _Kernels:
    """Replaces Inductor's `AsyncCompile`, so that kernels are interpreted."""

    def __init__(self, memory: Memory, launches: dict[str, list[str]] | None) -> None:
        self._memory, self._launches = memory, launches

    def triton(self, name: str, source: str, *_: Any, **__: Any) -> Any:
        load = functools.partial(PyCodeCache.load, source, extra=str(id(self._memory)))
        if self._launches is None:
            make = functools.partial(_make_kernel, self._memory)
            with mock.patch.object(triton_heuristics, "cached_autotune", make):
                module = load()
            kernel = getattr(module, name)
        else:
            module = load()
            kernel = _as_chosen(getattr(module, name), self._memory, self._launches)
        from patchgate.probe.interpret.triton_interpreter import LIBDEVICE

        if "libdevice" in vars(module):
            vars(module)["libdevice"] = LIBDEVICE
        return kernel

    def wait(self, scope: dict[str, Any]) -> None:
        """Do nothing, because nothing is compiled."""

    def __getattr__(self, name: str) -> Any:
        raise NeedsDevice(f"a kernel that is no Triton (`async_compile.{name}`)")


def _make_kernel(
    memory: Memory,
    size_hints: Any,
    configs: list[Any],
    triton_meta: dict[str, Any],
    heuristic_type: Any,
    filename: str | None = None,
    inductor_meta: dict[str, Any] | None = None,
    **_: Any,
) -> Callable[[Any], Any]:
    """Replace `cached_autotune`, which the decorators of `triton_heuristics` call with proposed
    blocks.
    """
    hints = inductor_meta or {}
    return lambda function: _Kernel(function, configs[0], triton_meta, hints, memory)


def _as_chosen(kernel: Any, memory: Memory, launches: dict[str, list[str]]) -> _Kernel:
    """Return the kernel as Inductor's own decorator wraps it, with the first of the proposed
    blocks. A device would time all proposals.
    """
    if not isinstance(kernel, triton_heuristics.CachingAutotuner):
        raise NeedsDevice(f"a kernel that is launched by `{type(kernel).__name__}`")
    config, hints = kernel.configs[0], kernel.inductor_meta
    return _Kernel(kernel.fn, config, kernel.triton_meta, hints, memory, launches)


class _Kernel:
    """One kernel, with the `run` that a generated module calls."""

    def __init__(
        self,
        function: Any,
        config: Any,
        meta: dict[str, Any],
        hints: dict[str, Any],
        memory: Memory,
        launches: dict[str, list[str]] | None = None,
    ) -> None:
        self._function, self._names = function.fn, list(function.arg_names)
        self._constants, self._hints, self._config = meta.get("constants", {}), hints, config
        constexprs = {self._names[index] for index in function.constexprs}
        # A call passes the arguments that are not constexpr, and then those of the grid.
        self._passed = [name for name in meta["signature"] if name not in constexprs]
        self._passed += hints.get("extra_launcher_args", ())
        own = {name: self._constants[name] for name in constexprs & self._constants.keys()}
        self._blocks: dict[str, Any] = own | config.kwargs
        self._is_users = hints.get("grid_type") in _GRIDS_OF_USERS
        self._memory, self._name, self._launches = memory, function.fn.__name__, launches

    def run(self, *args: Any, stream: Any = None, **kwargs: Any) -> None:
        """Launch the kernel, with large blocks so that few programs run, or with the chosen blocks.

        Raises NeedsDevice if the interpreter cannot run it.
        """
        from patchgate.probe.interpret.triton_interpreter import launch

        arguments = self._constants | dict(zip(self._passed, args, strict=False)) | kwargs
        # A call passes a number for an argument that is None.
        arguments |= {name: None for name, value in self._constants.items() if value is None}
        if "RSPLIT" in self._blocks or self._hints.get("grid_type") == "SplitScanGrid":
            raise NeedsDevice(f"`{self._name}`, whose programs wait for each other")
        blocks = self._large_blocks(arguments) if self._launches is None else self._blocks
        given_all = arguments | blocks
        of = self._config if self._is_users else blocks
        grid = triton_heuristics.GridExpr.from_meta(self._hints, of).eval_slow(given_all)
        if self._launches is not None:
            self._note_launch(self._launches, grid)
        try:
            with no_dispatch():  # operations of the interpreter are not the module's
                own = {name: given_all[name] for name in self._names if name in given_all}
                launch(self._function, own, set(blocks), grid, self._memory)
        except NeedsDevice:
            raise
        except AssertionError as error:
            raise RuntimeError(f"device-side assertion of `{self._name}`: {error}") from None
        except Exception as error:
            text = one_line(error, 1000)
            raise NeedsDevice(f"`{self._name}` (the interpreter: {text})") from None

    def _note_launch(self, launches: dict[str, list[str]], grid: tuple[int, int, int]) -> None:
        if math.prod(grid) > _MOST_PROGRAMS:
            raise NeedsDevice(f"`{self._name}`, which starts {math.prod(grid)} programs")
        blocks = "".join(f", {name}={size}" for name, size in sorted(self._blocks.items()))
        launch = f"{' x '.join(map(str, grid))} programs{blocks}"
        launches.setdefault(self._name, []).append(launch)

    def _large_blocks(self, arguments: dict[str, Any]) -> dict[str, int]:
        """Return the first proposed blocks, each enlarged for its size. Blocks of a fixed
        split, and of a kernel that a user wrote with its own grid, are unchanged.
        """
        if "RSPLIT_SIZE" in self._blocks or self._is_users:
            return self._blocks
        blocks, left = dict(self._blocks), _LARGEST
        for name in sorted(blocks):  # blocks of the reduction come first
            found = _BLOCK.match(name)
            size = arguments.get(f"{found[1].lower()}numel") if found else None
            if found and isinstance(size, int) and size > 0:
                blocks[name] = min(_large_block(size, _WITHOUT_MASK[found[1]]), left)
                left = max(left // blocks[name], 1)
        return blocks


def _large_block(size: int, without_mask: int) -> int:
    """Return a power of two that is a block for the size. If a mask is needed, the block is larger
    than the size, so that the mask excludes elements.
    """
    divisor = size & -size
    return divisor if size == 1 or divisor >= without_mask else 2 << (size - 1).bit_length()
