"""Fragments of models in the spellings that passes over graphs look for, and near misses of them:
equal small calls, constants, casts, views, values that are written or used twice.

Fragments are separated by empty lines and read inputs by name. Left out are results that Inductor
itself changes, such as a cast to half precision and back, or zero times a possible NaN, and results
for which Inductor returns an input, such as a sum with zeros.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch

# Attention has as many heads as positions, so that a wrong permutation raises no error.
_SHAPES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("a", "b", "d", "e", "g", "h", "i", "p"), (4, 6)),
    **{"c": (1, 6), "m": (6, 6), "n": (6, 6)},
    **dict.fromkeys(("v", "w", "center", "spread"), (6,)),
    **dict.fromkeys(("q", "k", "u"), (2, 3, 3, 8)),
    # `rows` has twice as many rows as three products have columns, because passes join only
    # products of many rows.
    **{"image": (2, 4, 6, 6), "filters": (4, 4, 3, 3), "rows": (36, 6)},
    **{"turned": (6, 4), "apart": (4, 12)},  # the shapes in memory
}
# These fragments are run with and without gradients.
_TRAINED = """
# operands in the other order than they are made
x, y = a.sin(), b * 2
return (torch.add(y, x, alpha=3) * x, torch.sub(y, x, alpha=2), torch.addcmul(y, b, a, value=2),
    y / x.exp(), torch.where(y > x, y, x * 2), torch.maximum(y, x) - (y < x) * 1.0)

# attention, written out
w = (q @ k.transpose(-2, -1) * 0.3).softmax(-1)
return w @ u

w = (q @ k.permute(0, 2, 3, 1) / 3.0).softmax(-1)
return w @ u

w = (q @ k.mT * 0.3).softmax(-1)
return w @ u, w.sum(-1)

w = (q @ k.mT).masked_fill(torch.ones(3, 3).triu(1).bool(), float("-inf")).softmax(-1)
return w @ u

w = torch.softmax((q * 0.5) @ k.transpose(2, 3) + m[:3, :3], -1, dtype=torch.float32)
return torch.einsum("bhst,bhtd->bhsd", w, u)

w = torch.nn.functional.scaled_dot_product_attention
return w(q, k, u), w(q, k, u, is_causal=True), w(q, k, u, attn_mask=m[:3, :3], scale=0.7)

# folding of norms and of what follows a product
f = torch.nn.functional
x = f.linear(a, m, v)
return f.batch_norm(x, center, spread, w, v, eps=0.1)

f = torch.nn.functional
x = f.linear(a, m)
return f.batch_norm(x, center, spread, None, None, False, 0.1, 1e-3)

f = torch.nn.functional
x = f.linear(a, m, v)
return f.batch_norm(x, center, spread, w, v), x

f = torch.nn.functional
return f.batch_norm(f.linear(a, m), center, spread, w, v, training=True, eps=0.5), center * 1

f = torch.nn.functional
x = f.conv2d(image, filters, v[:4], padding=1)
return f.batch_norm(x, center[:4], spread[:4], w[:4], v[:4], eps=0.1).relu()

f = torch.nn.functional
x = f.conv2d(image, filters, stride=2, dilation=1, padding=(1, 0))
return f.batch_norm(x, center[:4], spread[:4], eps=0.1), f.conv2d(image, filters[:, :2], groups=2)

f = torch.nn.functional
return (f.conv_transpose2d(image, filters, output_padding=1, stride=2),
    f.conv1d(image[:, :, 0], filters[:, :, 0])
)

f = torch.nn.functional
x = f.avg_pool2d(image, 3, 2, 1), f.avg_pool2d(image, 3, 2, 1, count_include_pad=False)
return *x, f.max_pool2d(image, 2, ceil_mode=True), f.adaptive_avg_pool2d(image, 1)

return torch.relu(a @ m + v), torch.relu(torch.addmm(v, a, m)) + b, torch.addmm(b, a, m)

f = torch.nn.functional
return (f.gelu(f.linear(a, m, v)), f.gelu(f.linear(a, m), approximate="tanh") * b,
    f.linear(a, m).t()
)

return a @ m + v.double(), v + (a.double() @ m.double()), p @ m.to(p.dtype) + v, a @ m + w

