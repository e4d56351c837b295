"""Sizes that are no power of two: every kernel has masks, and every reduction a filled-up row."""

import torch
import torch.nn.functional as F

DTYPE = "bfloat16"
CHECKS = ("kernels", "parity")
SIZES = {"full": (1000, 300), "small": (37, 50)}


def odd_sizes(x, y):
    rows = (x * y).clamp(min=0)
    weights = torch.softmax(rows.float(), dim=-1).to(x.dtype)
    return weights, F.pad(rows, (1, 2)), rows.sum(dim=0)


def build(device, dtype, scale):
    x, y = (torch.randn(SIZES[scale], device=device, dtype=dtype) for _ in range(2))
    return odd_sizes, (x, y)
