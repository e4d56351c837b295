"""Triton's language on the CPU: its interpreter, with its gaps and differences from a GPU removed.

These parts are replaced: loads and stores, to watch them; arithmetic in bfloat16, a type that numpy
lacks; maxima of NaN; reductions and scans, which the interpreter computes element by element; and
libdevice, whose functions the interpreter lacks.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any
from unittest import mock

import numpy as np
import torch
import triton.language as tl
from torch import Tensor
from torch._inductor.runtime import triton_helpers
from torch.utils._mode_utils import no_dispatch
from triton.runtime import interpreter
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import InterpretedFunction, InterpreterBuilder, TensorHandle
from triton.runtime.jit import JITFunction

from patchgate.probe.interpret.memory import Memory
from patchgate.probe.protocol import Function
from patchgate.probe.simulate.needs_device import NeedsDevice

# Functions of libdevice that have the same name in torch, and those that have another name there.
_SAME_NAME = (
    "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh digamma erf erfc erfinv exp "
    "exp2 expm1 floor fmod"
    " hypot isinf isnan lgamma log log10 log1p log2 pow rsqrt signbit sin sinh sqrt tan tanh trunc"
)
_OTHER_NAMES = """
    fabs=abs rint=round nearbyint=round llrint=round sqrt_rn=sqrt mul_rn=mul ldexp=ldexp div_rn=div
    cyl_bessel_i0=i0 normcdfinv=special.ndtri normcdf=special.ndtr fast_tanhf=tanh fast_expf=exp
    fast_logf=log
"""
_FUNCTIONS = {name: name for name in _SAME_NAME.split()}
_FUNCTIONS |= {each.partition("=")[0]: each.partition("=")[2] for each in _OTHER_NAMES.split()}
_INTEGERS = {"isnan": tl.int32, "isinf": tl.int32, "signbit": tl.int32, "llrint": tl.int64}
_TORCH_NAMES = {
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
}
# Types that numpy lacks -> the integer types in which Triton's interpreter keeps their bits.
_AS_BITS = {
    torch.bfloat16: torch.uint16,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.uint8,
}


@contextmanager
def interpreted_language(memory: Memory) -> Iterator[None]:
    """Until the context ends, `triton.language` and functions with `@triton.jit` compute at once,
    on numpy arrays.
    """
    known = FunctionType((lambda: None).__code__, {"tl": tl, "core": tl.core})
    watched = {
        name: functools.partialmethod(function, memory) for name, function in _MEMORY.items()
    }
    with ExitStack() as stack:
        for name, function in {**watched, **_ARITHMETIC}.items():
            stack.enter_context(mock.patch.object(InterpreterBuilder, name, function, create=True))
        stack.enter_context(mock.patch.object(JITFunction, "__call__", _call))
        by_operator = functools.partialmethod(_launch_by_operator, memory)
        stack.enter_context(mock.patch.object(JITFunction, "run", by_operator))
        stack.enter_context(mock.patch.object(Autotuner, "run", _run_first_choice))
        stack.enter_context(mock.patch.object(triton_helpers, "libdevice", LIBDEVICE))
        stack.callback(interpreter._patch_lang(known).restore)
        # Triton 3.6 converts an array with one element to a number, which newer versions of numpy
        # refuse.
        stack.enter_context(
            mock.patch.object(tl.tensor, "__index__", lambda self: self.handle.data.item())
        )
        for module in (tl, tl.core):
            stack.enter_context(mock.patch.object(module, "reduce", _reduce))
            stack.enter_context(mock.patch.object(module, "associative_scan", _scan))
        stack.enter_context(np.errstate(all="ignore"))
        yield


@functools.cache
def interpreted(function: Any) -> Function:
    """Return the plain function under `@triton.jit`, as the interpreter rewrites it."""
    rewritten: Function = InterpretedFunction(function).rewrite()
    return rewritten


def launch(
    function: Any,
    arguments: dict[str, Any],
    constants: set[str],
    grid: Sequence[int],
    memory: Memory,
) -> None:
    """Run the programs of a three-dimensional grid one after another."""
    given = {
        name: x if name in constants else interpreter._implicit_cvt(x)
        for name, x in arguments.items()
    }
    tensors = {name: x for name, x in arguments.items() if isinstance(x, Tensor)}
    addresses = memory.begin_kernel(
        function.__name__, function.__code__.co_filename, [*tensors.values()]
    )
    for name, address in zip(tensors, addresses, strict=True):
        given[name].handle.data = np.array([address], np.uint64)
    builder, run = interpreter.interpreter_builder, interpreted(function)
    builder.set_grid_dim(*grid)
    programs = [(x, y, z) for x in range(grid[0]) for y in range(grid[1]) for z in range(grid[2])]
    for number, program in enumerate(programs):
        builder.set_grid_idx(*program)
        memory.begin_program(number, alone=len(programs) == 1)
        run(**given)


def _launch_by_operator(
    self: Any, memory: Memory, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any
) -> None:
    """Replace `kernel[grid](...)`: run a kernel that an operator's function launches."""
    own = {name: value for name, value in kwargs.items() if name in self.arg_names}
    bound = self.signature.bind(*args, **own)
    bound.apply_defaults()
    constants = {self.arg_names[index] for index in self.constexprs}
    constants |= {name for name, value in bound.arguments.items() if value is None}
    sizes = grid(bound.arguments) if callable(grid) else grid
    with no_dispatch():
        launch(self.fn, bound.arguments, constants, (*sizes, 1, 1)[:3], memory)