# values that pass on no gradient, and those whose gradient is that of another
return (a * b.detach()).sum(-1), a + (a.round() - a).detach(), (a.exp() * a.detach()).mean()

x = a.tanh()
return (x.detach() * b).sum(0), x * x.mean().detach(), (x - x.amax(-1, keepdim=True).detach()).exp()

# squares next to their transposed forms
return m.t() + m, m - m.t(), torch.maximum(m.t(), n).tanh(), m.mT * n + m, (m.t() @ n) - n.t()

return a @ m + b, (a @ m) * 0.5 + b, b - a @ m, (a @ m).sum(-1), a @ m.t(), (m @ a.t()).t()

# products of one input, whose results are used in another order than they are made in
f = torch.nn.functional
x, y, z = f.linear(rows, m[:2], v[:2]), f.linear(rows, n, w), f.linear(rows, m[2:5], v[2:5])
return torch.cat([y, z, x], -1).sin()

x, y, z = rows @ m[:, :2], rows @ n, rows @ m[:, 3:]
return torch.cat([z, x, y], 1) * 2

f = torch.nn.functional
x, y, z = f.linear(rows, m, v), f.linear(rows, n, w), f.linear(rows, m.t(), w)
return torch.stack([z, x, y], 1).tanh()

f = torch.nn.functional
x, y, z = f.linear(rows, m), f.linear(rows, n[:2]), f.linear(rows, m[1:])
x, y, z = torch.cat([torch.cat([y, x], -1), z], -1).split([3, 6, 4], -1)
return f.linear(y, n, v) - z.sum(-1, keepdim=True), x
"""
_OTHERS = """
# norms, written out
x = a * torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-5)
return x * v

x = a * torch.rsqrt(a.pow(2).mean(0, keepdim=True) + 1e-2) * v
return x + b, x

x = a + b
y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
return y.to(p.dtype) * p, x

x = p.float()
x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)
return (x * v).to(p.dtype), p + 1

x = (a - a.mean(-1, keepdim=True)) / torch.sqrt(a.var(-1, keepdim=True, unbiased=False) + 1e-5)
return x * v + c, (a - a.mean()) / (a.std() + 1)

norm = torch.nn.functional
return (norm.layer_norm(a, (6,), v, w), norm.rms_norm(a + b, (6,), v, 1e-3),
    norm.layer_norm(a, (4, 6))
)

x = torch.nn.functional.group_norm(image, 2, eps=0.1)
return x, torch.nn.functional.batch_norm(image, center[:4], spread[:4], eps=0.01)

# products with one operand
f = torch.nn.functional
return f.linear(a, m, v), f.linear(a, n), f.linear(a, m[:2], v[:2])

return a @ m, a @ n, a @ (m + n)

return a @ m, b @ m, (a + b) @ m, a @ m.t()

x = (a @ m).relu()
return (x @ m).sin(), x + b

return torch.bmm(q[0], k[0].mT), torch.matmul(q, k[0].mT), q @ k[:1].mT

x = torch.einsum("ij,kj->ik", a, b)
return x, torch.einsum("ij,ij->i", a, b), torch.einsum("ij,jk->ki", a, m), x @ x.t()

return a.to(torch.bfloat16) @ m.to(torch.bfloat16), (p @ m.to(p.dtype)).float() + b

# parts of what was put together
x = torch.cat([a, b, c], 0)
return x[5:8] * 2, x[4:7].sin(), x[8:] + b, x[3:5].exp()

x = torch.cat([a, b], 1)
return x[:, 7:10].tanh(), x[:, 6:] * b, x[1:3, 5:8] + 1

# gated activations
f = torch.nn.functional
x, y = a.chunk(2, -1)
return f.silu(x) * y, x * f.silu(y)

f = torch.nn.functional
return f.silu(a[..., :3]) * a[..., 3:], f.gelu(a[..., 3:]) * a[..., :3], f.glu(a, -1), f.glu(a, 0)

x = a * 0.5 * (1 + torch.erf(a * 0.7071067811865476))
y = 0.5 * a * (1 + torch.tanh(0.7978845608028654 * (a + 0.044715 * a**3)))
return (x, y, a * torch.sigmoid(1.702 * a), a * torch.sigmoid(a),
    a * torch.tanh(torch.nn.functional.softplus(a))
)

