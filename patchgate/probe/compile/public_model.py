"""Builds a public model from its published configuration, without its weights, and the inputs of
one call.

A region is one layer of a model. The network is run once to get the real inputs of this layer.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from patchgate.probe.compile.capture import Build, default_dtype
from patchgate.probe.protocol import Function

#: The content of a file of `fixtures/models`, without the keys that only the host reads. `region`
#: names the layer that is compiled alone; it is empty if the whole network is compiled.
Model = dict[str, Any]


class _Reached(Exception):
    """Ends the run of a network just before the layer of the region is called."""


class _Network(torch.nn.Module):
    """A whole network. It is called with tensors by name and returns only its first output."""

    def __init__(self, network: torch.nn.Module, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.network, self.arguments = network, arguments

    def forward(self, inputs: dict[str, Tensor]) -> Any:
        result = self.network(**inputs, **self.arguments)
        return result if isinstance(result, Tensor) else result[0]


class _Layer(torch.nn.Module):
    """One layer, called as the network calls it."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.layer(*args, **kwargs)


def model_builder(model: Model) -> Build:
    """Return the `build` function of a workload that is a public model."""

    def build(
        device: torch.device, dtype: torch.dtype, size: str
    ) -> tuple[Function, tuple[Any, ...]]:
        # Weights get the dtype, as if a library loaded them; other buffers keep their own dtype.
        with default_dtype(dtype), device:
            network, arguments = _network(model)
            inputs = {
                name: torch.full(
                    each["shape"], each["value"], dtype=getattr(torch, each["dtype"] or "", dtype)
                )
                for name, each in model["inputs"].items()
            }
        network.train(model["entry"] == "training")
        whole = _Network(network, arguments)
        if model["entry"] == "decode":
            whole.forward(inputs)  # fill the cache, as earlier tokens would
        if not model["region"]:
            return whole, (inputs,)
        layer = network.get_submodule(model["region"])
        return _Layer(layer), _arguments_of(layer, lambda: whole.forward(inputs))

    return build


def _network(model: Model) -> tuple[torch.nn.Module, dict[str, Any]]:
    """Return the network and those of its arguments that are not tensors."""
    keys = {**model["config"], **model["built"], **dict.fromkeys(model["null"])}
    arguments = dict(model["arguments"])
    make = _member(model["library"], model["class_"])
    if not model["config_class"]:
        return make(**keys), arguments
    config = _member(model["library"], model["config_class"])(**keys)
    if model["cache"]:
        arguments["past_key_values"] = _member(model["library"], "StaticCache")(
            config=config, max_cache_len=model["cache"]
        )
    return make(config), arguments


def _member(library: str, name: str) -> Any:
    """Return a class of the library; a dotted name consists of a module and a class in it."""
    module, _, member = f"{library}.{name}".rpartition(".")
    return getattr(importlib.import_module(module), member)


def _arguments_of(
    layer: torch.nn.Module, run: Callable[[], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that the layer gets in a run; ValueError if it is not called."""
    called: list[Any] = []

    def keep(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        called.append((args, kwargs))
        raise _Reached

    handle = layer.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        with suppress(_Reached):
            run()
    finally:
        handle.remove()
    if not called:
        raise ValueError("the network ran, and did not call the layer of its region")
    args, kwargs = pytree.tree_map_only(Tensor, Tensor.detach, called[0])
    for tensor in args if torch.is_grad_enabled() else ():
        if isinstance(tensor, Tensor) and tensor.is_floating_point():
            tensor.requires_grad_()
    return args, kwargs
