"""Conversions of a module (`.to(dtype)`, `.half()`, `.to("cuda")`) whose parameters are fake
tensors.

Torch swaps the contents of a fake parameter in place, which fails once something refers to it
weakly, as the fake mode does. Here the parameter is replaced; a parameter that several modules
share stays shared.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor


@contextlib.contextmanager
def convertible_modules() -> Iterator[None]:
    """Within it, modules with fake parameters can be converted."""
    converts = torch.nn.Module._apply

    def apply(
        module: torch.nn.Module, fn: Callable[[Any], Any], recurse: bool = True
    ) -> torch.nn.Module:
        modules = list(module.modules()) if recurse else [module]
        tensors = [
            tensor
            for part in modules
            for tensor in (*part._parameters.values(), *part._buffers.values())
        ]
        if not any(isinstance(tensor, FakeTensor) for tensor in tensors):
            return converts(module, fn, recurse)
        converted: dict[int, Any] = {}
        for part in modules:
            _convert(part._parameters, fn, converted)
            for name, buffer in part._buffers.items():
                part._buffers[name] = None if buffer is None else fn(buffer)
        return module

    with mock.patch.object(torch.nn.Module, "_apply", apply):
        yield


def _convert(
    parameters: dict[str, Any], fn: Callable[[Any], Any], converted: dict[int, Any]
) -> None:
    """Replace each parameter by what `fn` makes of it; `converted` holds those that were replaced
    before, by id.
    """
    for name, parameter in parameters.items():
        if parameter is None:
            continue
        if id(parameter) not in converted:
            with torch.no_grad():
                result = fn(parameter)
            new = torch.nn.Parameter(result, requires_grad=parameter.requires_grad)
            converted[id(parameter)] = new if result is not parameter else parameter
            converted[id(converted[id(parameter)])] = converted[id(parameter)]
        parameters[name] = converted[id(parameter)]