return (a.relu() * b.sigmoid(), a.clamp(min=0), a.clamp(max=0), a.clamp(0, 6) / 6,
    torch.nn.functional.hardswish(a)
)

# quantisation
x = torch.round(h)
return x, (h / 0.5).round().clamp(-128, 127) * 0.5, torch.trunc(h), torch.floor(h + 0.5)

x = a.abs().amax(-1, keepdim=True).clamp(min=1e-4) / 127
y = (a / x).round().clamp(-128, 127).to(torch.int8)
return y, y.float() * x

x = (h * 2).to(torch.int32)
return (x.float() * 0.25, (x.float() - 3) * w, h.to(torch.int64),
    h.to(torch.int8).to(torch.float16)
)

x = (a * 0).abs().amax(-1, keepdim=True)
return (a * 0) / (x + 1e-6), torch.where(x == 0, torch.ones_like(x), 1 / x)

# equal small calls, and calls that are nearly equal
return a - b, d - e, g - h, b - a, torch.sub(d, a, alpha=2), torch.sub(e, g, alpha=2)

return a - b, d - e, g - h, b - d

return (torch.sub(a, b, alpha=2), torch.sub(d, e, alpha=2), torch.sub(g, h, alpha=2),
    torch.sub(b, d, alpha=2)
)

return a + b, d + e, g + h, torch.add(b, d, alpha=3), torch.add(a, e, alpha=3), c + a

return (torch.add(a, b, alpha=3), torch.add(d, e, alpha=3), torch.add(g, h, alpha=3),
    torch.add(b, d, alpha=3)
)

return a * b, d * e, g * h, a * c, b * 2, d * 2.0

return a.tanh(), b.tanh(), d.tanh(), e.tanh(), g.sigmoid(), h.sigmoid(), a.sigmoid(), b.sigmoid()

return (a.relu(), b.relu(), d.relu(), e.clamp(min=0), torch.nn.functional.leaky_relu(g),
    torch.nn.functional.leaky_relu(h, 0.3)
)

f = torch.nn.functional
return (f.layer_norm(a, (6,), v, w), f.layer_norm(b, (6,), w, v), f.layer_norm(d, (6,)),
    f.layer_norm(e, (6,), v, w, 0.1)
)

f = torch.nn.functional
return f.linear(a, m), f.linear(b, n), f.linear(d, m, v), f.linear(e, n, w), f.linear(g, m, w)

return i * 2, i * 2.0, i + 1, i + True, i / 2, i // 2, i + 1.0

return (i * 2) / 4 + b, (i * 2.0) // 4 + b, (i + 1).sum(0), (i + 1.0).mean(0), (i + True) * 2

return a * 0.0, a * -0.0, a * 1, a * True, a + 0, a - 0.0, a + (-0.0)

return (a * 0.0).reciprocal(), (a * -0.0).reciprocal(), (i * 2 + 1).float(), (i * 2.0 + 1).sqrt()

return a.sum(0), a.sum(0, keepdim=True), a.sum(-1), a.sum(-1, dtype=torch.float64), a.sum()

return a.softmax(0), a.softmax(-1), a.log_softmax(-1), a.softmax(-1, dtype=torch.float64)

return (a.clamp(min=0), a.clamp(max=0), a.clamp(0, 1), a.clamp(0.0, 1.0), a.pow(2), a.pow(2.0),
    a.pow(-1), a**0.5, a**1, a**0
)

return a.to(torch.float16), a.to(torch.bfloat16), a.to(torch.float64), a.half() * 2

return (a.argmax(), a.argmax(0), a.argmax(-1, keepdim=True), a.max(0), a.max(-1).indices,
    a.topk(2), a.sort(-1, descending=True)
)

return a == b, a > b, a >= b, b > a, (a > 0) & (b > 0), (a > 0) | (b > 0), ~(a > 0), a != a

# constants, and numbers that are none
x = a.masked_fill(a > 0.5, float("inf")).masked_fill(a < -0.5, float("nan"))
return x - x, x / x, x + 0, x * 1, x.clamp(-1, 1), torch.maximum(x, a), x.amax(-1)

