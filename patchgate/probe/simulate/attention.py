"""Which kernel `scaled_dot_product_attention` takes on a CUDA device that is not there.

Torch makes this choice in C++ from the device's properties, and without a device takes none of the fused
kernels. Here it is made from the profile where torch's rule is plain; other shapes raise NeedsDevice.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch._C import DispatchKey

from patchgate.probe.protocol import Profile
from patchgate.probe.simulate.fake_device import NeedsDevice

_OP = torch.ops.aten.scaled_dot_product_attention.default
# The version from which cuDNN's attention comes first on data-centre Hopper and Blackwell (aten's sdp_utils.cpp).
_CUDNN_FIRST = 91501
_CUDNN_CAPABILITIES = ((9, 0), (10, 0), (10, 3))
_FUSED_HEAD = 128  # up to this head size no kernel has an exception of its own


@contextlib.contextmanager
def simulated_attention(profile: Profile) -> Iterator[None]:
    """Within it, attention on the profile's device becomes the kernel that such a device runs."""
    capability = (profile["properties"]["major"], profile["properties"]["minor"])

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
        if query.device.type != profile["backend"]:
            return _OP.decompose(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        if attn_mask is not None or dropout_p:
            raise NeedsDevice("scaled_dot_product_attention with a mask or dropout")
        grouped = enable_gqa and query.shape[-3] != key.shape[-3]
        kernel = attention_kernel(query, key, value, is_causal=is_causal, grouped=grouped, capability=capability)
        return _call(kernel, query, key, value, is_causal, scale, enable_gqa)

    with mock.patch.dict(_OP.py_kernels, {DispatchKey.CompositeImplicitAutograd: attention}):
        _OP._dispatch_cache.clear()
        try:
            yield
        finally:
            _OP._dispatch_cache.clear()


def attention_kernel(
    query: Any, key: Any, value: Any, *, is_causal: bool, grouped: bool, capability: tuple[int, int]
) -> str:
    """ "cudnn", "flash", "efficient" or "math". Raises NeedsDevice where torch's rule is not known here."""
    head = query.shape[-1]
    if query.dim() != 4 or key.shape[-1] != head or value.shape[-1] != head or head % 8 or head > _FUSED_HEAD:
        raise NeedsDevice(f"scaled_dot_product_attention of {list(query.shape)}")
    if any(tensor.stride(-1) != 1 for tensor in (query, key, value)) or capability < (8, 0):
        raise NeedsDevice(f"scaled_dot_product_attention with strides {query.stride()} on capability {capability}")
    square = query.shape[-2] == key.shape[-2]
    if query.dtype in (torch.float16, torch.bfloat16):
        if capability in _CUDNN_CAPABILITIES and cudnn_version() >= _CUDNN_FIRST:
            return "cudnn"
        if square or not is_causal:
            return "flash"
    return "math" if grouped else "efficient"


def cudnn_version() -> int:
    """The cuDNN that this release's CUDA build was made with, as 91501 for 9.15.1.

    The wheels for CUDA have 9.10.2 in torch 2.10.0, 9.19.0 in 2.11.0, and newer ones after. A CPU-only build
    does not say, and gets what is equivalent for the choice.
    """
    if not hasattr(torch._C, "_cudnn"):
        return _CUDNN_FIRST if torch.__version__ >= "2.11" else 0
    major, minor, patch = torch._C._cudnn.getCompileVersion()
    return int(major * 10000 + minor * 100 + patch)


def _call(kernel: str, query: Any, key: Any, value: Any, is_causal: bool, scale: float | None, enable_gqa: bool) -> Any:
    aten, qkv = torch.ops.aten, (query, key, value)
    # Whether the logarithms that a backward pass needs are stored.
    records = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in qkv)
    if kernel == "cudnn":
        op = aten._scaled_dot_product_cudnn_attention
        return op(*qkv, None, records, 0.0, is_causal, False, scale=scale)[0]
    if kernel == "flash":
        scale = scale if scale is not None else 1.0 / math.sqrt(query.shape[-1])
        return aten._scaled_dot_product_flash_attention(*qkv, 0.0, is_causal, False, scale=scale)[0]
    if kernel == "efficient":
        return aten._scaled_dot_product_efficient_attention(*qkv, None, records, 0.0, is_causal, scale=scale)[0]
    op = aten._scaled_dot_product_attention_math
    return op(*qkv, None, 0.0, is_causal, None, scale=scale, enable_gqa=enable_gqa)[0]
