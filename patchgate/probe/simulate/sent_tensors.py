"""Sends tensors as `torch.multiprocessing` does, also from one of two simulated GPUs.

A patch may send a device's name instead of its number. With only one GPU every name would be right.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch.multiprocessing.reductions import shared_cache

from patchgate.probe.simulate.fake_device import cuda_functions

_GPUS = range(2)
_PROPERTIES = {"name": "GPU", "major": 9, "minor": 0, "total_memory": 80 << 30}


class _ArrivedError(BaseException):
    """Raised where torch would open the memory. It passes a patch's `except Exception`."""

    def __init__(self, device: Any) -> None:
        super().__init__()
        self.device = device


class _Storage:
    """A storage on a GPU, with the methods by which `torch.multiprocessing` shares it."""

    def __init__(self, index: int) -> None:
        self.device = torch.device("cuda", index)
        self._untyped_storage = self

    def _share_cuda_(self) -> tuple[Any, ...]:
        return self.device.index, f"memory of {self.device}".encode(), 4, 0, b"", 0, b"", False

    def _weak_ref(self) -> Any:
        return torch.UntypedStorage(4)._weak_ref()

    @classmethod
    def _new_shared_cuda(cls, device: Any, *memory: Any) -> Any:
        raise _ArrivedError(device)


class _Sent(torch.Tensor):
    """A tensor that says it is on a GPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    index: int
    is_cuda = True

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", self.index)

    def get_device(self) -> int:
        return self.index

    def _typed_storage(self) -> Any:
        return _Storage(self.index)

    def untyped_storage(self) -> Any:
        return _Storage(self.index)


def sent(tensor: torch.Tensor) -> Any:
    """Return the tensor that another process would rebuild from the message."""
    rebuild, given = ForkingPickler._extra_reducers[type(tensor)](tensor)  # type: ignore[attr-defined]
    return rebuild(*given)


def device_after_sending(index: int) -> int:
    """Send a tensor from GPU `index` of two equal GPUs, and return the GPU on which it arrives.

    The result is `index` if the patch needs something that is not simulated.
    """
    reduce = ForkingPickler._extra_reducers[torch.Tensor]  # type: ignore[attr-defined]
    tensor = torch.zeros(1).as_subclass(_Sent)
    tensor.index = index
    known = set(shared_cache)
    try:
        with mock.patch.multiple(torch.cuda, **_two_gpus(index)), suppress(Exception):
            rebuild, given = reduce(tensor)
            rebuild(*given)
    except _ArrivedError as arrived:
        return _index(arrived.device, index)
    finally:
        for key in set(shared_cache) - known:
            del shared_cache[key]
    return index


def _two_gpus(current: int) -> dict[str, Any]:
    """Return functions of `torch.cuda` for a process with two equal GPUs and the given current."""
    numbered = [
        {"uuid": uuid.UUID(int=at + 1), "pci_bus_id": at + 1, "pci_device_id": 0} for at in _GPUS
    ]
    properties = [SimpleNamespace(**_PROPERTIES, **each) for each in numbered]
    return cuda_functions({"properties": _PROPERTIES}) | {
        "device_count": lambda: len(properties),
        "current_device": lambda: current,
        "get_device_properties": lambda device=None: properties[_index(device, current)],
    }


def _index(device: Any, current: int) -> int:
    if isinstance(device, int):
        return device
    index = None if device is None else torch.device(device).index
    return current if index is None else index


#: Functions that sample programs call by name. Such a program needs more than torch.
OF_SENDING = (sent, device_after_sending)