x = a.masked_fill(a > 0.5, float("inf"))
return torch.where(a > 0.5, 0.0, x), x.softmax(-1), torch.nan_to_num(x), x.sum(0), x.relu()

x = torch.zeros(4, 6)
return (-(a + x), a * x, -(torch.ones_like(b) * b), torch.full((4, 6), 2.0) * a,
    -(d - torch.zeros_like(d)), torch.zeros(4, 1) + i
)

return (torch.arange(6) + i, torch.arange(6.0) * a, torch.eye(4) @ a, a.tril(), a.triu(1),
    torch.full((4, 1), 3) * i
)

x = torch.ones(4, 6, dtype=torch.float64)
return (a * x, a + torch.ones((), dtype=torch.float64), i + torch.ones(()), i * torch.ones(6),
    p * torch.ones(6)
)

# casts
return a.double().float(), p.float().to(p.dtype), p.float() + a, p.double().to(p.dtype)

return (i.float(), i.bool(), i.bool().int(), i.float().long(), (a > 0).float(), a.int().float(),
    a.long() + i, h.to(torch.int32)
)

return (p + a, p * 2, p * v[0], p + c.to(torch.float64), (p + p).sum(),
    p.sum(-1, dtype=torch.float32), p.mean(), p.exp()
)

# views, slices and joins
x = image.permute(0, 2, 3, 1)
return (x.permute(0, 3, 1, 2), x.permute(0, 2, 1, 3), x.permute(3, 0, 1, 2).contiguous(),
    x.reshape(2, -1, 4)
)

x = a.t()
return (x.t() + 1, x.t().t(), x.reshape(-1), x.contiguous().view(4, 6), a.view(6, 4),
    x.flatten() * 2
)

return (torch.cat([a[:2], a[2:]]), torch.cat([a[2:], a[:2]]), torch.cat([a[:3], a[2:]]),
    torch.cat([a[:, :2], a[:, 2:]], 1)
)

x, y, z = a.split([1, 2, 3], -1)
return torch.cat([x, y, z], -1), torch.cat([z, y, x], -1), torch.cat([x, z], -1), y + 1

x, y = a.chunk(2)
return (torch.cat([y, x]), torch.stack([x, y]), torch.stack(a.unbind(1), 1),
    torch.stack(a.unbind(0), 1), x + y
)

return (torch.cat([a, b]).sum(0), torch.cat([a, b])[:4] * 2, torch.cat([a, a], -1),
    torch.cat([a, c]), torch.cat([a[:0], b])
)

return (a[1:3][:1], a[1:][::2], a[-1], a[:, -1:], a[..., None], a[-2:], a[:100], a[4:],
    a.select(1, -1), a.narrow(0, 1, 2)
)

return (a[:, [0, 2]], a[i.abs()[0] % 4], a.index_select(1, i.abs()[0] % 6),
    a.gather(1, i.abs() % 6), a.roll(1, 0)
)

x = a.unsqueeze(0).expand(3, 4, 6)
return (x.sum(0), x.contiguous() * 2, c.expand(4, 6) + a, c.expand(4, 6).sum(0),
    v.expand(4, 6) * a, c.squeeze(0), c.squeeze(1)
)

x = a.clone()
x[1:3, ::2] = b[1:3, ::2]
return (x, torch.slice_scatter(a, b[:2], 0, 1, 3), torch.select_scatter(a, v, 0, 1),
    a.diagonal_scatter(v[:4])
)

return (torch.nn.functional.pad(a, (1, 2)), torch.nn.functional.pad(a, (0, -1), value=3.0),
    torch.nn.functional.pad(image, (1, 1, 1, 1), "reflect")
)

# padding in front of windows
f = torch.nn.functional
x, y = f.pad(image, (1, 1, 1, 1)), f.pad(-image.abs(), (1, 1, 1, 1))
return f.avg_pool2d(x, 3, 2), f.max_pool2d(y, 3, 2)

f = torch.nn.functional
x = f.max_pool2d(f.pad(-image.abs(), (1, 1, 1, 1)), 3)
return x, f.avg_pool2d(f.pad(image, (1, 1, 1, 1)), 2, count_include_pad=False)

