"""Chooses the kernel that `scaled_dot_product_attention` takes on a CUDA device that is not there.

Torch chooses the kernel in C++ by the device's properties, and takes no fused kernel without a
device. Here the same rules are applied to the profile. Tests compare the choices with an H200's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch._C import DispatchKey

from patchgate.probe.protocol import Profile
from patchgate.probe.simulate.needs_device import NeedsDevice

_OP = torch.ops.aten.scaled_dot_product_attention.default
# The version from which cuDNN's attention comes first on data-centre Hopper and Blackwell (aten's
# sdp_utils.cpp).
_CUDNN_FIRST = 91501
_CUDNN_CAPABILITIES = ((9, 0), (10, 0), (10, 3))
# From torch 2.12 on, cuDNN's attention is taken only for a dropout in sixteenths, which its kernels
# represent exactly (pytorch#174245).
_CUDNN_DROPOUTS = 16
_HALF = (torch.float16, torch.bfloat16)
_FLASH_HEAD = 8  # torch pads heads to a multiple of this before flash attention
_MASK_ALIGNMENT = 16  # in elements; the memory-efficient kernel reads a mask's row in such pieces


@contextmanager
def simulated_attention(profile: Profile) -> Iterator[None]:
    """Until the context ends, attention on the profile's device is traced as a call of the kernel
    that a real device runs.
    """
    capability = (profile["properties"]["major"], profile["properties"]["minor"])

    def attention(*args: Any, **kwargs: Any) -> Any:
        call = Attention(*args, **kwargs)
        if call.query.device.type != profile["backend"]:
            return _OP.decompose(*args, **kwargs)
        _refuse_what_torch_refuses(call)
        return _call(attention_kernel(call, capability), call)

    with mock.patch.dict(_OP.py_kernels, {DispatchKey.CompositeImplicitAutograd: attention}):
        _OP._dispatch_cache.clear()
        try:
            yield
        finally:
            _OP._dispatch_cache.clear()


class Attention(NamedTuple):
    """The arguments of one call, by torch's names. Tensors have the dimensions (batch, heads,
    length, size of a head) or no batch.
    """

    query: Any
    key: Any
    value: Any
    attn_mask: Any = None  # boolean, additive, or None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False  # query may have several heads for each head of key and value

    @property
    def tensors(self) -> tuple[Any, Any, Any]:
        return self.query, self.key, self.value

    @property
    def records_gradients(self) -> bool:
        """True if the call must store the logarithms that a backward pass needs."""
        return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in self.tensors)


def attention_kernel(call: Attention, capability: tuple[int, int]) -> str:
    """Return "cudnn", "flash", "efficient" or "math", as torch chooses for this capability.

    The rules are those of aten's sdp_utils.cpp in torch 2.11 and 2.12, and were compared with an
    H200's choices. Raises NeedsDevice for a capability below 8.0.
    """
    if capability < (8, 0):
        raise NeedsDevice(f"scaled_dot_product_attention on capability {capability}")
    if not _fits_fused_kernels(call):
        return "math"
    takes_cudnn = capability in _CUDNN_CAPABILITIES and cudnn_version() >= _CUDNN_FIRST
    if takes_cudnn and _fits_cudnn(call):
        return "cudnn"
    if _fits_flash(call, capability):
        return "flash"
    return "efficient" if _fits_efficient(call) else "math"


def _fits_fused_kernels(call: Attention) -> bool:
    """True if the inputs meet the requirements that all fused kernels have in common."""
    query, key, value = call.tensors
    return bool(
        all(tensor.dim() == 4 for tensor in call.tensors)
        and query.shape[0] == key.shape[0] == value.shape[0]
        and query.dtype == key.dtype == value.dtype
        and query.shape[-2]
        and key.shape[-2]
        and (call.attn_mask is None or call.attn_mask.stride(-1) == 1)
    )


def _fits_cudnn(call: Attention) -> bool:
    query, key, value = call.tensors
    head, value_head = query.shape[-1], value.shape[-1]
    heads_fit = max(head, value_head) <= 256
    lengths_fit = key.shape[-2] != 1 and (query.shape[-2] != 1 or not call.dropout_p)
    return bool(
        query.dtype in _HALF
        and _rows_are_contiguous(call, also_of_size_one=True)
        and _heads_divide(call, key, value)
        and heads_fit
        and head % 8 == value_head % 8 == 0
        and lengths_fit
        and _mask_broadcasts(call)
        and (torch.__version__ < "2.12" or call.dropout_p * _CUDNN_DROPOUTS % 1 == 0)
    )


def _fits_flash(call: Attention, capability: tuple[int, int]) -> bool:
    query, key, value = call.tensors
    head = query.shape[-1]
    # The backward pass of a large head does not fit into the shared memory of a small chip.
    small_chip = (8, 6) <= capability <= (8, 9) or capability >= (12, 0)
    trains = (
        not (call.records_gradients and small_chip)
        or head <= 192
        or (head > 224 and not call.dropout_p)
    )
    return bool(
        query.dtype in _HALF
        and call.attn_mask is None
        and head == key.shape[-1] == value.shape[-1] <= 256
        and trains
        and not (call.is_causal and query.shape[-2] != key.shape[-2])
        and key.shape[-3] == value.shape[-3]
        and _heads_divide(call, key)
        and _rows_are_contiguous(call, also_of_size_one=True)
    )


def _fits_efficient(call: Attention) -> bool:
    query, key, value = call.tensors
    alignment = 8 if query.dtype in _HALF else 4
    return bool(
        query.dtype in (*_HALF, torch.float32)
        and query.shape[-1] == key.shape[-1]
        and not any(size % alignment or size == 0 for size in (query.shape[-1], value.shape[-1]))
        and _rows_are_contiguous(call, also_of_size_one=False)
        and query.shape[-3] == key.shape[-3] == value.shape[-3]
    )


def _rows_are_contiguous(call: Attention, *, also_of_size_one: bool) -> bool:
    """True if the elements of each row are adjacent in memory. With `also_of_size_one`, rows of one
    element are always accepted.
    """
    one = also_of_size_one and call.query.shape[-1] == 1
    return one or all(tensor.stride(-1) == 1 for tensor in call.tensors)


def _heads_divide(call: Attention, *others: Any) -> bool:
    heads = call.query.shape[-3]
    if call.enable_gqa:
        return all(heads % other.shape[-3] == 0 for other in others)
    return all(heads == other.shape[-3] for other in others)


def _mask_broadcasts(call: Attention) -> bool:
    mask = call.attn_mask
    if mask is None:
        return True
    fits = mask.shape[-2] in (call.query.shape[-2], 1) and mask.shape[-1] in (call.key.shape[-2], 1)
    heads = (
        mask.dim() == 4
        and mask.shape[0] in (1, call.query.shape[0])
        and mask.shape[1] in (1, call.query.shape[1])
    )
    return fits and not mask.requires_grad and (mask.dim() == 2 or heads)


def _refuse_what_torch_refuses(call: Attention) -> None:
    """Raise RuntimeError for arguments that torch refuses on every device."""
    mask, dtype = call.attn_mask, call.query.dtype
    why = ""
    if mask is not None and mask.dtype not in (torch.bool, torch.float32, dtype):
        why = f"a mask of {mask.dtype} for a query of {dtype}"
    if not dtype == call.key.dtype == call.value.dtype:
        why = "query, key and value have different dtypes"
    if call.is_causal and mask is not None:
        why = "attn_mask should not be set when is_causal=True"
    if why:
        raise RuntimeError(f"scaled_dot_product_attention: {why}")


def cudnn_version() -> int:
    """Return the version of cuDNN in this release's CUDA build, as 91501 for 9.15.1.

    The wheels for CUDA have 9.10.2 in torch 2.10.0, 9.19.0 in 2.11.0, and newer ones later. A
    CPU-only build does not know it; there any version that leads to the same choice suffices.
    """
    if not hasattr(torch._C, "_cudnn"):
        return _CUDNN_FIRST if torch.__version__ >= "2.11" else 0
    major, minor, patch = torch._C._cudnn.getCompileVersion()
    return int(major * 10000 + minor * 100 + patch)


def _call(kernel: str, call: Attention) -> Any:
    aten, qkv = torch.ops.aten, call.tensors
    _, _, _, mask, dropout, is_causal, scale, grouped = call
    if mask is not None and mask.dtype == torch.bool:
        hidden = torch.finfo(torch.float16).min if kernel == "cudnn" else -math.inf
        mask = torch.where(
            mask, 0.0, torch.scalar_tensor(hidden, dtype=call.query.dtype, device=mask.device)
        )
    if kernel == "cudnn":
        op = aten._scaled_dot_product_cudnn_attention
        return op(*qkv, mask, call.records_gradients, dropout, is_causal, False, scale=scale)[0]
    if kernel == "flash":
        head = call.query.shape[-1]
        scale = scale if scale is not None else 1.0 / math.sqrt(head)
        missing = [-tensor.shape[-1] % _FLASH_HEAD for tensor in qkv]
        padded = [
            aten.constant_pad_nd(tensor, [0, filled], 0.0) if filled else tensor
            for tensor, filled in zip(qkv, missing, strict=True)
        ]
        output = aten._scaled_dot_product_flash_attention(
            *padded, dropout, is_causal, False, scale=scale
        )[0]
        return output if output.shape[-1] == head else output[..., :head]
    if kernel == "efficient":
        mask = mask if mask is None else _aligned_mask(mask, call)
        op = aten._scaled_dot_product_efficient_attention
        return op(*qkv, mask, call.records_gradients, dropout, is_causal, scale=scale)[0]
    op = aten._scaled_dot_product_attention_math
    return op(*qkv, mask, dropout, is_causal, None, scale=scale, enable_gqa=grouped)[0]


def _aligned_mask(mask: Any, call: Attention) -> Any:
    """Expand `mask` to all heads, with rows that start at multiples of 16 elements, as the
    memory-efficient kernel reads it.
    """
    length = mask.shape[-1]
    if mask.stride(-1) != 1 or any(stride % _MASK_ALIGNMENT for stride in mask.stride()[:-1]):
        # If the length is a multiple of 16 already, 16 more columns are added.
        missing = _MASK_ALIGNMENT - length % _MASK_ALIGNMENT
        mask = torch.ops.aten.constant_pad_nd(mask, [0, missing], 0.0)[..., :length]
    return mask.expand(*call.query.shape[:-1], call.key.shape[-2])
