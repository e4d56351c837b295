"""Which kernel `scaled_dot_product_attention` takes on a CUDA device that is not there.

Torch makes this choice in C++ from the device's properties, and without a device takes none of
the fused kernels. Decides it for the shapes whose rule is plain, from what the profile says.
Refuses to guess for the others: those need a real device.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch._C import DispatchKey

from patchgate.probe.simulate.fake_device import NeedsDevice

_OP = torch.ops.aten.scaled_dot_product_attention.default
# From here on cuDNN's attention comes first on data-centre Hopper and Blackwell (aten's sdp_utils.cpp).
_CUDNN_FIRST = 91501
_FUSED_HEAD = 128  # up to this head size no kernel has an exception of its own


@contextlib.contextmanager
def attention_of(properties: dict[str, Any]) -> Iterator[None]:
    """Take the kernel that a device of these properties takes."""
    capability = (properties["major"], properties["minor"])

    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        if query.device.type != "cuda":
            return _OP.decompose(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        if attn_mask is not None or dropout_p:
            raise NeedsDevice("scaled_dot_product_attention with a mask or dropout")
        grouped = enable_gqa and query.shape[-3] != key.shape[-3]
        kernel = choose(query, key, value, is_causal=is_causal, grouped=grouped, capability=capability)
        return _CALLS[kernel](query, key, value, is_causal, scale, enable_gqa)

    with mock.patch.dict(_OP.py_kernels, {DispatchKey.CompositeImplicitAutograd: attention}):
        _OP._dispatch_cache.clear()
        try:
            yield
        finally:
            _OP._dispatch_cache.clear()


def choose(query: Any, key: Any, value: Any, *, is_causal: bool, grouped: bool, capability: tuple[int, int]) -> str:
    """The kernel's name. Raises NeedsDevice outside of what is known."""
    head = query.shape[-1]
    if query.dim() != 4 or key.shape[-1] != head or value.shape[-1] != head or head % 8 or head > _FUSED_HEAD:
        raise NeedsDevice(f"scaled_dot_product_attention of {list(query.shape)}")
    if any(tensor.stride(-1) != 1 for tensor in (query, key, value)) or capability < (8, 0):
        raise NeedsDevice(f"scaled_dot_product_attention with strides {query.stride()} on capability {capability}")
    square = query.shape[-2] == key.shape[-2]
    if query.dtype in (torch.float16, torch.bfloat16):
        if capability in ((9, 0), (10, 0), (10, 3)) and _cudnn() >= _CUDNN_FIRST:
            return "cudnn"
        if square or not is_causal:
            return "flash"
    return "math" if grouped else "efficient"


def _cudnn() -> int:
    """The cuDNN that this release's CUDA build was made against; a CPU-only build has none, and stands in for it.

    The wheels for CUDA name 9.10.2 for 2.10.0, 9.19.0 for 2.11.0, and newer ones after.
    """
    if not hasattr(torch._C, "_cudnn"):
        return _CUDNN_FIRST if torch.__version__ >= "2.11" else 0
    major, minor, patch = torch._C._cudnn.getCompileVersion()
    return int(major * 10000 + minor * 100 + patch)


def _records(*tensors: Any) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _by_cudnn(query: Any, key: Any, value: Any, is_causal: bool, scale: float | None, grouped: bool) -> Any:
    op = torch.ops.aten._scaled_dot_product_cudnn_attention
    return op(query, key, value, None, _records(query, key, value), 0.0, is_causal, False, scale=scale)[0]


def _by_flash(query: Any, key: Any, value: Any, is_causal: bool, scale: float | None, grouped: bool) -> Any:
    told = scale if scale is not None else 1.0 / math.sqrt(query.shape[-1])
    op = torch.ops.aten._scaled_dot_product_flash_attention
    return op(query, key, value, 0.0, is_causal, False, scale=told)[0]


def _efficiently(query: Any, key: Any, value: Any, is_causal: bool, scale: float | None, grouped: bool) -> Any:
    op = torch.ops.aten._scaled_dot_product_efficient_attention
    return op(query, key, value, None, _records(query, key, value), 0.0, is_causal, scale=scale)[0]


def _by_maths(query: Any, key: Any, value: Any, is_causal: bool, scale: float | None, grouped: bool) -> Any:
    op = torch.ops.aten._scaled_dot_product_attention_math
    return op(query, key, value, None, 0.0, is_causal, None, scale=scale, enable_gqa=grouped)[0]


_CALLS = {"cudnn": _by_cudnn, "flash": _by_flash, "efficient": _efficiently, "math": _by_maths}