f = torch.nn.functional
x = f.conv2d(f.pad(image, (1, 1, 1, 1)), filters), f.conv2d(f.pad(image, (2, 0)), filters, stride=2)
return *x, f.conv2d(f.pad(image, (1, 1, 1, 1), value=0.5), filters, padding=1)

x1, x2 = a[..., :3], a[..., 3:]
return (a * v + torch.cat([-x2, x1], -1) * w,
    torch.stack([-a[..., 1::2], a[..., ::2]], -1).flatten(-2)
)

return (torch.nn.functional.interpolate(image, scale_factor=2),
    torch.nn.functional.interpolate(image, size=3, mode="bilinear")
)

# results that are inputs, views and values that are written
x = a.view(-1)
y = a + 1
return x, a, y, y.view(6, 4), y

x = a.clone()
y = x.view(24)
x.add_(1)
return y, x, y.sum()

a.mul_(2)
return a, a + b

a[1:].copy_(b[1:])
b.zero_()
return a.sum(0), b

x = a * 2
y = x.relu_()
return y, x, x[0].add_(1), x

# copies: an input or a result is written after it was copied, or by the caller
x = a.clone()
a.add_(1)
return x * 2, x, a

x, y, z = a.t().contiguous(), b.detach().clone(), d[1:].clone()
a.mul_(2)
b[0].zero_()
d.copy_(e)
return x, y, z, y.t()

x, y = a.clone(), a.view(24).clone()
return x, a, y, a.t().contiguous(), b.detach().clone(), b[1:], c.expand(4, 6).contiguous()

x = a * 2
y = x.clone()
x[0] += 1
return x, y, y + 1

x = a.tanh()
return x, x.clone(), x.view(24), x.t().contiguous(), (x + 1).clone().sum(0), (x * 3).clone()

x = torch.empty_like(a).fill_(2)
x[:2] += a[:2]
return x, x.t(), torch.zeros_like(a).index_add_(0, i.abs()[:, 0] % 4, a), a.cumsum(-1)

# random numbers, of which no two are one
return (torch.rand_like(a) != torch.rand_like(a)).any(), (torch.randn(24) != torch.randn(24)).any()

# losses and reductions
f = torch.nn.functional
y = i.abs()[:, 0] % 6
return (f.cross_entropy(a, y), f.cross_entropy(a, y, reduction="sum"),
    f.cross_entropy(a, y, label_smoothing=0.2, ignore_index=2)
)

f = torch.nn.functional
return (f.mse_loss(a, b), f.l1_loss(a, b, reduction="none"), f.smooth_l1_loss(a, b, beta=0.5),
    f.kl_div(a, b), f.cosine_similarity(a, b)
)

x = a.log_softmax(-1)
return (-x.gather(1, i.abs()[:, :1] % 6).mean(), a.logsumexp(-1), a.logsumexp(0, keepdim=True),
    (a.exp() / a.exp().sum(-1, keepdim=True))
)

return (a.var(-1), a.var(0, unbiased=False), a.std(), a.norm(), a.norm(1, -1),
    a.norm(float("inf")), torch.linalg.vector_norm(a, 3, 0)
)

return (a.mean((0, 1)), a.mean(-1), a.mean(0, keepdim=True), image.mean((2, 3)),
    image.sum((0, 2)), image.amax((1, 3)), a.prod(-1), a.mean(-1, dtype=torch.float64)
)

return ((a > 0).any(), (a > 0).all(-1), (a > 9).any(0), (a > 0).sum(), i.sum(-1), i.amax(),
    i.float().mean(), a.count_nonzero()
)

x = torch.nn.functional.embedding(i.abs() % 4, a)
return (x.sum(1), torch.nn.functional.one_hot(i.abs() % 4).sum(),
    torch.nn.functional.embedding_bag(i.abs() % 4, a)
)

# no elements, and one
x = a[:0]
return (x + 1, x.sum(0), x.sum(), x @ m, torch.cat([x, b]), x.reshape(0, 3, 2), x.softmax(-1),
    x.t()
)

