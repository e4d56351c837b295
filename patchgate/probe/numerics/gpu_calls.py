"""Calls with fake tensors on a GPU, which have no numbers. If a function makes a tensor without
passing on the device of its arguments, it fails in such a call, but not on the CPU.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

#: Words in torch's error, and in ours, for a mix of tensors on the CPU and on a GPU.
TWO_DEVICES = "two different devices"


def on_a_gpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function on a GPU, without gradients. It returns zeros with the shapes and dtypes of its
    results.

    Raises RuntimeError if a tensor of the CPU is used with a tensor of the GPU, or is returned.
    """

    def called(*args: Any, **kwargs: Any) -> list[torch.Tensor]:
        is_module = isinstance(function, torch.nn.Module)
        own = copy.deepcopy(function) if is_module else function
        with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
            sent = pytree.tree_map(_on_gpu, (args, kwargs))
            result = (_moved(own) if is_module else own)(*sent[0], **sent[1])
        found = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        if any(leaf.device.type == "cpu" for leaf in found):
            raise RuntimeError(f"arguments and results are on {TWO_DEVICES}: cuda:0 and cpu")
        return [torch.zeros(leaf.shape, dtype=leaf.dtype) for leaf in found]

    return called


def _on_gpu(value: Any) -> Any:
    return value.to("cuda") if isinstance(value, torch.Tensor) else value


def _moved(module: Any) -> Any:
    """The module on the GPU, as `module.cuda()` moves it; new parameters replace the real ones."""
    future, flag = torch.__future__, "_overwrite_module_params_on_conversion"
    with mock.patch.object(future, flag, True):
        return module.to("cuda")