def _run_first_choice(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Replace autotuning, which needs a device to time the configurations: run the first
    configuration.
    """
    choice = self.configs[0]
    if choice.pre_hook is not None:
        choice.pre_hook(dict(zip(self.arg_names, args, strict=False)) | kwargs | choice.kwargs)
    return self.fn.run(*args, **kwargs, **choice.kwargs)


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    return interpreted(self.fn)(*args, **kwargs)


def _load(self: Any, memory: Memory, ptrs: Any, mask: Any, other: Any, *_: Any) -> Any:
    dtype = interpreter._get_np_dtype(ptrs.get_element_ty())
    addresses, inside = memory.load(ptrs.data, _whole(mask.data, ptrs), dtype.itemsize)
    filled = np.zeros(addresses.shape, dtype) if other is None else _whole(other.data, ptrs)
    return TensorHandle(
        interpreter._interpreter.load(addresses, inside, filled, dtype), ptrs.get_element_ty()
    )


def _store(self: Any, memory: Memory, ptrs: Any, value: Any, mask: Any, *_: Any) -> None:
    dtype = interpreter._get_np_dtype(ptrs.get_element_ty())
    values = _whole(value.data.astype(dtype, copy=False), ptrs)
    addresses, inside = memory.store(ptrs.data, _whole(mask.data, ptrs), values)
    interpreter._interpreter.store(addresses, values, inside)


def _add_atomically(
    self: Any, memory: Memory, operation: Any, ptr: Any, val: Any, mask: Any, *how: Any
) -> Any:
    values = _whole(val.data, ptr)
    addresses, inside = memory.store(ptr.data, _whole(mask.data, ptr), values, atomic=True)
    handles = (
        TensorHandle(addresses, ptr.dtype),
        TensorHandle(values, val.dtype),
        TensorHandle(inside, tl.int1),
    )
    return _ATOMIC(self, operation, *handles, *how)


def _whole(data: Any, ptrs: Any) -> Any:
    """Return a contiguous array with an element for each pointer, as the interpreter expects."""
    return np.ascontiguousarray(np.broadcast_to(data, ptrs.data.shape))


def _swap_atomically(self: Any, memory: Memory, *_: Any) -> Any:
    raise NeedsDevice("a kernel in which programs wait for each other (`tl.atomic_cas`)")


_ATOMIC = InterpreterBuilder.create_atomic_rmw
_MEMORY: dict[str, Function] = {
    "create_masked_load": _load,
    "create_masked_store": _store,
    "create_atomic_rmw": _add_atomically,
    "create_atomic_cas": _swap_atomically,
}


def _convert(data: Any, source: Any, target: Any) -> Any:
    """Convert floating-point numbers to another type, rounded to nearest even."""
    given, wanted = (getattr(torch, _TORCH_NAMES[str(dtype)]) for dtype in (source, target))
    result = torch.from_numpy(np.ascontiguousarray(data)).view(given).to(wanted)
    return result.view(_AS_BITS.get(wanted, wanted)).numpy()


def _cast(self: Any, src: Any, dst_type: Any, *_: Any) -> Any:
    source, target = src.dtype.scalar, dst_type.scalar
    if source.is_floating() and target.is_floating():
        return TensorHandle(_convert(src.data, source, target), target)
    if target.is_floating() and target.primitive_bitwidth < 32:
        # Numpy lacks most of these types, so an integer would be taken for the bits of a float.
        return TensorHandle(_convert(src.data.astype(np.float32), tl.float32, target), target)
    return TensorHandle(_wide(src).astype(interpreter._get_np_dtype(dst_type)), target)


def _wide(handle: Any) -> Any:
    """Return the data of a tensor; bfloat16 is converted to float32."""
    dtype = handle.dtype.scalar
    return _convert(handle.data, dtype, tl.float32) if dtype == tl.bfloat16 else handle.data


def _apply(operation: Function, handles: Sequence[Any], dtype: Any) -> Any:
    """Apply the operation and return the result in `dtype`; in bfloat16 each result is rounded.

    A comparison gives booleans, which Triton's interpreter would label with the compared type.
    """
    output = operation(*map(_wide, handles))
    if output.dtype == bool:
        return TensorHandle(output, tl.int1)
    if dtype == tl.bfloat16:
        output = _convert(output.astype(np.float32), tl.float32, tl.bfloat16)
    elif not interpreter._validate_np_data_size(output, dtype):
        output = output.astype(interpreter._get_np_dtype(dtype))
    return TensorHandle(output, dtype)


def _unary(self: Any, arg: Any, operation: Function) -> Any:
    return _apply(operation, (arg,), arg.dtype.scalar)


def _binary(self: Any, lhs: Any, rhs: Any, operation: Function) -> Any:
    return _apply(operation, (lhs, rhs), lhs.dtype.scalar)


def _ternary(self: Any, lhs: Any, rhs: Any, other: Any, operation: Function) -> Any:
    if operation is np.where:  # a selection rounds nothing
        return TensorHandle(np.where(lhs.data, rhs.data, other.data), other.dtype.scalar)
    return _apply(operation, (lhs, rhs, other), other.dtype.scalar)


def _in_float64(function: Function) -> Function:
    """Wrap the function so that it computes in float64 and rounds once."""

    def compute(*data: Any) -> Any:
        return function(*(x.astype(np.float64) for x in data)).astype(data[-1].dtype)

    return lambda self, *args: _apply(compute, args, args[-1].dtype.scalar)


def _bfloat16(self: Any, value: float) -> Any:
    return TensorHandle(
        _convert(np.array([value], np.float32), tl.float32, tl.bfloat16), tl.bfloat16
    )


_ARITHMETIC: dict[str, Function] = {
    "cast_impl": _cast,
    "create_fp_to_fp": _cast,
    "unary_op": _unary,
    "binary_op": _binary,
    "ternary_op": _ternary,
    "create_fma": _in_float64(lambda x, y, z: x * y + z),
    "create_rsqrt": _in_float64(lambda x: 1 / np.sqrt(x)),
    "create_erf": _in_float64(lambda x: torch.erf(torch.from_numpy(x)).numpy()),
    "get_bf16": _bfloat16,
    # If one operand is NaN, the result is the other one.
    "create_maxnumf": lambda self, lhs, rhs: _binary(self, lhs, rhs, np.fmax),
    "create_minnumf": lambda self, lhs, rhs: _binary(self, lhs, rhs, np.fmin),
}


def _tensor(data: Any, dtype: Any) -> Any:
    if data.ndim:
        return tl.tensor(
            TensorHandle(np.ascontiguousarray(data), dtype), tl.block_type(dtype, list(data.shape))
        )
    return tl.tensor(TensorHandle(data.reshape(1), dtype), dtype)


def _of(value: Any) -> Any:
    return value.value if isinstance(value, tl.constexpr) else value


def _combined(combine: Function, *sides: Sequence[Any], dtypes: Sequence[Any]) -> list[Any]:
    """Apply `combine` to the arrays of both sides; `dtypes` are the types of the arrays."""
    result = combine(
        *(_tensor(data, dtype) for side in sides for data, dtype in zip(side, dtypes, strict=True))
    )
    return [
        each.handle.data
        for each in (result if isinstance(result, (tuple, tl.tuple)) else (result,))
    ]


def _along_axis(input: Any, axis: Any) -> tuple[list[Any], list[Any], int]:
    """Return the arrays with the axis moved to the end, their types, and the axis. If the axis is
    None, the arrays are flattened.
    """
    tensors = [input] if isinstance(input, tl.tensor) else list(input)
    data = [tensor.handle.data for tensor in tensors]
    if axis is None:
        data = [each.reshape(-1) for each in data]
    return (
        [np.moveaxis(each, axis or 0, -1) for each in data],
        [tensor.dtype for tensor in tensors],
        axis or 0,
    )


def _as_given(input: Any, data: list[Any], dtypes: list[Any]) -> Any:
    result = tuple(_tensor(each, dtype) for each, dtype in zip(data, dtypes, strict=True))
    return result[0] if isinstance(input, tl.tensor) else result


def _reduce(input: Any, axis: Any, combine_fn: Any, keep_dims: Any = False, **_: Any) -> Any:
    """Replace `tl.reduce`: reduce by halving, as the threads of a GPU do."""
    data, dtypes, at = _along_axis(input, _of(axis))
    dimensions = (
        input.handle.data.ndim if isinstance(input, tl.tensor) else input[0].handle.data.ndim
    )
    while data[0].shape[-1] > 1:
        half = data[0].shape[-1] // 2
        left, right = [each[..., :half] for each in data], [each[..., half:] for each in data]
        data = _combined(combine_fn, left, right, dtypes=dtypes)
    data = [each[..., 0] for each in data]
    if _of(keep_dims):
        whole = _of(axis) is None
        data = [
            each.reshape((1,) * dimensions) if whole else np.expand_dims(each, at) for each in data
        ]
    return _as_given(input, data, dtypes)


def _scan(input: Any, axis: Any, combine_fn: Any, reverse: Any = False, **_: Any) -> Any:
    """Replace `tl.associative_scan`: combine elements at distances 1, 2, 4 and so on."""
    data, dtypes, at = _along_axis(input, _of(axis))
    data = [each[..., ::-1] for each in data] if _of(reverse) else data
    index, step = np.arange(data[0].shape[-1]), 1
    while step < len(index):
        before = [np.roll(each, step, -1) for each in data]
        both = _combined(combine_fn, before, data, dtypes=dtypes)
        data = [np.where(index >= step, new, old) for new, old in zip(both, data, strict=True)]
        step *= 2
    data = [each[..., ::-1] for each in data] if _of(reverse) else data
    return _as_given(input, [np.moveaxis(each, -1, at) for each in data], dtypes)


class _Libdevice:
    """Functions of libdevice, computed in float64 and rounded once."""

    def __getattr__(self, name: str) -> Function:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in _FUNCTIONS:
            raise NeedsDevice(f"libdevice's `{name}`")
        return functools.partial(_call_libdevice, name)


LIBDEVICE = _Libdevice()


def _call_libdevice(name: str, *args: Any, **_: Any) -> Any:
    owner, _dot, plain = f"torch.{_FUNCTIONS[name]}".rpartition(".")
    function = getattr(torch.special if owner.endswith("special") else torch, plain)
    tensors = [interpreter.interpreter_semantic.to_tensor(arg) for arg in args]
    arrays = np.broadcast_arrays(*(_wide(tensor.handle).astype(np.float64) for tensor in tensors))
    result = function(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)).numpy()
    dtype = _INTEGERS.get(name, tensors[0].dtype)
    block = next((tensor.type for tensor in tensors if tensor.type.is_block()), None)
    target = tl.block_type(dtype, block.shape) if block else dtype
    wide = TensorHandle(result.astype(np.float64), tl.float64)
    return tl.tensor(_cast(None, wide, target), target)