x = c[:, :1]
return (x.sum(-1), x.mean(0), x * a, x.squeeze(), x @ c, x.softmax(-1), x.expand(4, 6) * b,
    x[:1].reshape(())
)
"""
# For every pass and backend: writes to inputs that are not dense, slices of slices, and arithmetic
# with numbers that change nothing and with numbers that do. A further computation uses each result
# of the arithmetic: a pass may skip the graph's results, and torch returns an input for some.
FIRST = """
turned.mul_(2)
return turned.sum(0), turned + b

x = turned.sin()
apart.copy_(b)
turned[1:].add_(1)
return x, apart * 2, turned.cumsum(-1)

x = a[1:3][:9], a[:, 2:5][:, 1:99], a[1:][:-1], a[-3:][:2], a[:, 1:][:, 2:4], a[::2][1:], a[:3][2:]
return [each * 2 for each in x]

x = a // 1, a.div(1, rounding_mode="floor"), a.div(1, rounding_mode="trunc")
return [each * 2 for each in x]

x = a // 1.0, a / 1, a.floor_divide(torch.ones(6)), i // 1, i / 1, i.div(1, rounding_mode="floor")
return [each * 2 for each in x]

return (h % 1) * 2, h.fmod(1) * 2

x = a * 1, 1 / h.exp(), 1 - a, 0 - a, a * -1, a / -1, a ** 1, a ** 0, h * 0, 0 / h.exp(), 1 ** h
return *(each * 2 for each in x), (a - 0 + b) * 1.0, i * 1.0 + a, i + 0.0 - a, (i ** 1) * a

x, y = h.log(), torch.where(h > 0, h, h)
z = x * 1, x.maximum(h), x.clamp(min=0), h.clamp(max=0), h.clamp(-float("inf"))
return [each + 2 for each in (*z, h.maximum(h), h.minimum(x.exp() * 1), y.clamp(-9, 9), y)]

# casts in a row: to another sign, to fewer bits, and back
x, y = (a * 40).to(torch.int8), (a * 300).int()
z = x.to(torch.uint8), x.to(torch.uint8).to(torch.int8), x.short().to(torch.int8), y.short()
t = y.to(torch.uint8), y.bool(), (a * 3).double().float(), a.double().int().double()
return *(each.float() * 2 for each in (*z, *t)), *(each.int() + 1 for each in z), a.int().bool() * b

# sums of two products, one of which has a single row or column
return a @ m + b[:1] @ n, a[1:2] @ n + b @ m, a @ n[:, :1] + b @ m.t(), b @ n.t() - a @ m[:, 1:2]

# what is written is computed from what is written too
x = a + b
y = b - a
a.copy_(x)
b.copy_(y)
return m.sum(0)
"""


# For code that orders, fuses and allocates kernels.
KERNELS = """
# indices that wrap around
return a.repeat(2, 1) + 1, a.roll(1, 0) * 2, a.t().reshape(-1).sin()

# digits of constants in double precision
x = a.double()
return (x * 0.12345678901 - x * 0.1234567) * 1e7, x.clamp(-0.2345678901, 0.3456789012), x + 1 / 3

# an input is read and then written, and what is computed last is returned first
x = a @ m
a.add_(1)
return a * 2, x

x, y = a.sum(0), a.softmax(-1)
a.mul_(b)
return a.sum(-1), y, x

x = a @ m
a.mul_(2)
y = a @ m
a.copy_(b)
return a + 1, y, x

x = a.cumsum(-1)
a[1:].copy_(b[1:])
return a.mean(0), x

x = d.t() @ e
d.index_put_((i.abs()[:, 0] % 4,), e, accumulate=True)
return d.amax(-1), x

x = torch.nn.functional.conv2d(image, filters, padding=1)
image.mul_(0.5)
return image.sum((0, 1)), x.relu().mean((2, 3)), x

# a cache of keys and values
x = (q @ k.mT).softmax(-1) @ u
k[:, :, :1].copy_(q[:, :, 1:2])
u[:, :, 0] = 0
return (q @ k.mT).softmax(-1) @ u, x, k.sum(-1)

x = a.t()
y = x @ b
b.zero_()
a.add_(c)
return x + 1, b @ m, y

