"""Builds models of fake tensors as on a device: modules can be converted (`.to(dtype)`, `.half()`,
`.to("cuda")`), and libraries can read numbers from small tensors.

To convert a module, torch swaps the contents of fake parameters in place. This fails if there are
weak references to a parameter, as in the fake mode. Here the parameter is replaced, and shared
parameters stay shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
import torch.nn.init
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import Module
from torch.utils import _pytree as pytree
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from patchgate.probe.protocol import Function

# Values of tensors with at most this many elements are computed on the CPU: a batch of masks.
_SMALL = 1 << 16
# Matrix product -> positions of the two arguments that must have the same dtype.
_PRODUCTS = {
    torch.ops.aten.mm.default: (0, 1),
    torch.ops.aten.addmm.default: (1, 2),
    torch.ops.aten.bmm.default: (0, 1),
    torch.ops.aten.baddbmm.default: (1, 2),
}


@contextmanager
def convertible_modules() -> Iterator[None]:
    """Until the context ends, modules with fake parameters can be converted."""
    converts = Module._apply

    def apply(module: Module, fn: Function, recurse: bool = True) -> Module:
        modules = list(module.modules()) if recurse else [module]
        held = [each for one in modules for each in (one._parameters, one._buffers)]
        if not any(isinstance(tensor, FakeTensor) for each in held for tensor in each.values()):
            return converts(module, fn, recurse)
        converted: dict[int, Any] = {}
        for part in modules:
            _convert(part._parameters, fn, converted)
            for name, buffer in part._buffers.items():
                part._buffers[name] = None if buffer is None else fn(buffer)
        return module

    with mock.patch.object(Module, "_apply", apply):
        yield


def _convert(parameters: dict[str, Any], fn: Function, converted: dict[int, Any]) -> None:
    """Replace each parameter by the result of `fn`. `converted` maps the id of a parameter that was
    replaced before to its replacement.
    """
    for name, parameter in parameters.items():
        if parameter is None:
            continue
        if id(parameter) not in converted:
            with torch.no_grad():
                new = fn(parameter)
            if new is not parameter:
                new = torch.nn.Parameter(new, requires_grad=parameter.requires_grad)
            converted[id(parameter)] = converted[id(new)] = new
        parameters[name] = converted[id(parameter)]


@contextmanager
def as_on_a_device() -> Iterator[None]:
    """Until the context ends, values computed only from small constants can be read, libraries
    cannot tell that tensors are fake, and matrix products of two dtypes are refused.
    """
    with (
        mock.patch.object(torch._subclasses, "FakeTensor", type("FakeTensor", (), {})),
        # From torch 2.12 on, this function draws again until all numbers are in a range, but fake
        # weights have no numbers.
        mock.patch.object(
            torch.nn.init, "_no_grad_trunc_normal_", lambda tensor, *args, **kwargs: tensor
        ),
        _SmallValues(),
    ):
        yield


class _SmallValues(TorchDispatchMode):
    """If all inputs of an operation are small constants, computes its values on the CPU too. Draws
    the random numbers that the host draws on a device; some decide which layers are left out.
    """

    def __init__(self) -> None:
        super().__init__()
        # False once random numbers of the host were not drawn, because all later numbers would
        # differ from those on a device.
        self._in_step = True
        # Storage -> (a fake tensor that keeps the storage alive, its values).
        self._known: dict[int, tuple[Any, Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        _refuse_two_dtypes(func, args)
        leaves = pytree.tree_leaves((args, kwargs))
        inputs = [leaf for leaf in leaves if isinstance(leaf, FakeTensor)]
        known = _has_one_result(func) and all(map(self._knows, inputs))
        gives_tensors = any("Tensor" in str(each.type) for each in func._schema.returns)
        if inputs and known and not gives_tensors:
            return self._compute(func, args, kwargs)  # the operation reads a number
        result = func(*args, **kwargs)
        outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]
        if torch.Tag.nondeterministic_seeded in func.tags:
            known = self._draws(outputs, known)
        if known and _are_small(outputs):
            computed = pytree.tree_leaves(self._compute(func, args, kwargs))
            values = [each for each in computed if isinstance(each, Tensor)]
            for fake, value in zip(outputs, values, strict=True):
                self._known.setdefault(_storage(fake), (fake, value))
        elif func._schema.is_mutable:
            for tensor in inputs:
                self._known.pop(_storage(tensor), None)
        return result

    def _draws(self, outputs: list[Tensor], known: bool) -> bool:
        """True if the host draws these random numbers, and all earlier ones were drawn here too."""
        if any(each.device.type != "cpu" for each in outputs):
            return False
        self._in_step = self._in_step and known and _are_small(outputs)
        return self._in_step

    def _compute(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        with no_dispatch():
            args, kwargs = pytree.tree_map_only(FakeTensor, self._value, (args, kwargs))
            if "device" in kwargs:
                kwargs["device"] = torch.device("cpu")
            return func(*args, **kwargs)

    def _knows(self, tensor: Any) -> bool:
        _, values = self._known.get(_storage(tensor), (None, None))
        return values is not None and values.dtype == tensor.dtype

    def _value(self, tensor: Any) -> Any:
        """Return the values of a fake tensor. Views share values as they share a storage."""
        values = self._known[_storage(tensor)][1]
        return values.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _refuse_two_dtypes(func: Any, args: Any) -> None:
    """Raise for a matrix product of two dtypes, as a device does; fake tensors would accept it."""
    if func in _PRODUCTS:
        first, second = (args[place].dtype for place in _PRODUCTS[func])
        if first != second:
            raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {first}, {second}")


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _are_small(tensors: list[Tensor]) -> bool:
    return all(isinstance(each, FakeTensor) and each.numel() <= _SMALL for each in tensors)


def _has_one_result(func: Any) -> bool:
    """True if the operation always gives the same values, not those of uninitialised memory."""
    return not func._schema.name.startswith("aten::empty")