# constants of double precision
x = a.double()
return x * 0.1 + 1 / 3, (x + 2.718281828459045).sin() * 3.141592653589793, x.sum(-1) / 7

# elements that are counted through several views
x = a.t().reshape(24)
return x[3:6] * 2, x[5:17].view(3, 4).sin(), a.t().sin().reshape(24)[3:9].view(2, 3) + 1

x = (q * 2).permute(0, 2, 1, 3).reshape(-1)
return x[7:47].view(5, 8).exp(), x[3:19].view(2, 8) + 1, x[:100:5].view(4, 5).relu()

# memory that is free again
x = a @ m
y = x.relu() @ n
z = (x + y) @ m
return (z @ n).softmax(-1) @ m, y.sum(), z * 2, x

x = ((a @ m).tanh() @ n).tanh()
return (x @ m).tanh() @ n, (x.t() @ a).t().contiguous()

# dtypes of one width, in memory that is free again; all numbers are exact
x = (a * 4).round() @ (m * 4).round()
y = x.to(torch.int32).sort(-1).values
z = (y.float() @ (n * 4).round()).to(torch.int32).sort(0).values
return z, y.sum(), z * 2

x = (a * 4).round() @ (m * 4).round()
z = ((x @ (n * 4).round()).abs() @ (m * 2).round()).to(torch.int32)
return z.cumsum(0), z, x.sum(0)

x = (a * 4).round().double() @ (m * 4).round().double()
y = (x @ (n * 4).round().double()).to(torch.int64).sort(0)
return y.values * 2, y.values, x.sum(0)

x = ((a * 2).round() @ (m * 2).round()).bfloat16()
y = x.to(torch.int16).sort(-1).values
return (y.bfloat16() @ m.bfloat16()).sum(0), y * 2, y

# constants of several dtypes, some of which have equal bytes: 1.0 and 1065353216
x, y = torch.tensor([0] * 12), torch.tensor([0.0] * 12, dtype=torch.float64)
z, t = torch.tensor([1065353216] * 12, dtype=torch.int32), torch.tensor([1.0] * 12)
s, r = torch.tensor([-0.0, 2.0] * 6), torch.tensor([[0.0, 2.0]] * 6)
i, a = i.flatten()[:12], a.flatten()[:12]
return i + x, i / 2 + y, a + t, i.int() + z, a.copysign(s), r + a.view(6, 2), x - z, y * t, x, y

# indices that are computed, from numbers below zero too
x = torch.arange(6)
y = (x - 4) % 6, (x * 5 - 7) % 6, (x - 9).remainder(6), (2 - x).clamp(0, 5), x // 2, (x - 3).abs()
z = (x[:5] - 5) % 6, (torch.arange(5) - 5) % 6, (x * 7 - 3) % 6, (i - 5).clamp(-6, 5), (x // 2) % -6
t = torch.where(x > 2, x % 6, -1 - x % 6)
s = a[:, -x - 1], a[(x - 3) % 4, x], m[y[0], y[1]], n[z[2][0]]
return *(v[each] for each in (*y, *z, t)), *s

# what may be fused with each other, and with a product
# reductions; Inductor unrolls those of up to eight elements
return (a.sum(0), a.amax(1), a.mean(), (a * 2).t().contiguous(), a.softmax(0), a.argmax(-1),
    (a - a.mean(-1, keepdim=True)).square().sum(-1), (a + b).sum(), (a * b).cumsum(0),
    (-rows.abs()).amax(0), rows.abs().amin(0), (-rows.abs()).argmax(0), rows.var(0), rows.prod(0)
)

x = torch.cat([a @ m, b * 2, c.expand(4, 6)], -1)
y, z = x.split([6, 12], -1)
return z.relu().sum(-1), y.t().contiguous(), x.amax(0), x

x = (a * 2 + b).relu() @ (m + n)
y = torch.nn.functional.gelu(x + v) * w
return y.sum(-1), x, (y @ n).tanh() + y

# numbers below the smallest normal one
x = a * 1e-40
return x * 1e38, (x + b * 1e-42) * 1e38, x.sum(0) * 1e38, x.double() * 1e-270 * 1e305

# slices that begin before the first element, or end behind the last
x = a.clone()
x[:, -9:3] = b[:, :3]
x[-7:].mul_(2)
return x, torch.slice_scatter(a, b[:, 2:], 1, -9, 4), b[-9:, -2:9] * 2

# places that are computed from numbers below zero
i = torch.arange(8)
x = a.flatten()
return x[(i - 3) & 7], x[(i - 9) % 8], x[(2 - i) >> 3], x[(i - 8) | 1], x[(i - 4) ^ 5], (i - 3) // 2
"""
# These programs are compiled in another thread than the one that imported the patch.
OF_A_THREAD = """
import concurrent.futures
f = torch.compile(lambda x, y: ((x @ y).relu().sum(-1), (x * 2).sin()))
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    return pool.submit(f, a, m).result()
"""


# Each call must draw new random numbers; a user's assert and a wrong index must raise; a training
# graph without a backward must leave no option changed.
OF_CALLS = """
f = torch.compile(lambda x: (torch.nn.functional.dropout(x, 0.5), torch.rand_like(x) + x,
    torch.randn(3, 4).cos(), torch.randperm(24)))
return tuple(torch.tensor(torch.equal(x, y)) for x, y in zip(f(a), f(a)))

f = torch.compile(lambda x: (torch._assert_async((x < 1e9).all() & (x > 0).all(), "small"), x * 2))
try:
    return f(a.abs() + 1)[1], f(a - 1e6)[1]
except RuntimeError:
    return a

f, found = torch.compile(lambda x, y, at: (x[at] * 2 + y[at]).sin()), []
for at in ([0, 3], [1, 5], [-5, 2], [-2, 1]):  # the second table is the shorter one
    try:
        found.append(f(m, a, torch.tensor(at)))
    except (IndexError, RuntimeError):
        found.append(torch.zeros(2, 6))
return found

from torch._inductor.utils import get_code
f = torch.compile(lambda x, y: ((x @ m).sin() * y).sum(-1))
try:
    get_code(f, a.clone().requires_grad_(), b)
except Exception:  # the code is not built, so that it fails
    pass
return a
"""


# For each set of options: a product, reductions, memory that is free again, and an input that is
# read and then written.
OF_OPTIONS = """
x = a @ m
y = x.relu() @ n
b.mul_(x.sum(-1, keepdim=True))
return (y @ m - x.mean()).t().contiguous(), b
"""


def fragments(generator: torch.Generator) -> Iterator[tuple[str, tuple[torch.Tensor, ...]]]:
    """Texts of programs and their inputs. Fragments that are run with and without gradients come
    first, then the others.
    """
    yield from written_programs(_TRAINED, generator, trained=True)
    yield from written_programs(_OTHERS, generator, trained=False)


def written_programs(
    text: str, generator: torch.Generator, *, trained: bool
) -> Iterator[tuple[str, tuple[torch.Tensor, ...]]]:
    """Programs of the fragments in a text, and their inputs. If `trained`, each program is given
    again with inputs that require gradients.
    """
    values = _values(generator)
    for fragment in text.strip().split("\n\n"):
        lines = [line for line in fragment.splitlines() if not line.startswith("#")]
        names = [name for name in values if re.search(rf"\b{name}\b", "\n".join(lines))]
        program = "\n    ".join([f"def program({', '.join(names)}):", *lines])
        inputs = tuple(values[name] for name in names)
        yield f"{program}\n", inputs
        if trained:
            yield f"{program}\n", tuple(map(_trained, names, inputs))


def _values(generator: torch.Generator) -> dict[str, torch.Tensor]:
    values = {name: torch.randn(shape, generator=generator) for name, shape in _SHAPES.items()}
    return values | {
        "w": values["w"].abs() + 0.5,
        "spread": values["spread"].abs() + 0.5,
        "h": (values["h"] * 4).round() / 2,
        "p": values["p"].to(torch.bfloat16),
        "i": (values["i"] * 2).to(torch.int64),
        "turned": values["turned"].t(),
        "apart": values["apart"][:, ::2],
    }


def _trained(name: str, value: torch.Tensor) -> torch.Tensor:
    """The value with a gradient; statistics of a norm and integers are unchanged."""
    if name in ("center", "spread") or not value.is_floating_point():
        return value
    return value.clone().requires_grad_()
